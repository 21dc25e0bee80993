"""`doctor`: one finding a fault, the one thing to do about it, and nothing changed by looking (spec §2)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Run = Callable[..., Result]
REPOSITORY = Path(__file__).parents[2]
NONE = "[embeddings]\nprovider = 'none'\n"


def findings(run: Run, home: Path, text: str = "", *, port: str = "0") -> tuple[int, list[dict[str, str]]]:
    file = home / "sidecar.toml"
    file.write_text(text if "[embeddings]" in text else text + NONE)
    workspace = [] if "[agents" in text else ["--workspace", "ws"]
    result = run("doctor", "--json", "--config", str(file), "--port", port, *workspace)
    found = json.loads(result.stdout)
    assert {"ok": 0, "warning": 1, "error": 2}[found["status"]] == result.exit_code
    return result.exit_code, found["findings"]


def bad(found: list[dict[str, str]]) -> list[tuple[str, str, str]]:
    return [(item["check"], item["level"], item["action"]) for item in found if item["level"] != "ok"]


def test_a_sound_installation_has_nothing_to_do_and_is_not_touched(run: Run, home: Path) -> None:
    before = sorted(str(path) for path in home.rglob("*"))
    code, found = findings(run, home)
    assert (code, bad(found)) == (0, [])
    assert {item["check"] for item in found} == {
        "configuration", "workspace main", "state", "service", "limits", "watch", "embeddings", "tokens",
        "port",
    }  # fmt: skip
    assert sorted(str(path) for path in home.rglob("*")) == sorted([*before, str(home / "sidecar.toml")])


def test_a_missing_workspace_is_an_error_with_the_place_to_correct_it(run: Run, home: Path) -> None:
    code, found = findings(run, home, '[agents.main]\nworkspace = "gone"\n')
    assert code == 2
    assert bad(found) == [
        ("workspace main", "error", f"create it or correct the workspace in {home / 'sidecar.toml'}")
    ]


def test_notes_that_would_not_be_found_are_named_with_what_status_says_of_them(run: Run, home: Path) -> None:
    workspace = home / "ws"
    (workspace / "memory.md").write_text("x")
    (workspace / "memory" / "old.MD").write_text("x")
    (home / "shared").mkdir()
    (workspace / "memory" / "linked").symlink_to(home / "shared")
    code, found = findings(run, home, '[agents.main]\nworkspace = "ws"\nextra_paths = ["../nowhere"]\n')
    assert code == 1
    assert sorted(bad(found)) == [
        ("workspace main", "warning", 'add to the agent: extra_paths = ["memory/linked"]'),
        ("workspace main", "warning", f"create {home / 'ws' / '..' / 'nowhere'} or remove the entry"),
        ("workspace main", "warning", "rename it to the name that is read, or merge it into that file"),
        ("workspace main", "warning", "rename it, so that its name ends in .md"),
    ]
    status = run("status", "--workspace", "ws", MEMORY_SIDECAR_EMBEDDINGS_PROVIDER="none")
    assert status.exit_code == 2  # there is no state directory yet, and none is made
    run("index", "--workspace", "ws", MEMORY_SIDECAR_EMBEDDINGS_PROVIDER="none")
    status = run("status", "--workspace", "ws", MEMORY_SIDECAR_EMBEDDINGS_PROVIDER="none")
    assert 'add to the agent: extra_paths = ["memory/linked"]' in status.stdout


def test_a_link_that_extra_paths_admits_is_reported_no_more(run: Run, home: Path) -> None:
    (home / "shared").mkdir()
    (home / "shared" / "a.md").write_text("x")
    (home / "ws" / "memory" / "linked").symlink_to(home / "shared")
    text = '[agents.main]\nworkspace = "ws"\nextra_paths = ["memory/linked"]\n'
    assert bad(findings(run, home, text)[1]) == []


def test_transcripts_that_are_switched_on_and_not_there_are_named(run: Run, home: Path) -> None:
    text = '[agents.main]\nworkspace = "ws"\n[agents.main.sessions]\nenabled = true\ndirectory = "talks"\n'
    _, found = findings(run, home, text)
    action = "create it or correct agents.main.sessions.directory"
    assert bad(found) == [("transcripts main", "warning", action)]
    (home / "talks").mkdir()
    assert bad(findings(run, home, text)[1]) == []


def test_a_folder_without_memory_is_doubted(run: Run, home: Path) -> None:
    shutil.rmtree(home / "ws")
    (home / "ws").mkdir()
    code, found = findings(run, home)
    assert (code, bad(found)) == (
        1,
        [("workspace main", "warning", "check that this is the agent's workspace")],
    )


def test_a_state_directory_that_is_open_to_others_or_inside_memory_is_found(run: Run, home: Path) -> None:
    state = Path(
        run("token", "--workspace", "ws").stdout and next((home / ".local/state/memory-sidecar").iterdir())
    )
    (state / "host.token").chmod(0o644)
    code, found = findings(run, home)
    assert code == 2
    assert ("state", "warning", f"chmod -R go= {state}") in bad(found)
    assert ("tokens", "error", f"chmod 600 {state / 'host.token'}") in bad(found)
    result = run("doctor", "--json", "--workspace", "ws", "--state-dir", "ws/state", "--port", "0")
    assert ("state", "error", "pass a --state-dir outside of it") in bad(
        json.loads(result.stdout)["findings"]
    )
    assert not (home / "ws/state").exists()


def test_a_configured_token_that_cannot_be_had_is_an_error(run: Run, home: Path) -> None:
    text = '[[tokens]]\nname = "g"\nrole = "host"\nsecret_env = "G"\n'
    code, found = findings(run, home, text)
    assert (code, bad(found)) == (2, [("tokens", "error", "set G to a random secret of 32 characters")])


def test_the_port_is_free_ours_or_somebody_elses(run: Run, home: Path, desk: Any) -> None:
    code, found = findings(run, home, port=str(desk.port))
    assert code == 0
    assert found[-1]["message"].startswith(f"our service runs on 127.0.0.1:{desk.port}")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        code, found = findings(run, home, port=str(taken))
    assert (code, bad(found)) == (2, [("port", "error", "stop it or pass another --port")])
    assert findings(run, home, port=str(taken))[1][-1]["message"] == f"127.0.0.1:{taken} is free"


def test_a_service_whose_state_directory_was_deleted_is_told_from_a_foreign_program(
    run: Run, home: Path, desk: Any
) -> None:
    shutil.rmtree(desk.state)
    code, found = findings(run, home, port=str(desk.port))
    action = "pass the flags that it was started with, or end it and start it again"
    assert (code, bad(found)) == (2, [("port", "error", action)])


def test_the_bundled_model_is_loaded_and_an_endpoints_missing_key_is_found(run: Run, home: Path) -> None:
    assert findings(run, home, "[embeddings]\nprovider = 'local'\n")[0] == 0
    remote = (
        '[embeddings]\nprovider = "openai-compatible"\nbase_url = "http://e.example"\nmodel = "m"\n'
        'api_key_env = "K"\n'
    )
    code, found = findings(run, home, remote)
    assert (code, bad(found)) == (2, [("embeddings", "error", "set K to the API key")])


def test_a_broken_configuration_is_a_finding_too(run: Run, home: Path) -> None:
    code, found = findings(run, home, "prot = 1\n")
    assert code == 2
    assert [item["check"] for item in found] == ["configuration"]
    assert "did you mean" in found[0]["message"]


def test_the_readable_form_names_the_action_under_its_finding(run: Run, home: Path) -> None:
    (home / "ws" / "memory.md").write_text("x")
    result = run("doctor", "--workspace", "ws", "--port", "0", MEMORY_SIDECAR_EMBEDDINGS_PROVIDER="none")
    lines = result.stdout.splitlines()
    at = lines.index("warning workspace main: not indexed (name-case): memory.md")
    assert lines[at + 1] == "        -> rename it to the name that is read, or merge it into that file"


def test_exhausted_watch_instances_are_a_warning_and_an_error_where_events_are_demanded(home: Path) -> None:
    script = 'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"'
    probe = ["unshare", "-Ur", "sh", "-c", script, "sh"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*probe, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("needs user namespaces")
    for mode, level, code in (("auto", "warning", 1), ("events", "error", 2)):
        done = subprocess.run(
            [*probe, sys.executable, "-m", "sidecar", "doctor", "--json", "--port", "0"],
            capture_output=True, text=True, check=False, cwd=REPOSITORY,
            env={**os.environ, "MEMORY_SIDECAR_WORKSPACE": str(home / "ws"),
                 "MEMORY_SIDECAR_WATCH_MODE": mode,
                 "MEMORY_SIDECAR_EMBEDDINGS_PROVIDER": "none"},
        )  # fmt: skip
        found = json.loads(done.stdout)["findings"]
        assert ("watch", level, "raise fs.inotify.max_user_instances by sysctl") in bad(found)
        assert done.returncode == code

"""Failures that users report of such services and can cause: each with the one thing to do (spec §2)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from sidecar.service.advice import remedy
from sidecar.settings.state import StateDirectory

Run = Callable[..., Result]
WS = ("--workspace", "ws")
NONE = {"MEMORY_SIDECAR_EMBEDDINGS_PROVIDER": "none"}
ODD: dict[str, tuple[str, str]] = {
    # path: reason, what to do
    "USER.md": ("link", 'add to the agent: extra_paths = ["USER.md"]'),
    "memory/dangling.md": ("link", "links are not followed"),
    "memory/pipe.md": ("pipe", "put a regular file in its place"),
    "memory/dir.md": ("folder", "rename the folder"),
    "memory.md": ("name-case", "rename it to the name that is read"),
    "memory/OLD.MD": ("extension-case", "its name ends in .md"),
    "memory/private": ("excluded", "remove the pattern that fits it from exclude"),
    "../missing": ("missing", "create it, or correct the path"),
}
CUT_SHORT: dict[str, tuple[bytes, str, str]] = {
    "memory/latin1.md": ("caf\xe9 au lait\n".encode("latin-1"), "invalid-utf8", "save it as UTF-8"),
    "memory/nul.md": (b"\0\1\2\xff" * 50, "binary", "save it as text in UTF-8"),
    "memory/huge.md": (b"word" + b"\n" * 4_200_000, "too-large", "split it"),
}


@pytest.fixture
def odd(home: Path) -> Path:
    """A workspace with every odd file of the reports, and the configuration for it."""
    workspace = home / "ws"
    (home / "elsewhere.md").write_text("x\n")
    (workspace / "USER.md").symlink_to(home / "elsewhere.md")
    (workspace / "memory" / "dangling.md").symlink_to(home / "nothing.md")
    os.mkfifo(workspace / "memory" / "pipe.md")
    (workspace / "memory" / "dir.md").mkdir()
    (workspace / "memory.md").write_text("x\n")
    (workspace / "memory" / "OLD.MD").write_text("x\n")
    (workspace / "memory" / "private").mkdir()
    for name, (content, _, _) in CUT_SHORT.items():
        (workspace / name).write_bytes(content)
    file = home / "odd.toml"
    file.write_text(
        '[agents.main]\nworkspace = "ws"\nexclude = ["memory/private/"]\nextra_paths = ["../missing"]\n'
        '[embeddings]\nprovider = "none"\n'
    )
    return file


@pytest.mark.slow
def test_one_odd_file_stops_nothing_and_each_is_named_with_what_to_do(run: Run, odd: Path) -> None:
    flags = ("--config", str(odd))
    assert run("index", *flags).exit_code == 0
    assert "MEMORY.md:1" in run("search", "tea", *flags).stdout
    # Only the first few are shown at a glance: all of them are in what scripts read.
    whole = run("status", "--json", *flags).stdout
    shown = run("status", *flags)
    assert shown.exit_code == 0
    assert "  meaning     off: search is by words only" in shown.stdout.splitlines()
    for path, (reason, action) in ODD.items():
        assert f'"path": "{path}"' in whole
        assert f'"reason": "{reason}"' in whole
        hint = action.removeprefix("add to the agent: ") if action.startswith("add to") else None
        assert action in str(remedy(reason, hint))
    for path, (_, reason, action) in CUT_SHORT.items():
        assert f"{path} ({reason})" in shown.stdout
        assert action in shown.stdout
    told = run("doctor", "--port", "0", *flags).stdout
    for path, (reason, action) in ODD.items():
        if reason == "missing":
            assert f"extra path {path} does not exist" in told
            continue
        assert f"({reason}): " in told
        assert action in told


def test_an_empty_workspace_is_doubted_and_finds_nothing_without_an_error(run: Run, home: Path) -> None:
    (home / "ws" / "MEMORY.md").unlink()
    (home / "ws" / "memory").rmdir()
    found = run("search", "umbrella", *WS, **NONE)
    assert (found.exit_code, found.stdout) == (0, "")
    assert "check that this is the agent's workspace" in run("doctor", "--port", "0", *WS, **NONE).stdout


def test_a_second_service_on_one_state_is_refused_with_what_to_do(run: Run, home: Path) -> None:
    state = StateDirectory.open(home / "state", roots=[], agents=["main"])
    with state.lock():
        refused = run("serve", *WS, "--state-dir", "state", "--port", "0", **NONE)
        told = run("doctor", *WS, "--state-dir", "state", "--port", "0", **NONE).stdout
    assert refused.exit_code == 2
    assert f"already in use by process {os.getpid()}: stop it or pass another --state-dir" in refused.stderr
    assert f"service: process {os.getpid()} holds the state directory and does not serve" in told


def test_opening_it_to_a_network_without_a_token_is_refused_with_what_to_do(run: Run, home: Path) -> None:
    refused = run("serve", *WS, "--host", "0.0.0.0", "--port", "0", **NONE)
    assert refused.exit_code == 2
    assert "a loopback address unless [[tokens]] are configured" in refused.stderr
    assert home.is_dir()


def test_an_unreadable_folder_is_an_error_with_the_mode_to_give(run: Run, home: Path) -> None:
    private = home / "ws" / "memory" / "sealed"
    private.mkdir()
    private.chmod(0)
    try:
        if os.access(private, os.R_OK):
            pytest.skip("this user may read everything")
        told = run("doctor", "--port", "0", *WS, **NONE)
    finally:
        private.chmod(0o700)
    assert told.exit_code == 2
    assert "memory/sealed cannot be read (permission-denied)" in told.stdout
    assert "chmod u+rX" in told.stdout


def test_a_service_that_answers_is_named_with_its_process(run: Run, home: Path, desk: object) -> None:
    told = run("doctor", "--port", "0", *WS, **NONE).stdout
    assert f"service: process {os.getpid()} answers" in told
    assert home.is_dir()
    assert desk is not None


def test_transcripts_that_a_reset_set_aside_are_named_with_the_setting(run: Run, home: Path) -> None:
    folder = home / "sessions"
    folder.mkdir()
    (folder / "one.jsonl.reset.2026-01-01T00-00-00.000Z").write_text("{}\n")
    (home / "c.toml").write_text(
        '[agents.main]\nworkspace = "ws"\n[agents.main.sessions]\nenabled = true\ndirectory = "sessions"\n'
        '[embeddings]\nprovider = "none"\n'
    )
    assert run("index", "--config", "c.toml").exit_code == 0
    shown = run("status", "--config", "c.toml").stdout
    assert "(reset-archive)" in shown
    assert "set sessions.include_reset_archives = true" in shown


def test_a_damaged_store_is_said_to_have_been_repaired_and_everything_is_found(run: Run, home: Path) -> None:
    flags = (*WS, "--state-dir", "state")
    assert run("index", *flags, **NONE).exit_code == 0
    damaged = [path for path in (home / "state").rglob("*.sqlite*") if path.is_file()]
    assert damaged
    for path in damaged:
        path.write_bytes(b"no database" * 100)
    told = run("status", *flags, **NONE)
    assert "  repaired    " in told.stdout
    assert "MEMORY.md:1" in run("search", "tea", *flags, **NONE).stdout


def test_a_wrong_folder_is_found_out_by_its_name_wherever_it_is_given(run: Run, home: Path) -> None:
    for command in (("serve", "--port", "0"), ("search", "tea"), ("status",), ("token",), ("init",)):
        refused = run(*command, "--workspace", "wss", **NONE)
        assert refused.exit_code == 2
        assert f"--workspace accepts an existing folder, {home / 'wss'} does not exist" in refused.stderr
    told = run("doctor", "--workspace", "wss", "--port", "0", **NONE)
    assert "-> create it or correct --workspace" in told.stdout

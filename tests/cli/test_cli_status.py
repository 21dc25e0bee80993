"""`status` at a glance, colour only where it is wanted, and nothing created by looking (spec §2)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sidecar.cli import cli

Run = Callable[..., Result]
WS = ("--workspace", "ws")
DETAILS: dict[str, Any] = {
    "files": {"onDisk": 9, "indexed": 7, "pending": 2},
    "index": {"units": 46, "phase": "indexing", "repairs": []},
    "watch": {"mode": "polling", "reason": "no inotify instance is left", "folders": 3},
    "embeddings": {
        "provider": "openai-compatible", "model": "m", "dimensions": 8, "pending": 4, "circuit": "open",
        "reason": "the quota is used up", "retryInSeconds": 12.5,
    },
    "skipped": [
        {"path": "memory/b.md", "reason": "duplicate", "hint": "indexed as memory/a.md"},
        {"path": "memory/linked", "reason": "link", "hint": 'extra_paths = ["memory/linked"]'},
    ],
    "skippedCount": 8,
    "partlyIndexed": [{"path": "memory/l1.md", "reason": "invalid-utf8"}],
    "unreadable": [{"path": "memory/private", "reason": "permission-denied"}],
}  # fmt: skip


def answer(details: object, word: str = "degraded") -> dict[str, object]:
    head = {"version": 2, "agentId": "main", "providerId": "memory-sidecar", "status": word}
    return head | {"message": "embeddings are failing", "details": details}


def test_each_part_has_a_line_and_each_fault_the_one_thing_to_do(run: Run, desk: Any) -> None:
    desk.answers["memory.status"] = answer(DETAILS)
    result = run("status", *WS)
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.splitlines() == [
        "main: degraded (memory-sidecar): embeddings are failing",
        "  notes       7 of 9 indexed, 2 waiting, 46 passages",
        "  meaning     openai-compatible (m, 8 dimensions), 4 passages waiting",
        "  changes     noticed by polling (no inotify instance is left), 3 folders",
        "  now         indexing",
        "  unreadable  memory/private (permission-denied)",
        "    -> let the user that runs memory-sidecar read it: chmod u+rX",
        "  embeddings  the quota is used up, asked again in 12.5 s",
        "    -> memory-sidecar doctor asks the endpoint and says what is wrong",
        "  skipped     memory/linked (link)",
        '    -> add to the agent: extra_paths = ["memory/linked"]',
        "  skipped     memory/b.md (duplicate)",
        "  skipped     and 3 more (status --json)",
        "  cut short   memory/l1.md (invalid-utf8)",
        "    -> save it as UTF-8",
    ]


def test_json_is_what_the_service_says(run: Run, desk: Any) -> None:
    desk.answers["memory.status"] = answer(DETAILS)
    assert json.loads(run("status", "--json", *WS).stdout) == answer(DETAILS)


@pytest.mark.parametrize(("environ", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_is_left_out_where_it_is_not_wanted(
    environ: dict[str, str], coloured: bool, home: Path, desk: Any
) -> None:
    desk.answers["memory.status"] = answer(DETAILS)
    # `color=True` is a terminal that shows colours; without it nothing is coloured in a pipe.
    shown = CliRunner().invoke(cli, ["status", *WS], env=environ, color=True, prog_name="memory-sidecar")
    assert ("\x1b[" in shown.stdout) == coloured
    piped = CliRunner().invoke(cli, ["status", *WS], env=environ, prog_name="memory-sidecar")
    assert "\x1b[" not in piped.stdout
    assert home.is_dir()


def test_a_mistyped_state_directory_is_unavailable_and_is_not_made(run: Run, home: Path) -> None:
    result = run("status", *WS, "--state-dir", "sate")
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        f"main: unavailable (memory-sidecar): there is no state directory {home / 'sate'}",
        "  -> run memory-sidecar serve, or correct --state-dir",
    ]
    assert not (home / "sate").exists()
    told = json.loads(run("status", "--json", *WS).stdout)
    assert (told["status"], told["details"]["action"]) == (
        "unavailable",
        "run memory-sidecar serve, or correct the workspace",
    )
    assert not (home / ".local").exists()

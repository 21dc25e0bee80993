"""`sidecar.why` and `memory-sidecar why`: each reason a line is not found, and what to do (spec §2)."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NOTES = {
    "MEMORY.md": "# Memory\n\n- The lantern hangs in the barn. <!-- project: host/farm -->\n"
    "- The lantern oil is red. <!-- project: -->\n",
    "memory.md": "lantern\n",
    "AGENTS.md": "lantern\n",
    "memory/strong.md": "The granite obelisk stands behind the old windmill near the river.\n",
    "memory/weak.md": "# Walk\n\nA long day with rain and mud, and at the end of it all somebody "
    "said that a windmill could be sold, though nobody cared much for that at all.\n",
    "memory/other.md": "The tent poles are in the cellar.\n",
    "memory/old.MD": "lantern\n",
    "memory/list.txt": "lantern\n",
    "memory/private/diary.md": "lantern\n",
    "memory/twin.md": "",
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    for name, text in NOTES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "memory" / "twin.md").unlink()
    os.link(folder / "memory" / "other.md", folder / "memory" / "twin.md")
    shared = tmp_path_factory.mktemp("shared")
    (shared / "far.md").write_text("lantern\n")
    (folder / "memory" / "linked").symlink_to(shared)
    return folder


@pytest.fixture(scope="module")
def service(shared_launcher: Any, workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    file = tmp_path_factory.mktemp("config") / "why.toml"
    file.write_text(f'[agents.main]\nworkspace = "{workspace}"\nexclude = ["memory/private/"]\n')
    started = shared_launcher.serve(None, "--config", str(file))
    started.file = file
    asyncio.run(started.ready())
    yield started
    assert started.stop() == 0


async def why(
    service: Any, path: str, line: int | None = None, query: str = "lantern", **more: object
) -> Any:
    where = {"path": path} if line is None else {"path": path, "line": line}
    return await service.call("sidecar.why", {"query": query, **where, **more})


async def test_a_line_that_is_found_is_named_with_its_rank(service: Any) -> None:
    found = await why(service, "memory/other.md", 1, query="where are the tent poles?")
    assert (found["verdict"], found["rank"], found["line"]) == ("found", 1, 1)
    assert found["score"] == found["best"] > 0.5
    # Whatever way the path is spelled.
    spelled = await why(service, "./memory//other.md", 1, query="where are the tent poles?")
    assert spelled == found


async def test_a_line_below_the_cut_is_told_what_would_show_it(service: Any) -> None:
    query = "granite obelisk behind the old windmill near the river"
    found = await why(service, "memory/weak.md", 3, query=query)
    assert (found["verdict"], found["rank"]) == ("below-cut", 2)
    assert found["score"] < found["best"]
    asked = re.fullmatch(r"ask with --min-score (\S+) --max-results (\d+)", found["action"])
    assert asked is not None, found
    page = await service.search(query, minScore=float(asked[1]), maxResults=int(asked[2]))
    assert [hit["reference"]["id"] for hit in page["hits"]] == ["memory/strong.md", "memory/weak.md"]
    assert [hit["reference"]["id"] for hit in (await service.search(query))["hits"]] == ["memory/strong.md"]


async def test_a_line_without_any_word_of_the_query_does_not_match(service: Any) -> None:
    found = await why(service, "memory/other.md", 1, query="quarterly zeppelin invoice")
    assert found["verdict"] in ("no-match", "below-cut")
    assert "word" in found["reason"]
    assert "ask in words that stand there" in found["action"]


@pytest.mark.parametrize(
    ("path", "reason", "action"),
    [
        ("memory/none.md", "there is no such file", "create it"),
        ("AGENTS.md", "not among the places that are read", "move it below memory/"),
        ("/etc/hostname.md", "not among the places that are read", "move it below memory/"),
        ("memory.md", "name-case", "rename it to the name that is read"),
        ("memory/old.MD", "extension-case", "ends in .md"),
        ("memory/list.txt", "not-markdown", "ends in .md"),
        ("memory/private/diary.md", "a pattern in exclude fits it", "remove the pattern"),
        ("memory/linked/far.md", "it is a link", 'extra_paths = ["memory/linked"]'),
        ("memory/twin.md", "duplicate: indexed as memory/other.md", "ask about that name"),
        ("sessions/main/x.jsonl", "transcripts are not indexed", "enabled = true"),
    ],
)
async def test_a_note_that_is_not_indexed_has_a_reason_and_one_thing_to_do(
    service: Any, path: str, reason: str, action: str
) -> None:
    found = await why(service, path, 1)
    assert found["verdict"] == "not-indexed"
    assert reason in found["reason"]
    assert action in found["action"]


async def test_annotations_that_hide_a_line_are_named(service: Any) -> None:
    other = await why(service, "MEMORY.md", 3, activeProjectKeys=["host/boat"])
    assert (other["verdict"], other["projectKeys"]) == ("other-project", ["host/farm"])
    assert (await why(service, "MEMORY.md", 3, activeProjectKeys=["host/farm"]))["verdict"] == "found"
    malformed = await why(service, "MEMORY.md", 4)
    assert (malformed["verdict"], malformed["action"]) == (
        "hidden",
        "write it as <!-- project: host/path -->",
    )


async def test_a_line_that_is_not_there_is_said(service: Any) -> None:
    assert (await why(service, "memory/other.md", 9))["reason"] == "the note has 1 line"
    assert (await why(service, "MEMORY.md", 2))["verdict"] == "no-such-line"


async def test_a_note_of_this_moment_is_being_indexed_and_then_found(
    service: Any, workspace: Path, eventually: Any
) -> None:
    (workspace / "memory" / "new.md").write_text("The sundial was sold in spring.\n")
    verdicts = set()

    async def is_found() -> bool:
        found = await why(service, "memory/new.md", 1, query="sundial sold")
        verdicts.add(found["verdict"])
        return bool(found["verdict"] == "found")

    await eventually(is_found)
    assert verdicts <= {"not-indexed-yet", "found"}


def test_the_command_prints_the_verdict_and_exits_1_where_the_line_is_not_found(
    service: Any, shared_launcher: Any
) -> None:
    flags = ("--config", str(service.file), "--state-dir", str(service.state))
    done = shared_launcher.run("why", "memory/other.md:1", "tent", "poles", *flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("memory/other.md:1: found: it is result 1, shown as memory/other.md#L1-L1")
    done = shared_launcher.run("why", "memory/linked/far.md", "lantern", *flags)
    assert done.returncode == 1
    assert done.stdout == (
        "memory/linked/far.md: not-indexed: it is a link or lies behind one\n"
        '  -> add to the agent: extra_paths = ["memory/linked"]\n'
    )
    assert shared_launcher.run("why", "memory/none.md", "x", "--json", *flags).returncode == 1

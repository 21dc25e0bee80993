"""Each file is one file, under its own name, and only memory is read (BR-60, BR-63, BR-69, BR-74)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

IN_ACCESS = 0x1
IN_OPEN = 0x20
IN_ISDIR = 0x40000000
NOTES = 1000
# A timed scan may fall into the time of the searches; one for each of fifty searches may not.
TIMED_SCANS = 3


@contextmanager
def counted_reads(*folders: Path) -> Iterator[dict[str, int]]:
    """How often the folders are listed, and files in them opened, by anybody (the kernel's own count)."""
    system = ctypes.CDLL(None, use_errno=True)
    descriptor = system.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert descriptor >= 0
    counts = {"listings": 0, "files": 0, "lost": 0}
    try:
        for folder in folders:
            assert system.inotify_add_watch(descriptor, os.fsencode(folder), IN_OPEN | IN_ACCESS) >= 0
        yield counts
        while True:
            try:
                events = os.read(descriptor, 1 << 20)
            except BlockingIOError:
                break
            while events:
                watch, mask, _, length = struct.unpack_from("iIII", events)
                counts["lost"] += watch < 0
                counts["listings"] += mask & (IN_ACCESS | IN_ISDIR) == IN_ACCESS | IN_ISDIR
                counts["files"] += mask & (IN_OPEN | IN_ISDIR) == IN_OPEN
                events = events[16 + length :]
    finally:
        os.close(descriptor)


@pytest.mark.slow
async def test_searching_neither_walks_the_workspace_nor_reads_or_embeds_notes_anew(
    launcher: Any, workspace: Path, write: Any, eventually: Any
) -> None:
    """BR-60."""
    write(
        workspace,
        {f"memory/n{number}.md": f"Shelf {number} holds jar {number}.\n" for number in range(NOTES)},
    )
    service = launcher.serve(workspace)
    await service.ready()

    async def at_rest() -> bool:
        return bool((await service.call("memory.status", {}))["details"]["index"]["unsettled"] == 0)

    await eventually(at_rest)
    before = (await service.call("memory.status", {}))["details"]["work"]
    shown: set[str] = set()
    queries = [f"jar {number * 13}" for number in range(40)] + [f"jar {number * 13}" for number in range(10)]
    with counted_reads(workspace, workspace / "memory") as reads:
        for query in queries:
            shown |= {hit["path"] for hit in (await service.search_v1(query))["results"]}
    after = (await service.call("memory.status", {}))["details"]["work"]
    scans = after.pop("scans") - before.pop("scans")
    assert after == before
    assert scans <= TIMED_SCANS
    assert scans > 0 or reads["listings"] == 0
    assert reads["lost"] == 0
    # A file is read at most once to prove what is shown of it.
    assert reads["files"] <= len(shown)
    assert service.stop() == 0


async def test_one_file_under_both_spellings_of_its_name_is_one_note(
    launcher: Any, workspace: Path, write: Any, paths: Any
) -> None:
    """BR-63 (a)."""
    write(workspace, {"MEMORY.md": "- The trowel is in the shed.\n"})
    (workspace / "memory.md").hardlink_to(workspace / "MEMORY.md")
    service = launcher.serve(workspace)
    await service.ready()
    assert await paths(service, "trowel") == ["MEMORY.md"]
    assert (await service.call("memory.status", {}))["details"]["files"]["onDisk"] == 1
    assert service.stop() == 0


async def test_beside_memory_in_capitals_the_small_one_is_left_out_and_named(
    launcher: Any, workspace: Path, write: Any, paths: Any, both: Any, words_only: Any
) -> None:
    """BR-63 (b); spec §6."""
    write(workspace, {"MEMORY.md": "- The trowel is in the shed.\n", "memory.md": "- The rake is on loan.\n"})
    service = launcher.serve(workspace, environment=words_only)
    await service.ready()
    assert await paths(service, "trowel") == ["MEMORY.md"]
    assert await both(service, "rake") == []
    details = (await service.call("memory.status", {}))["details"]
    assert details["files"]["onDisk"] == 1
    assert ("memory.md", "name-case") in [(item["path"], item["reason"]) for item in details["skipped"]]
    assert service.stop() == 0


async def test_search_and_read_agree_on_the_file_and_stay_in_the_agents_own_folder(
    launcher: Any, workspace: Path, write: Any
) -> None:
    """BR-69."""
    write(
        workspace,
        {
            "USER.md": "- root marker\n",
            "alpha/USER.md": "- alpha marker\n",
            "beta/USER.md": "- beta marker\n",
        },
    )
    config = launcher.directory / "two.toml"
    config.write_text(
        "".join(f'[agents.{name}]\nworkspace = "{workspace / name}"\n' for name in ("alpha", "beta"))
    )
    service = launcher.serve(None, "--config", str(config))
    await service.ready()
    for agent in ("alpha", "beta"):
        v1 = await service.search_v1("marker", agentId=agent)
        v2 = await service.search("marker", agentId=agent)
        assert [hit["snippet"] for hit in v1["results"]] == [f"- {agent} marker"]
        assert [hit["excerpt"] for hit in v2["hits"]] == [f"- {agent} marker"]
        for reference in (
            v2["hits"][0]["reference"],
            {"providerId": "memory-sidecar", "id": v1["results"][0]["path"]},
        ):
            answer = await service.call("memory.get", {"reference": reference, "agentId": agent})
            assert answer["text"].strip() == f"- {agent} marker"
    assert service.stop() == 0


OUTSIDE = {
    "AGENTS.md": "The armadillo rule is for agents.\n",
    ".env": "ARMADILLO=1\n",
    "src/readme.md": "armadillo source\n",
    "memory/pic.png": "armadillo",
    "memory/list.txt": "armadillo list\n",
}


@pytest.fixture(scope="module")
def guarded(shared_launcher: Any, tmp_path_factory: Any, words_only: Any) -> Any:
    workspace = tmp_path_factory.mktemp("workspace")
    memory = {"memory/ok.md": "The tapir is fine.\n", "MEMORY.md": "- Tea.\n", "USER.md": "- Ann.\n"}
    for name, text in (OUTSIDE | memory).items():
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return shared_launcher.serve(workspace, environment=words_only)


@pytest.mark.parametrize("name", [*OUTSIDE, "memory/../../.env", "../../.env", "memory/../.env"])
async def test_what_is_not_memory_is_not_read(guarded: Any, read_lines: Any, name: str) -> None:
    """BR-74."""
    await guarded.ready()
    assert (await read_lines(guarded, name, 1, 5))["status"] == "not_found"


@pytest.mark.parametrize("name", ["memory/ok.md", "MEMORY.md", "USER.md"])
async def test_what_is_memory_is_read(guarded: Any, read_lines: Any, name: str) -> None:
    """BR-74."""
    await guarded.ready()
    assert (await read_lines(guarded, name, 1, 5))["status"] == "ok"


async def test_no_search_shows_text_from_outside_memory(guarded: Any, both: Any) -> None:
    """BR-74."""
    await guarded.ready()
    assert await both(guarded, "armadillo") == []
    assert [hit.path for hit in await both(guarded, "tapir")] == ["memory/ok.md"]

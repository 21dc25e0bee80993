"""What is on disk is what is found (spec §1, §6): saves, renames, deletes, and a blind watcher."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any

import pytest

WITHIN = 1.0
ROUNDS = 5
"""Of so many rounds one must be as fast as promised: a busy machine may hold up any single one."""


@pytest.fixture
async def serving(launcher: Any, workspace: Path, write: Any) -> Any:
    write(
        workspace,
        {
            "MEMORY.md": "- The lantern hangs in the porch.\n",
            "USER.md": "- Likes tea.\n",
            "memory/a.md": "# Ferry\n\nFerry leaves at quarter past nine.\n",
            "memory/b.md": "Tent poles are in the attic.\n",
        },
    )
    service = launcher.serve(workspace)
    await service.ready()
    yield service
    assert service.stop() == 0


async def test_a_saved_line_is_found_within_a_second_and_a_deleted_file_gone(
    serving: Any, workspace: Path, eventually: Any
) -> None:
    note = workspace / "memory" / f"{datetime.date.today().isoformat()}.md"
    took: list[float] = []
    while not took or (min(took) >= WITHIN and len(took) < ROUNDS):
        word = f"zeppelin{len(took)}x"
        note.write_text(f"- The {word} lands at noon.\n")
        seconds = await eventually(lambda word=word: _finds(serving, word))
        reference = (await serving.search(word))["hits"][0]["reference"]
        note.unlink()
        took.append(max(seconds, await eventually(lambda word=word: _misses(serving, word))))
        assert (await serving.call("memory.get", {"reference": reference}))["status"] == "not_found"
    assert min(took) < WITHIN, took


async def test_every_save_by_rename_is_seen_round_after_round(
    serving: Any, workspace: Path, eventually: Any
) -> None:
    for name in ("MEMORY.md", "USER.md"):
        for number in range(5):
            scratch = workspace / f".{name}.tmp"
            scratch.write_text(f"- The marker{number}x is here.\n")
            scratch.rename(workspace / name)
            await eventually(lambda number=number: _finds(serving, f"marker{number}x"))
            if number:
                assert not await _finds(serving, f"marker{number - 1}x")


async def test_new_folders_moves_and_a_recreated_memory_folder_are_seen(
    serving: Any, workspace: Path, eventually: Any
) -> None:
    deep = workspace / "memory" / "one" / "two"
    deep.mkdir(parents=True)
    (deep / "deep.md").write_text("The submarine is in dock four.\n")
    await eventually(lambda: _finds(serving, "submarine"))
    (workspace / "memory" / "one").rename(workspace / "memory" / "moved")
    await eventually(lambda: _found_at(serving, "submarine", "memory/moved/two/deep.md"))
    shutil.rmtree(workspace / "memory")
    await eventually(lambda: _misses(serving, "submarine"))
    (workspace / "memory").mkdir()
    (workspace / "memory" / "again.md").write_text("The gondola is repaired.\n")
    await eventually(lambda: _finds(serving, "gondola"))


async def test_a_changed_file_gives_the_new_text_and_never_the_old(
    serving: Any, workspace: Path, eventually: Any
) -> None:
    (workspace / "memory" / "a.md").unlink()
    (workspace / "memory" / "b.md").write_text("Tent poles are in the cellar.\n")
    assert "attic" not in str((await serving.search("tent poles attic"))["hits"])
    await eventually(lambda: _finds(serving, "cellar"))
    assert not await _finds(serving, "ferry")
    answer = await serving.call(
        "memory.get", {"reference": {"providerId": "memory-sidecar", "id": "memory/a.md"}}
    )
    assert answer["status"] == "not_found"


async def test_with_a_blind_watcher_old_text_is_never_served_and_new_text_follows(
    launcher: Any, workspace: Path, write: Any, eventually: Any
) -> None:
    write(
        workspace,
        {
            "memory/a.md": "Ferry leaves at quarter past nine.\n",
            "memory/b.md": "Tent poles are in the attic.\n",
        },
    )
    config = launcher.directory / "blind.toml"
    config.write_text(
        f'[agents.main]\nworkspace = "{workspace}"\n[watch]\nmode = "polling"\npoll_seconds = 3600\n'
    )
    service = launcher.serve(None, "--config", str(config))
    await service.ready()
    (workspace / "memory" / "a.md").unlink()
    answer = await service.search("ferry quarter")
    assert answer["hits"] == []
    assert answer["coverage"] == "partial"
    assert answer["warning"]
    (workspace / "memory" / "b.md").write_text("Tent poles are in the cellar\n")
    answer = await service.search("tent poles attic")
    assert "attic" not in str(answer["hits"])
    assert answer["coverage"] == "partial"
    await eventually(lambda: _finds(service, "cellar"))
    answer = await service.search_v1("ferry quarter")
    assert answer["results"] == []
    assert service.stop() == 0


async def test_a_same_size_edit_with_its_time_put_back_is_never_served_as_the_old_text(
    serving: Any, workspace: Path, eventually: Any
) -> None:
    import os

    path = workspace / "memory" / "b.md"
    before = path.stat()
    path.write_text(
        "Tent poles are in the shed!.\n"[: before.st_size].ljust(before.st_size - 1, ".")[: before.st_size]
    )
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "attic" not in str((await serving.search("tent poles"))["hits"])
    await eventually(lambda: _finds(serving, "shed"))


async def _finds(service: Any, word: str) -> bool:
    return any(word in excerpt for excerpt in await service.excerpts(word))


async def _misses(service: Any, word: str) -> bool:
    return not await _finds(service, word)


async def _found_at(service: Any, word: str, path: str) -> bool:
    return path in [hit["reference"]["id"] for hit in (await service.search(word))["hits"]]

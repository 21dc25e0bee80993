"""What left the disk leaves the answers (T3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SECTION_WORDS = [
    first + second for first in ("kor", "mel", "tav", "rin", "pul", "dos") for second in
    ("anda", "ebble", "issip", "oquat", "urrow", "yffin", "awken", "estrel", "imbus", "ormont")
]  # fmt: skip
FRONT_MATTER = "---\ntitle: Long\n---\n"


def sections(count: int) -> str:
    return FRONT_MATTER + "".join(
        f"\n## Part {number}\n\nThe crate marked {word} stands in row {number}.\n"
        for number, word in enumerate(SECTION_WORDS[:count], 1)
    )


async def test_deleted_and_changed_notes_are_neither_found_nor_read(
    launcher: Any, workspace: Path, write: Any, eventually: Any, both: Any, paths: Any, words_only: Any
) -> None:
    """BR-14."""
    write(
        workspace,
        {
            "memory/a.md": "Ferry leaves at quarter past nine\n",
            "memory/b.md": "Tent poles are in the attic\n",
        },
    )
    service = launcher.serve(workspace, environment=words_only)
    await service.ready()
    assert await paths(service, "ferry") == ["memory/a.md"]
    (workspace / "memory" / "a.md").unlink()
    write(workspace, {"memory/b.md": "Tent poles are in the cellar\n"})

    async def settled() -> bool:
        return await service.excerpts("cellar") == ["Tent poles are in the cellar"]

    await eventually(settled)
    assert await both(service, "ferry") == []
    assert await both(service, "attic") == []
    assert await paths(service, "cellar") == ["memory/b.md"]
    reference = {"providerId": "memory-sidecar", "id": "memory/a.md"}
    assert (await service.call("memory.get", {"reference": reference}))["status"] == "not_found"
    assert service.stop() == 0


@pytest.mark.slow
async def test_a_note_cut_down_then_emptied_keeps_nothing_of_what_was_removed(
    launcher: Any, workspace: Path, write: Any, eventually: Any, both: Any
) -> None:
    """BR-16."""
    assert len(set(SECTION_WORDS)) == 60
    write(workspace, {"memory/long.md": sections(60), "memory/other.md": "The ladder is borrowed.\n"})
    service = launcher.serve(workspace)
    await service.ready()
    assert "korebble" in (await both(service, "korebble"))[0].text
    blocks = (await service.call("memory.status", {}))["details"]["index"]["blocks"]
    removed, kept = SECTION_WORDS[50:60], SECTION_WORDS[:2]
    for text, still in ((sections(5), kept), (FRONT_MATTER, []), ("", [])):
        (workspace / "memory" / "long.md").write_text(text, encoding="utf-8")
        details: dict[str, Any] = {}

        async def indexed(details: dict[str, Any] = details, before: int = blocks) -> bool:
            await service.call("sidecar.refresh", {})
            details.update((await service.call("memory.status", {}))["details"])
            return bool(details["files"]["pending"] == 0 and details["index"]["blocks"] < before)

        await eventually(indexed)
        for word in (*removed, "crate marked in row 58"):
            for hit in await both(service, word, maxResults=50, minScore=0):
                on_disk = (workspace / hit.path).read_text(encoding="utf-8").split("\n")
                assert hit.text == "\n".join(on_disk[hit.start - 1 : hit.end])
                assert word not in hit.text
        for word in still:
            assert word in (await both(service, word))[0].text
        blocks = details["index"]["blocks"] if text else blocks
    # One place is asked for, and the only note that is left takes it.
    assert [hit.path for hit in await both(service, "ladder borrowed", maxResults=1)] == ["memory/other.md"]
    assert service.stop() == 0


@pytest.mark.slow
async def test_ten_hits_are_asked_of_three_notes_that_are_left_and_then_of_none(
    launcher: Any, workspace: Path, write: Any, eventually: Any
) -> None:
    """BR-51, in both legs: words, and a query that shares none with the notes."""
    write(workspace, {f"memory/n{n}.md": f"The ferry to island {n} sails at noon.\n" for n in range(40)})
    service = launcher.serve(workspace)
    await service.ready()

    async def paths(query: str) -> set[str]:
        page = await service.search(query, maxResults=10, minScore=0)
        return {hit["reference"]["id"] for hit in page["hits"]}

    assert len(await paths("ferry island")) == len(await paths("boat trips across the water")) == 10
    for n in range(37):
        (workspace / "memory" / f"n{n}.md").unlink()
    left = {f"memory/n{n}.md" for n in (37, 38, 39)}

    async def three() -> bool:
        return await paths("ferry island") == await paths("boat trips across the water") == left

    await eventually(three)
    for path in left:
        (workspace / path).unlink()
    assert await paths("ferry island") == await paths("boat trips across the water") == set()
    assert service.stop() == 0

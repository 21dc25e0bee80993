"""Cursors over HTTP: good for their caller and their search, for a while, in one process; else refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

WORDS_ONLY = {"MEMORY_SIDECAR_EMBEDDINGS_PROVIDER": "none"}
ASKED = {"query": "lantern", "minScore": 0}
COUNT = 11


@pytest.fixture(scope="module")
def started(shared_launcher: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One service for the tests that change nothing."""
    workspace = tmp_path_factory.mktemp("workspace")
    write_notes(workspace)
    return shared_launcher.serve(workspace, environment=WORDS_ONLY)


@pytest.fixture
async def shared(started: Any) -> Any:
    await started.ready()
    return started


def write_notes(workspace: Path) -> None:
    (workspace / "memory").mkdir()
    for number in range(COUNT):
        note = workspace / "memory" / f"n{number}.md"
        note.write_text(f"The lantern number {number} hangs in room {number * 7}.\n")


async def pages(service: Any, sizes: Callable[[int], int], **asked: object) -> list[list[Any]]:
    """All pages of a search; `sizes` says how long each may be."""
    found: list[list[Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await service.search(**{**ASKED, **asked}, maxResults=sizes(len(found)), **cursor)
        found.append(page["hits"])
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


async def refused(service: Any, code: str, cursor: str, **asked: object) -> None:
    """A call with this cursor must fail with this code and no hits."""
    token = asked.pop("token", None)
    params = {"version": 2, **ASKED, "maxResults": 2, "cursor": cursor, **asked}
    status, frame = await service.post("/rpc/memory.search", params, token=token)
    assert (status, frame["ok"]) == (503, False), frame
    assert (frame["error"]["code"], frame["error"]["details"]["code"]) == ("UNAVAILABLE", code)
    assert "payload" not in frame


async def first_cursor(service: Any, **asked: object) -> str:
    page = await service.search(**{**ASKED, **asked}, maxResults=2)
    cursor = page["nextCursor"]
    assert isinstance(cursor, str)
    return cursor


async def test_pages_of_any_size_are_the_long_page_in_parts(shared: Any) -> None:
    whole = await shared.search(**ASKED, maxResults=50)
    assert len(whole["hits"]) == COUNT
    assert "nextCursor" not in whole
    for sizes in (lambda _: 1, lambda _: 5, lambda page: page + 1):
        parts = await pages(shared, sizes)
        assert [hit for part in parts for hit in part] == whole["hits"]
        assert all(parts)


async def test_a_page_that_takes_the_last_hit_promises_no_other(shared: Any) -> None:
    assert "nextCursor" not in await shared.search(**ASKED, maxResults=COUNT)
    assert "nextCursor" in await shared.search(**ASKED, maxResults=COUNT - 1)


async def test_the_default_cut_ends_the_walk_where_it_ends_the_long_page(shared: Any) -> None:
    whole = await shared.search("lantern", maxResults=50)
    parts = await pages(shared, lambda _: 3, minScore=0.0)
    assert sum(map(len, parts)) == COUNT
    cursor = (await shared.search("lantern", maxResults=1)).get("nextCursor")
    found = 1
    while cursor is not None:
        page = await shared.search("lantern", maxResults=1, cursor=cursor)
        assert page["hits"] == whole["hits"][found : found + 1]
        found += 1
        cursor = page.get("nextCursor")
    assert found == len(whole["hits"])


async def test_the_same_cursor_gives_the_same_page_again(shared: Any) -> None:
    cursor = await first_cursor(shared)
    once = await shared.search(**ASKED, maxResults=3, cursor=cursor)
    assert await shared.search(**ASKED, maxResults=3, cursor=cursor) == once


async def test_an_explained_search_can_be_followed(shared: Any) -> None:
    page = await shared.call("sidecar.explain", {**ASKED, "maxResults": 2})
    following = await shared.call("sidecar.explain", {**ASKED, "maxResults": 2, "cursor": page["nextCursor"]})
    assert all(hit["explain"]["text"] > 0 for hit in following["hits"])


async def test_a_tampered_cursor_is_invalid(shared: Any) -> None:
    cursor = await first_cursor(shared)
    for at in range(0, len(cursor), 5):
        other = "A" if cursor[at] != "A" else "B"
        await refused(shared, "CURSOR_INVALID", cursor[:at] + other + cursor[at + 1 :])
    for made_up in (
        "x",
        "=",
        cursor[:-1],
        cursor + "A",
        f"{cursor}=",
        f"{cursor}====",
        cursor * 2,
        f" {cursor}",
        "é",
        "\0",
        "A" * 2000,
    ):
        await refused(shared, "CURSOR_INVALID", made_up)


async def test_a_cursor_of_another_caller_query_or_filter_is_invalid(shared: Any) -> None:
    cursor = await first_cursor(shared)
    await refused(shared, "CURSOR_INVALID", cursor, token=shared.host_token)
    await refused(shared, "CURSOR_INVALID", cursor, query="lantern room")
    await refused(shared, "CURSOR_INVALID", cursor, minScore=0.1)
    params = {"version": 2, "query": "lantern", "maxResults": 2, "cursor": cursor}
    assert (await shared.error("memory.search", params))[1]["details"]["code"] == "CURSOR_INVALID"
    assert (await shared.search(**ASKED, maxResults=2, cursor=cursor, sources=["memory"]))["hits"]


async def test_a_cursor_of_another_process_or_from_before_a_restart_is_invalid(
    launcher: Any, workspace: Path, shared: Any
) -> None:
    write_notes(workspace)
    service = launcher.serve(workspace, environment=WORDS_ONLY)
    await service.ready()
    before = await first_cursor(service)
    await refused(shared, "CURSOR_INVALID", before)
    assert service.stop() == 0
    again = launcher.serve(workspace, environment=WORDS_ONLY)
    await again.ready()
    await refused(again, "CURSOR_INVALID", before)
    await refused(again, "CURSOR_INVALID", await first_cursor(shared))
    assert again.stop() == 0


@pytest.mark.slow
async def test_a_walk_that_gave_way_to_hundreds_of_others_has_expired(shared: Any) -> None:
    cursor = await first_cursor(shared)
    assert (await shared.search(**ASKED, maxResults=2, cursor=cursor))["hits"]
    for _ in range(300):
        await first_cursor(shared)
    await refused(shared, "CURSOR_EXPIRED", cursor)
    await refused(shared, "CURSOR_INVALID", cursor, query="another")


async def test_texts_that_move_change_or_vanish_between_pages(launcher: Any, workspace: Path) -> None:
    """With a watcher at work: moved text comes with its present lines, the rest is left out and said."""
    write_notes(workspace)
    service = launcher.serve(workspace, environment=WORDS_ONLY)
    await service.ready()
    ranking = (await service.search(**ASKED, maxResults=50))["hits"]
    page = await service.search(**ASKED, maxResults=2)
    moved, changed, gone = (workspace / hit["reference"]["id"] for hit in ranking[2:5])
    moved.write_text("An intro.\n\n" + moved.read_text())
    changed.write_text("The lantern was sold.\n")
    gone.unlink()
    following = await service.search(**ASKED, maxResults=50, cursor=page["nextCursor"])
    assert [hit["reference"]["id"] for hit in following["hits"]] == [
        hit["reference"]["id"] for hit in ranking[2:3] + ranking[5:]
    ]
    first = following["hits"][0]
    assert first["excerpt"] == ranking[2]["excerpt"]
    assert first["reference"]["fragment"] == "L3-L3"
    assert first["citations"][0]["startLine"] == 3
    assert first["reference"]["revision"] == ranking[2]["reference"]["revision"]
    assert following["coverage"] == "partial"
    assert "2 files changed" in following["warning"]
    assert service.stop() == 0


@pytest.mark.slow
async def test_walks_beside_a_writer_that_never_rests(launcher: Any, workspace: Path) -> None:
    """Texts that only move come exactly once, rewritten ones never after that, and nothing comes twice."""
    folder = workspace / "memory"
    folder.mkdir()
    for number in range(60):
        (folder / f"n{number}.md").write_text(f"The lantern number {number} hangs in room {number * 7}.\n")
    service = launcher.serve(workspace, environment=WORDS_ONLY)
    await service.ready()
    rewritten: set[str] = set()
    stop = asyncio.Event()

    async def writer() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            path = folder / f"n{turn % 20}.md"
            path.write_text(f"line {turn}\n\n" + path.read_text())
            if turn % 3 == 0 and turn // 3 < 20:
                number = 20 + turn // 3
                (folder / f"n{number}.md").write_text(f"The lantern was sold {'again ' * (turn % 5)}.\n")
                rewritten.add(f"memory/n{number}.md")
            await asyncio.sleep(0.002)

    writing = asyncio.create_task(writer())
    try:
        for sizes in ((7, 11, 3), (1, 19, 5), (20, 20, 20), (4, 4, 4)):
            gone = set(rewritten)
            page = await service.search(**ASKED, maxResults=sizes[0])
            first = {hit["reference"]["id"] for hit in page["hits"]}
            seen = [(hit["reference"]["id"], hit["reference"]["revision"]) for hit in page["hits"]]
            late: set[str] = set()
            turn = 0
            while "nextCursor" in page:
                turn += 1
                late |= rewritten
                page = await service.search(**ASKED, maxResults=sizes[turn % 3], cursor=page["nextCursor"])
                seen += [(hit["reference"]["id"], hit["reference"]["revision"]) for hit in page["hits"]]
                for hit in page["hits"]:
                    assert hit["reference"]["id"] not in late - gone - first, "a rewritten text was shown"
            assert len(set(seen)) == len(seen)
            still = {f"memory/n{number}.md" for number in range(40, 60)}
            assert still <= {path for path, _ in seen}
    finally:
        stop.set()
        await writing
    assert service.stop() == 0

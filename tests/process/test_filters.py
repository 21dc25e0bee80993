"""Searches among notes of some paths and days, and the list of notes (`sidecar.search`, `sidecar.notes`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

LOUD = "".join(f"- boiler boiler boiler, reading {number}\n" for number in range(900))
NOTES = {
    "memory/loud.md": LOUD,
    "memory/2026-03-04.md": "A long day; towards evening somebody also mentioned the boiler in passing.\n",
    "memory/trips/2026-03-05-lake.md": "The boiler of the hut at the lake is old.\n",
    "memory/trips/2026-04-01.md": "No boiler at all in the tent, and nobody missed it.\n",
}


@pytest.fixture(scope="module")
def service(shared_launcher: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    workspace = tmp_path_factory.mktemp("workspace")
    for name, text in NOTES.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    started = shared_launcher.serve(workspace)
    asyncio.run(started.ready())
    yield started
    assert started.stop() == 0


async def ids(service: Any, **filters: object) -> list[str]:
    page = await service.call("sidecar.search", {"query": "boiler", "maxResults": 50, **filters})
    return sorted({hit["reference"]["id"] for hit in page["hits"]})


async def test_filters_find_the_best_of_what_they_cover_and_nothing_else(service: Any) -> None:
    lake, tent = "memory/trips/2026-03-05-lake.md", "memory/trips/2026-04-01.md"
    # Hundreds of better hits elsewhere do not crowd out what is asked for.
    assert await ids(service, path="memory/2026-*.md") == ["memory/2026-03-04.md"]
    assert await ids(service, path="trips/") == [lake, tent]
    assert await ids(service, path="lake/") == []
    assert await ids(service, path="memory/trips/") == [lake, tent]
    assert await ids(service, since="2026-03-05") == [lake, tent]
    assert await ids(service, until="2026-03-04") == ["memory/2026-03-04.md"]
    assert await ids(service, since="2026-03-05", until="2026-03-05") == [lake]
    assert await ids(service, since="2026-03-05", path="*lake.md") == [lake]
    assert await ids(service, since="2027-01-01") == []
    explained = await service.call("sidecar.explain", {"query": "boiler", "path": "*lake.md"})
    assert [hit["reference"]["id"] for hit in explained["hits"]] == [lake]
    for filters, says in (
        ({"since": "2026-3-4"}, "since must be a day of the calendar, YYYY-MM-DD"),
        ({"since": "2026-02-31"}, "since must be a day of the calendar, YYYY-MM-DD"),
        ({"until": 20260304}, "until must be a day of the calendar, YYYY-MM-DD"),
        ({"path": " "}, "path must be a pattern of at most 512 characters"),
        ({"maxChars": 0}, "maxChars must be a positive integer"),
    ):
        status, error = await service.error("sidecar.search", {"query": "boiler", **filters})
        assert (status, error["message"]) == (400, says)
    # Upstream's method knows none of this.
    plain = await service.search("boiler", path="*lake.md", since="x", maxChars=0)
    assert {hit["reference"]["id"] for hit in plain["hits"]} != {lake}


async def test_pages_stay_under_their_filter_and_their_cursor_is_for_it_alone(service: Any) -> None:
    asked: dict[str, object] = {"query": "boiler", "maxResults": 1, "minScore": 0, "path": "memory/trips/"}
    first = await service.call("sidecar.search", asked)
    second = await service.call("sidecar.search", {**asked, "cursor": first["nextCursor"]})
    both = {page["hits"][0]["reference"]["id"] for page in (first, second)}
    assert both == {"memory/trips/2026-03-05-lake.md", "memory/trips/2026-04-01.md"}
    for other in ({"path": "memory/"}, {"since": "2026-01-01"}):
        _, error = await service.error("sidecar.search", {**asked, **other, "cursor": first["nextCursor"]})
        assert error["details"]["code"] == "CURSOR_INVALID"
    plain = {name: value for name, value in asked.items() if name != "path"}
    _, error = await service.error("sidecar.search", {**plain, "cursor": first["nextCursor"]})
    assert error["details"]["code"] == "CURSOR_INVALID"


async def test_max_chars_bounds_the_excerpts_and_says_what_it_left_out(service: Any) -> None:
    asked = {"query": "boiler", "path": "memory/**/2026-*.md"}
    whole = await service.call("sidecar.search", asked)
    sizes = [len(hit["excerpt"]) for hit in whole["hits"]]
    assert len(sizes) == 3
    assert "truncated" not in whole
    assert await service.call("sidecar.search", {**asked, "maxChars": sum(sizes)}) == whole
    for most, kept in ((sum(sizes) - 1, 2), (sizes[0], 1), (1, 1)):
        cut = await service.call("sidecar.search", {**asked, "maxChars": most})
        assert cut["hits"] == whole["hits"][:kept]
        assert cut["truncated"] is True
        assert "nextCursor" not in cut


async def test_notes_are_listed_in_order_of_their_paths_some_at_a_time(service: Any) -> None:
    first = await service.call("sidecar.notes", {"limit": 3})
    assert first["notes"] == [
        {"path": "memory/2026-03-04.md", "day": "2026-03-04"},
        {"path": "memory/loud.md"},
        {"path": "memory/trips/2026-03-05-lake.md", "day": "2026-03-05"},
    ]
    rest = await service.call("sidecar.notes", {"limit": 3, "after": first["next"]})
    assert [note["path"] for note in rest["notes"]] == ["memory/trips/2026-04-01.md"]
    assert "next" not in rest

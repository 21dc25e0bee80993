"""The order does not depend on how much of it is asked for, and ages are counted in local days (T6)."""

from __future__ import annotations

import datetime
import zoneinfo
from pathlib import Path
from typing import Any

import pytest

QUESTION = "furnace repair technician"
BEST = "memory/visit.md"
WORDS = [
    "apricot", "barley", "candle", "dahlia", "ember", "falcon", "garnet", "hazel", "indigo", "juniper",
    "kestrel", "lavender", "meadow", "nutmeg", "olive", "pepper", "quartz", "rosemary", "saffron",
    "thistle", "umber", "velvet", "walnut", "yarrow", "zinnia",
]  # fmt: skip


def many_notes() -> dict[str, str]:
    """180 notes: one repeats the words, one means them in other words, one does both."""
    notes = {
        f"memory/n{number:03}.md": f"The {WORDS[number % 25]} {WORDS[(number * 7 + number // 25) % 25]} list "
        f"was checked {'after a repair of the shelf ' if number % 20 == 0 else ''}in week {number}.\n"
        for number in range(177)
    }
    return notes | {
        "memory/words.md": "Furnace furnace repair repair: words for the crossword with the apricot.\n",
        "memory/meaning.md": "The heating engineer fixed our broken boiler and the basement radiators.\n",
        BEST: "A technician came for the furnace repair: the broken boiler and the heating work again.\n",
    }


@pytest.mark.slow
async def test_every_answer_is_the_beginning_of_a_longer_one_also_after_a_restart(
    launcher: Any, workspace: Path, write: Any, both: Any
) -> None:
    """BR-33."""
    notes = many_notes()
    assert len(notes) == 180
    write(workspace, notes)
    lists: list[list[Any]] = []
    for _ in range(2):
        service = launcher.serve(workspace)
        await service.ready()
        for limit in (1, 2, 5, 10, 50):
            for params in ({}, {"minScore": 0}):
                hits = await both(service, QUESTION, maxResults=limit, **params)
                lists.append([hits, params])
                assert len(hits) <= limit
        scores = [hit["score"] for hit in (await service.search(QUESTION, minScore=0))["hits"]]
        assert scores == sorted(scores, reverse=True)
        assert service.stop() == 0
    for params in ({}, {"minScore": 0}):
        same = [hits for hits, used in lists if used == params]
        longest = max(same, key=len)
        assert all(hits == longest[: len(hits)] for hits in same)
        assert len({len(hits) for hits in same}) > 1
    assert {hits[0].path for hits, _ in lists} == {BEST}


def day_in(zone: str, offset: int = 0) -> str:
    """The local date of a zone, `offset` days on."""
    here = datetime.datetime.now(zoneinfo.ZoneInfo(zone)).date()
    return (here + datetime.timedelta(days=offset)).isoformat()


async def scores_of(service: Any, query: str) -> dict[str, float]:
    """Scores by path, after checking that v1 and v2 give the same."""
    v1 = {hit["path"]: hit["score"] for hit in (await service.search_v1(query, minScore=0))["results"]}
    hits = (await service.search(query, minScore=0))["hits"]
    assert v1 == {hit["reference"]["id"]: hit["score"] for hit in hits}
    return v1


async def test_dated_notes_age_alike_wherever_they_stand_and_undated_ones_never(
    launcher: Any, workspace: Path, write: Any, words_only: Any, eventually: Any
) -> None:
    """BR-37."""
    old = [
        "memory/2024-08-23.md",
        "memory/log/short/2024-08-23.md",
        "memory/2024-08-23-standup.md",
        "memory/2024-08-23-0930.md",
    ]
    told = ("Anna", "Bert", "Carl", "Dora", "Emil", "Fred")
    scores: dict[str, float] = {}

    async def asked_on_one_day() -> bool:
        before = datetime.datetime.now(datetime.UTC).date().isoformat()
        today = f"memory/{before}.md"
        write(
            workspace,
            {
                name: f"{who} saw the heron by the weir.\n"
                for name, who in zip((*old, "memory/house.md", today), told, strict=True)
            },
        )
        service = launcher.serve(workspace, environment={**words_only, "TZ": "UTC"})
        await service.ready()
        scores.clear()
        scores.update(await scores_of(service, "heron weir"))
        assert service.stop() == 0
        scores["today"] = scores[today]
        return before == datetime.datetime.now(datetime.UTC).date().isoformat()

    await eventually(asked_on_one_day)
    assert len(set(scores) & {*old, "memory/house.md"}) == 5
    oldest = [scores[name] for name in old]
    assert max(oldest) < min(scores["today"], scores["memory/house.md"])
    assert max(oldest) == pytest.approx(min(oldest), rel=0.03)
    # Mild: an old note is never buried.
    assert min(oldest) > 0.9 * scores["today"]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12", "Asia/Tokyo", "America/Los_Angeles"])
async def test_today_is_the_services_local_day_and_a_note_dated_tomorrow_is_no_younger(
    launcher: Any, workspace: Path, write: Any, words_only: Any, eventually: Any, zone: str
) -> None:
    """BR-39. At every hour one of the first two zones has another date than UTC."""
    seen: dict[int, float] = {}

    async def asked_on_one_day() -> bool:
        days = {offset: day_in(zone, offset) for offset in (-2, -1, 0, 1)}
        who = dict(zip(days, ("Anna", "Bert", "Carl", "Dora"), strict=True))
        write(
            workspace,
            {
                f"memory/{day}.md": f"{who[offset]} saw the heron by the weir.\n"
                for offset, day in days.items()
            },
        )
        service = launcher.serve(workspace, environment={**words_only, "TZ": zone})
        await service.ready()
        scores = await scores_of(service, "heron weir")
        assert service.stop() == 0
        seen.clear()
        seen.update({offset: scores[f"memory/{day}.md"] for offset, day in days.items()})
        return day_in(zone) == days[0]

    await eventually(asked_on_one_day)
    assert seen[1] == seen[0] > seen[-1] > seen[-2]

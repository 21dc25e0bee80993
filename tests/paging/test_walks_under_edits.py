"""Paging while files change: no hit twice, unchanged text exactly once, changed text never (spec §5.1)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paging_world import WORDS, World, cases, edit, random_files

from sidecar.domain.memory import Hit

pytestmark = pytest.mark.slow

WALKS = 8
"""Walks that share one workspace and its edits: indexing is what an example costs."""


def names(hit: Hit) -> tuple[str, str | None, object]:
    """What tells a hit from others wherever its lines moved."""
    return hit.path, hit.reference.revision, hit.lines.chars


def tags(line: str) -> set[str]:
    """The project marks of a line as the random files write them."""
    return {tag for tag in ("a/b", "c", ";") if f"project: {tag} -->" in line}


def copies(present: list[str], raw: list[str]) -> int:
    return sum(present[at : at + len(raw)] == raw for at in range(len(present) - len(raw) + 1))


class Reader:
    """One walk through a ranking, a page at a time, which knows what each page has to hold."""

    def __init__(self, world: World, random: Random) -> None:
        self.agent = world.agent
        self.random = random
        self.query = " ".join(random.sample(WORDS, random.randint(1, 2)))
        self.asked: dict[str, Any] = {"min_score": random.choice([None, 0.0, 0.0])}
        self.ranking: list[tuple[Hit, list[str]]] = []
        self.seen = 0
        self.cursor: str | None = None

    async def begin(self) -> None:
        """The first page, beside the ranking that all pages together have to be."""
        whole = (await self.agent.page(self.query, 200, **self.asked)).hits
        self.ranking = [(hit, self.agent.named(hit)) for hit in whole]
        size = self.random.randint(1, 5)
        page = await self.agent.page(self.query, size, **self.asked)
        assert [hit.excerpt.casefold().split() for hit in page.hits] == [
            hit.excerpt.casefold().split() for hit in whole[:size]
        ]
        # A cursor may lead to an empty page where ten places of shown texts come next, never the other way.
        assert page.next_cursor is not None or len(whole) <= size
        self.seen = size
        self.cursor = page.next_cursor

    async def go_on(self) -> None:
        """One page more, against the files as they are now."""
        size = self.random.randint(1, 8)
        page = await self.agent.page(self.query, size, self.cursor, **self.asked)
        self.cursor = page.next_cursor
        shown = list(page.hits)
        assert len({(hit.path, hit.reference.fragment) for hit in shown}) == len(shown), "a hit came twice"
        for hit, raw in self.ranking[self.seen : self.seen + size]:
            present = self.agent.lines(hit.path)
            # Entries of other projects may have the same lines; the earlier ones take the first copies.
            earlier = sum(names(other) == names(hit) for other, _ in self.ranking[: self.seen])
            found = next((h for h in shown if names(h) == names(hit) and h.score == hit.score), None)
            self.seen += 1
            if copies(present, raw) <= earlier:
                assert found is None, "changed text was shown"
                assert page.coverage == "partial"
                assert page.warning is not None
            elif found is None:
                # Only an edit that brings a mark into the hit's entry may hide a text that still stands.
                assert any(tags(line) for line in present), (hit, raw, present)
            else:
                shown.remove(found)
                assert found.excerpt == hit.excerpt
                assert self.agent.named(found) == raw
        assert not shown, "a hit came again, or from nowhere"
        assert self.cursor is not None or self.seen >= len(self.ranking)


async def walk_together(world: World, random: Random) -> None:
    """Several walks over the same files, in turn, while these are edited and sometimes scanned."""
    readers = [Reader(world, random) for _ in range(WALKS)]
    for reader in readers:
        await reader.begin()
    while walking := [reader for reader in readers if reader.cursor is not None]:
        for _ in range(random.randint(0, 3)):
            edit(random, world.agent.workspace)
        if random.random() < 0.3:
            await world.agent.scan()
        for reader in walking:
            if random.random() < 0.8:
                await reader.go_on()


def check_example(world: World, seed: int) -> None:
    random = Random(seed)  # noqa: S311
    world.agent.write(random_files(random))
    world.run(world.agent.scan())
    world.run(walk_together(world, random))


@settings(max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_a_walk_shows_each_unchanged_hit_once_and_changed_ones_never(world: Any, seed: int) -> None:
    """Pages of any size, a handle for each, edits between them, seen by the index or not."""
    check_example(world, seed)


@pytest.mark.slow
@settings(max_examples=cases(1000) // 5 // WALKS)
@given(seed=st.integers(0, 2**32))
def test_in_hundreds_of_walks_no_hit_is_lost_or_repeated(world: Any, seed: int) -> None:
    """The same in full: ten times as many with `PROPERTY_CASES=10000`."""
    check_example(world, seed)


def test_a_walk_over_files_that_no_search_has_read_yet_survives_an_edit_right_after_its_first_page(
    make_world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All texts move before anything but the first page was shown."""
    monkeypatch.setattr("sidecar.service.search.HELD_SECONDS", 60)
    world = make_world()
    world.agent.write({f"memory/{n}.md": f"The valve of house {n}.\n" for n in range(30)})
    world.run(world.agent.scan())

    async def walk() -> None:
        agent = world.agent
        page = await agent.page("valve", 1, min_score=0.0)
        for number in range(30):
            path = agent.workspace / "memory" / f"{number}.md"
            path.write_text("above\n\n" + path.read_text())
        following = await agent.page("valve", 50, page.next_cursor, min_score=0.0)
        assert len({names(hit) for hit in (*page.hits, *following.hits)}) == 30
        assert {hit.reference.fragment for hit in following.hits} == {"L3-L3"}
        assert following.coverage == "complete"

    world.run(walk())


def test_a_page_that_shows_all_lines_that_match_promises_no_further_page(world: Any) -> None:
    """However many they are: the window of one hit holds them all."""
    world.agent.write({"memory/a.md": "".join(f"- valve {number}\n" for number in range(24))})
    world.run(world.agent.scan())
    page = world.run(world.agent.page("valve", 1, min_score=0.0))
    assert len(page.hits) == 1
    assert page.hits[0].excerpt.count("valve") == 24
    assert page.next_cursor is None


def test_entries_of_two_projects_that_say_the_same_are_two_hits_and_one_when_one_is_gone(world: Any) -> None:
    """Equal lines have equal names: the later hit never takes the copy that belongs to the earlier one."""
    same = "  " + "valve lantern " * 60
    entries = [f"- one <!-- project: a -->\n{same}\n", f"- two <!-- project: b -->\n{same}\n"]
    path = world.agent.workspace / "memory" / "a.md"

    async def walk() -> None:
        agent = world.agent
        for left in ("".join(entries), entries[0], entries[1]):
            agent.write({"memory/a.md": "".join(entries), "memory/b.md": "valve valve lantern\n"})
            await agent.scan()
            ranking = (await agent.page("valve lantern", 200, min_score=0.0)).hits
            page = await agent.page("valve lantern", 1, min_score=0.0)
            path.write_text(left)
            following = (await agent.page("valve lantern", 50, page.next_cursor, min_score=0.0)).hits
            places = [(hit.path, hit.reference.fragment) for hit in following]
            assert len(set(places)) == len(places)
            copies = {names(hit) for hit in ranking if hit.lines.chars is not None}
            assert len(copies) == 2
            for copy in copies:
                shown = [names(hit) for hit in (*page.hits, *following)].count(copy)
                assert shown == left.count(same), (copy, left)

    world.run(walk())


def test_the_other_places_of_a_text_are_cited_as_far_as_they_still_hold_it(world: Any) -> None:
    """Each place is proven again, and named once although two copies of a file have become one."""
    text = "The valve of the cellar.\n"
    spaced = f"{text}\n{'filler ' * 99}\n\n{text}"
    world.agent.write({"memory/2026-01-02.md": spaced, "memory/b.md": text, "memory/c.md": "valve valve\n"})
    world.run(world.agent.scan())

    async def walk() -> None:
        agent = world.agent
        page = await agent.page("valve", 1, min_score=0.0)
        assert page.hits[0].path == "memory/c.md"

        async def places() -> list[str]:
            hits = (await agent.page("valve", 50, page.next_cursor, min_score=0.0)).hits
            return [place.label for place in next(hit for hit in hits if "cellar" in hit.excerpt).citations]

        assert set(await places()) == {
            "memory/2026-01-02.md#L1-L1",
            "memory/2026-01-02.md#L5-L5",
            "memory/b.md#L1-L1",
        }
        (agent.workspace / "memory" / "b.md").unlink()
        assert set(await places()) == {"memory/2026-01-02.md#L1-L1", "memory/2026-01-02.md#L5-L5"}
        (agent.workspace / "memory" / "2026-01-02.md").write_text("above\n" + text)
        assert await places() == ["memory/2026-01-02.md#L2-L2"]

    world.run(walk())

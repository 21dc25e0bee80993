"""Paging while files change: no hit twice, unchanged text exactly once, changed text never (spec §5.1)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paging_world import WORDS, World, cases, edit, random_files

from sidecar.domain.memory import Hit


def names(hit: Hit) -> tuple[str, str | None, object]:
    """What tells a hit from others wherever its lines moved."""
    return hit.path, hit.reference.revision, hit.lines.chars


def tags(line: str) -> set[str]:
    """The project marks of a line as the random files write them."""
    return {tag for tag in ("a/b", "c", ";") if f"project: {tag} -->" in line}


def copies(present: list[str], raw: list[str]) -> int:
    return sum(present[at : at + len(raw)] == raw for at in range(len(present) - len(raw) + 1))


async def walk(world: World, random: Random) -> None:
    agent = world.agent
    query = " ".join(random.sample(WORDS, random.randint(1, 2)))
    asked: dict[str, Any] = {"min_score": random.choice([None, 0.0, 0.0])}
    ranking = (await agent.page(query, 200, **asked)).hits
    raws = [agent.named(hit) for hit in ranking]
    size = random.randint(1, 5)
    page = await agent.page(query, size, **asked)
    assert [hit.excerpt.casefold().split() for hit in page.hits] == [
        hit.excerpt.casefold().split() for hit in ranking[:size]
    ]
    assert (page.next_cursor is not None) == (len(ranking) > size)
    seen = size
    while page.next_cursor is not None:
        for _ in range(random.randint(0, 3)):
            edit(random, agent.workspace)
        if random.random() < 0.3:
            await agent.scan()
        size = random.randint(1, 8)
        page = await agent.page(query, size, page.next_cursor, **asked)
        shown = list(page.hits)
        assert len({(hit.path, hit.reference.fragment) for hit in shown}) == len(shown), "a hit came twice"
        for hit, raw in list(zip(ranking, raws, strict=True))[seen : seen + size]:
            present = agent.lines(hit.path)
            # Entries of other projects may have the same lines; the earlier ones take the first copies.
            earlier = sum(names(other) == names(hit) for other in ranking[:seen])
            found = next((h for h in shown if names(h) == names(hit) and h.score == hit.score), None)
            seen += 1
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
                assert agent.named(found) == raw
        assert not shown, "a hit came again, or from nowhere"
    assert seen >= len(ranking)


def check_example(world: World, seed: int) -> None:
    random = Random(seed)  # noqa: S311
    world.agent.write(random_files(random))
    world.run(world.agent.scan())
    for _ in range(2):
        world.run(walk(world, random))
        world.run(world.agent.scan())


@settings(max_examples=6)
@given(seed=st.integers(0, 2**32))
def test_a_walk_shows_each_unchanged_hit_once_and_changed_ones_never(world: Any, seed: int) -> None:
    """Pages of any size, a handle for each, edits between them, seen by the index or not."""
    check_example(world, seed)


@pytest.mark.slow
@settings(max_examples=cases(1000) // 10)
@given(seed=st.integers(0, 2**32))
def test_in_hundreds_of_walks_no_hit_is_lost_or_repeated(world: Any, seed: int) -> None:
    """The same in full: ten times as many with `PROPERTY_CASES=10000`."""
    check_example(world, seed)

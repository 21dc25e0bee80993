"""A reference with a revision names one text: `get` gives just that, wherever it moved, or nothing."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paging_world import WORDS, World, bounds, cases, edit, random_files

from sidecar.domain.memory import Found, GetRequest, Hit
from sidecar.text.fragments import parse_fragment

pytestmark = pytest.mark.slow

STARTS, EDITS = 4, 10
"""In one example: how often the files are put back, and the edits that follow. Each edit is a case."""


async def read_back(world: World, hit: Hit, raw: list[str]) -> None:
    """`get` of a hit's reference against the raw lines that it named when it was found."""
    read = await (await world.agent.handle()).get(GetRequest(reference=hit.reference))
    present = world.agent.lines(hit.path)
    stands = any(present[at : at + len(raw)] == raw for at in range(len(present) - len(raw) + 1))
    assert isinstance(read, Found) == stands, (hit.reference, raw, present)
    if not isinstance(read, Found):
        return
    where = parse_fragment(hit.reference.fragment or "")
    assert where is not None
    text = "\n".join(raw)
    assert read.text == (text if where.chars is None else raw[0][slice(*where.chars)])
    assert read.reference.revision == hit.reference.revision
    start, end = bounds(read.reference.fragment)
    assert present[start - 1 : end] == raw


def check_example(world: World, seed: int) -> None:
    random = Random(seed)  # noqa: S311
    files = random_files(random)
    world.agent.write(files)
    world.run(world.agent.scan())
    hits: list[tuple[Hit, list[str]]] = []
    for query in random.sample(WORDS, 2):
        page = world.run(world.agent.page(query, 20, min_score=0.0))
        hits += [(hit, world.agent.named(hit)) for hit in page.hits]
    for _ in range(STARTS):
        world.agent.write(files)
        for _ in range(EDITS):
            edit(random, world.agent.workspace)
            for hit, raw in random.sample(hits, min(len(hits), 4)):
                world.run(read_back(world, hit, raw))


@settings(max_examples=4)
@given(seed=st.integers(0, 2**32))
def test_a_hits_text_is_read_back_byte_for_byte_or_not_at_all(world: Any, seed: int) -> None:
    """After each of random edits the raw lines that a hit named are found where they are, or not found."""
    check_example(world, seed)


@pytest.mark.slow
@settings(max_examples=cases(1000) // (STARTS * EDITS))
@given(seed=st.integers(0, 2**32))
def test_in_a_thousand_edits_no_reference_ever_gives_other_text(world: Any, seed: int) -> None:
    """The same in full: `PROPERTY_CASES=10000` sets how many."""
    check_example(world, seed)

"""However much comes and goes, meaning finds what lives and never what is gone (BR-51)."""

from __future__ import annotations

from pathlib import Path

import pytest
from index_builders import document, found_by_vector, nearest, open_index, put

ROUNDS = 200
CROSSOVER = 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("crossover", "rounds"), [(CROSSOVER, ROUNDS), (10_000, ROUNDS // 4)], ids=["graph", "exact"]
)
async def test_two_hundred_rounds_of_adding_and_deleting_lose_and_revive_nothing(
    tmp_path: Path, crossover: int, rounds: int
) -> None:
    index = await open_index(tmp_path, crossover=crossover)
    await put(index, *(document(f"s{n}.md", f"steady text {n}") for n in range(40)))
    await index.apply(removals=[f"s{n}.md" for n in range(37)])
    for n in range(40):
        found = found_by_vector(index.view(), f"steady text {n}")
        assert found is None or found[0] in {"s37.md", "s38.md", "s39.md"}
        if n >= 37:
            assert found is not None
            assert found[0] == f"s{n}.md"
        assert nearest(index.view(), f"steady text {n}", 10) == {"s37.md", "s38.md", "s39.md"}
    await index.apply(removals=["s37.md", "s38.md", "s39.md"])
    assert nearest(index.view(), "steady text 38", 10) == set()
    living: list[int] = []
    for number in range(rounds):
        added = list(range(number * 5, number * 5 + 5))
        await put(index, *(document(f"r{n}.md", f"passing text {n}") for n in added))
        gone, living = (living[:5], living[5:] + added) if len(living) > 20 else ([], living + added)
        if gone:
            await index.apply(removals=[f"r{n}.md" for n in gone])
        view = index.view()
        for n in living:
            found = found_by_vector(view, f"passing text {n}")
            assert found is not None
            assert found[0] == f"r{n}.md"
        for n in gone:
            assert found_by_vector(view, f"passing text {n}") is None
    await index.close()

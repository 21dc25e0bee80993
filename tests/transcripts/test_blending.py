"""Hits of two sources in one list: neither source's own order changes (spec §5.1)."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.domain.memory import Hit, LineRange, Reference
from sidecar.service.blend import blended

SCORES = st.lists(st.floats(0, 1.5), max_size=12)


def hits(path: str, scores: list[float]) -> list[Hit]:
    return [
        Hit(
            reference=Reference(provider_id="p", id=path),
            excerpt="",
            path=path,
            lines=LineRange(number, number),
            score=score,
            source="memory",
        )
        for number, score in enumerate(scores, start=1)
    ]


@settings(max_examples=40)
@given(SCORES, SCORES, SCORES)
def test_each_source_keeps_its_order_and_the_better_head_comes_first(
    one: list[float], two: list[float], more: list[float]
) -> None:
    merged = blended([hits("a", one), hits("b", two)])
    for path, scores in (("a", one), ("b", two)):
        own = [hit for hit in merged if hit.path == path]
        assert [hit.lines.start for hit in own] == list(range(1, len(scores) + 1))
    # A longer list only goes on: what was shown stays in its place.
    most = min(len(one), len(two))
    assert blended([hits("a", one + more), hits("b", two + more)])[:most] == merged[:most]


def test_equal_scores_keep_the_order_of_the_sources() -> None:
    merged = blended([hits("a", [0.5, 0.5]), hits("b", [0.5])])
    assert [path for path, _ in groupby(hit.path for hit in merged)] == ["a", "b"]

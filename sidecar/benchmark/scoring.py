"""What a list of hits is worth for a question, as a reader sees it. Pure.

Evidence counts only where it can be read: its line stands within a place that the hit cites, and its text,
white space collapsed, stands in the hit's excerpt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sidecar.benchmark.questions import Line, Question, collapsed

FEW = 6
"""So many hits a reader looks at; the gateway's own default."""
BUDGET = 4000
"""So many characters of excerpts a reader has room for."""


class Cited(msgspec.Struct, frozen=True):
    """A place that a hit names: a path and its first and last line, counted from 1."""

    path: str
    start: int
    end: int


class Excerpt(msgspec.Struct, frozen=True):
    """A hit as it is shown: its text and every place where that text stands."""

    text: str
    places: tuple[Cited, ...]


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One question's share of evidence found, 0 to 1, and how many hits there were.

    `any_1`, `any_6`: 1 when any evidence stands in the first hit, in the first six. `part_6`,
    `part_budget`: the share of the groups in the first six hits, and in the first 4,000 characters.
    """

    any_1: float
    any_6: float
    part_6: float
    part_budget: float
    hits: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Means over questions. Shares are those of the answerable ones, in percent, None where there are none.

    `hits` is the mean number of hits of these, `unanswerable_hits` of the questions without an answer.
    """

    answerable: int
    unanswerable: int
    any_1: float | None = msgspec.field(name="any@1", default=None)
    any_6: float | None = msgspec.field(name="any@6", default=None)
    part_6: float | None = msgspec.field(name="frac@6", default=None)
    part_budget: float | None = msgspec.field(name="frac@4000c", default=None)
    hits: float | None = None
    unanswerable_hits: float | None = msgspec.field(name="unanswerableHits", default=None)


def score(question: Question, hits: Sequence[Excerpt]) -> Score:
    """The score of the hits, best first; a question without evidence scores 0 whatever is found."""
    ranks: list[int] = []
    within_budget = 0
    texts = [collapsed(hit.text) for hit in hits]
    spent = 0
    starts = []
    for hit in hits:
        starts.append(spent)
        spent += len(hit.text)
    for group in question.groups:
        seen = [
            (place, starts[place] + end)
            for place, hit in enumerate(hits)
            for end in _ends(group, hit, texts[place])
        ]
        if seen:
            ranks.append(seen[0][0])
            within_budget += any(end <= BUDGET for _, end in seen)
    groups = max(1, len(question.groups))
    few = sum(rank < FEW for rank in ranks)
    return Score(
        any_1=float(0 in ranks),
        any_6=float(few > 0),
        part_6=few / groups,
        part_budget=within_budget / groups,
        hits=len(hits),
    )


def summarise(scored: Iterable[tuple[Question, Score]]) -> Summary:
    """The means over questions."""
    pairs = list(scored)
    told = [found for question, found in pairs if question.groups]
    untold = [found for question, found in pairs if not question.groups]
    return Summary(
        answerable=len(told),
        unanswerable=len(untold),
        any_1=_percent([found.any_1 for found in told]),
        any_6=_percent([found.any_6 for found in told]),
        part_6=_percent([found.part_6 for found in told]),
        part_budget=_percent([found.part_budget for found in told]),
        hits=_mean([found.hits for found in told], 2),
        unanswerable_hits=_mean([found.hits for found in untold], 2),
    )


def _ends(group: Sequence[Line], hit: Excerpt, text: str) -> list[int]:
    """Where in the collapsed excerpt each line of the group ends that can be read there."""
    return [
        at + len(line.text)
        for line in group
        if any(place.path == line.path and place.start <= line.number <= place.end for place in hit.places)
        and (at := text.find(line.text)) >= 0
    ]


def _percent(shares: Sequence[float]) -> float | None:
    return _mean([100 * share for share in shares], 1)


def _mean(values: Sequence[float], digits: int) -> float | None:
    return round(sum(values) / len(values), digits) if values else None

"""From scores to an order: what may not be seen is left out, the best candidates get their adjustments."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from sidecar.domain.corpus import NO_ANNOTATIONS, Annotations
from sidecar.index.documents import ORDINAL_BITS
from sidecar.index.entries import DocumentEntry
from sidecar.index.view import View
from sidecar.ranking.adjust import Adjustment, adjustments, largest_factor
from sidecar.ranking.fusion import Scored
from sidecar.ranking.names import name_of, name_tier
from sidecar.ranking.parameters import Parameters
from sidecar.text.annotations import normalise_project_key
from sidecar.text.prepare import CURATED

_ORDINAL = (1 << ORDINAL_BITS) - 1
# Seeds behind the adjusted ones are judged so many at a time, as far as anybody asks.
_AT_ONCE = 50

# Score, key, index in `Scored`, adjustments, and the unit's document.
_Judged = tuple[float, int, int, tuple[Adjustment, ...], "_Document"]


class _Document(NamedTuple):
    """What all units of a document share; `plain` are the adjustments of those without annotations."""

    entry: DocumentEntry
    marked: Mapping[int, Annotations]
    tier: int
    plain: tuple[Adjustment, ...]


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """A unit with its place in the order; `text` and `vector` are what the legs gave."""

    entry: DocumentEntry
    ordinal: int
    key: int
    score: float
    text: float
    vector: float
    adjustments: tuple[Adjustment, ...]


def order(
    view: View,
    scored: Scored,
    *,
    query: str,
    today: datetime.date,
    projects: tuple[str, ...] | None,
    parameters: Parameters,
) -> Iterator[Ranked]:
    """The units that a hit may start from, best first; those of a file that the query names come before all.

    Entries with a malformed annotation are never seen (U§10); with `projects`, nor are entries with a key
    that is not active. The number of hits that is asked for changes nothing here, so every answer is a
    prefix of a longer one.
    """
    active = frozenset(map(normalise_project_key, projects or ()))
    judge = _Judge(view, scored, name_of(query), today, active, parameters)
    yield from map(judge.ranked, _adjusted(judge, scored, parameters.adjusted))
    for start in range(parameters.adjusted, len(scored.seeds), _AT_ONCE):
        yield from map(judge.ranked, judge.judged(scored.seeds[start : start + _AT_ONCE]))


def _adjusted(judge: _Judge, scored: Scored, most: int) -> Iterator[_Judged]:
    """The best `most` seeds in the order of their adjusted scores, judged as far as anybody asks.

    A unit may come once nothing behind it can be adjusted past it.
    """
    seeds = scored.seeds[:most]
    if judge.is_named(seeds):
        named = judge.judged(seeds)
        named.sort(key=lambda judged: (-judged[4].tier, -judged[0]))
        yield from named
        return
    waiting: list[tuple[float, int, _Judged]] = []
    for start in range(0, len(seeds), _AT_ONCE):
        end = start + _AT_ONCE
        for place, judged in enumerate(judge.judged(seeds[start:end]), start):
            heappush(waiting, (-judged[0], place, judged))
        attainable = judge.largest_factor * float(scored.scores[seeds[end]]) if end < len(seeds) else -inf
        while waiting and -waiting[0][0] >= attainable:
            yield heappop(waiting)[2]


class _Judge:
    """What a unit's score becomes. Few of the judged units are ever shown, so each is a bare tuple first.

    What does not depend on the unit is looked up once a document: this runs for hundreds of units a search.
    """

    def __init__(
        self,
        view: View,
        scored: Scored,
        name: str,
        today: datetime.date,
        active: frozenset[str],
        parameters: Parameters,
    ) -> None:
        self._documents = view.documents
        self._scored = scored
        self._name = name
        self._today = today.toordinal()
        self._active = active
        self._parameters = parameters
        self.largest_factor = largest_factor(parameters, projects=bool(active))
        self._known: dict[int, _Document | None] = {}
        self._plain: dict[tuple[int | None, bool], tuple[Adjustment, ...]] = {}

    def is_named(self, seeds: NDArray[np.intp]) -> bool:
        """Whether the query names the file of any of the seeds."""
        numbers = np.unique(self._scored.keys[seeds] >> ORDINAL_BITS).tolist()
        entries = filter(None, map(self._documents.get, numbers))
        return any(name_tier(self._name, entry.path) for entry in entries)

    def judged(self, seeds: NDArray[np.intp]) -> list[_Judged]:
        """The units among the seeds that may be seen, in the order of the seeds."""
        found: list[_Judged] = []
        known, unknown = self._known, self._document
        keys, scores = self._scored.keys[seeds].tolist(), self._scored.scores[seeds].tolist()
        spoken = self._scored.spoken[seeds].tolist()
        for index, key, score, speaks in zip(seeds.tolist(), keys, scores, spoken, strict=True):
            number = key >> ORDINAL_BITS
            try:
                document = known[number]
            except KeyError:
                document = known[number] = unknown(number)
            if document is None or (not speaks and _is_bare(document, key & _ORDINAL)):
                continue
            marked = document.marked
            annotations = marked.get(key & _ORDINAL) if marked else None
            if annotations is None:
                factors = document.plain
            elif annotations.malformed or (
                self._active and not self._active.issuperset(annotations.project_keys)
            ):
                continue
            else:
                factors = self._factors(document.entry, annotations)
            for _, factor in factors:
                score *= factor
            found.append((score, key, index, factors, document))
        return found

    def ranked(self, judged: _Judged) -> Ranked:
        """A judged unit in full."""
        score, key, index, factors, document = judged
        return Ranked(
            entry=document.entry,
            ordinal=key & _ORDINAL,
            key=key,
            score=score,
            text=float(self._scored.text[index]),
            vector=float(self._scored.vector[index]),
            adjustments=factors,
        )

    def _document(self, number: int) -> _Document | None:
        """A document by number; None for a version that is no longer published, which an engine may hold."""
        entry = self._documents.get(number)
        if entry is None:
            return None
        kind = (entry.day, entry.path in CURATED)
        plain = self._plain.get(kind)
        if plain is None:
            plain = self._plain[kind] = self._factors(entry, NO_ANNOTATIONS)
        return _Document(entry, entry.units.marked, name_tier(self._name, entry.path), plain)

    def _factors(self, entry: DocumentEntry, annotations: Annotations) -> tuple[Adjustment, ...]:
        return adjustments(
            age_days=None if entry.day is None else self._today - entry.day,
            curated=entry.path in CURATED,
            annotations=annotations,
            active_projects=self._active,
            parameters=self._parameters,
        )


def _is_bare(document: _Document, ordinal: int) -> bool:
    """Whether a unit is a heading beside other text: if it has no word of the query, that text is the hit."""
    units = document.entry.units
    return document.tier == 0 and len(units) > 1 and units.kind(ordinal) == "heading"

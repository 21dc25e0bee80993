"""From scores to an order: what may not be seen is left out, the best candidates get their adjustments."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import msgspec

from sidecar.index.documents import ORDINAL_BITS
from sidecar.index.entries import DocumentEntry
from sidecar.index.view import View
from sidecar.ranking.adjust import Adjustment, adjustments
from sidecar.ranking.fusion import Scored
from sidecar.ranking.names import name_of, name_tier
from sidecar.ranking.parameters import Parameters
from sidecar.text.annotations import normalise_project_key
from sidecar.text.prepare import CURATED

_ORDINAL = (1 << ORDINAL_BITS) - 1


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
    name = name_of(query)
    seeds = scored.seeds.tolist()
    head = [
        ranked
        for index in seeds[: parameters.adjusted]
        if (ranked := _ranked(view, scored, index, today, active, parameters)) is not None
    ]
    head.sort(key=lambda ranked: (-name_tier(name, ranked.entry.path), -ranked.score))
    yield from head
    for index in seeds[parameters.adjusted :]:
        ranked = _ranked(view, scored, index, today, active, parameters)
        if ranked is not None:
            yield ranked


def _ranked(
    view: View,
    scored: Scored,
    index: int,
    today: datetime.date,
    active: frozenset[str],
    parameters: Parameters,
) -> Ranked | None:
    key = int(scored.keys[index])
    entry = view.documents.get(key >> ORDINAL_BITS)
    if entry is None:  # an engine may still hold a version that is no longer published
        return None
    ordinal = key & _ORDINAL
    annotations = entry.units.annotations(ordinal)
    if annotations.malformed or (active and not active.issuperset(annotations.project_keys)):
        return None
    factors = adjustments(
        age_days=None if entry.day is None else today.toordinal() - entry.day,
        curated=entry.path in CURATED,
        annotations=annotations,
        active_projects=active,
        parameters=parameters,
    )
    score = float(scored.scores[index])
    for _, factor in factors:
        score *= factor
    return Ranked(
        entry=entry,
        ordinal=ordinal,
        key=key,
        score=score,
        text=float(scored.text[index]),
        vector=float(scored.vector[index]),
        adjustments=factors,
    )

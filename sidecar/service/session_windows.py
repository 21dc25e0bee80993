"""From a ranked piece of a transcript to a hit: whole records around it, named by their physical lines."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.domain.corpus import OriginClass
from sidecar.domain.memory import (
    AutomaticRecall,
    Citation,
    Hit,
    LineRange,
    Origin,
    Reference,
    ScoreParts,
)
from sidecar.index.documents import ORDINAL_BITS
from sidecar.index.entries import DocumentEntry
from sidecar.ranking.fusion import Scored
from sidecar.service.ordering import Ranked
from sidecar.service.session_shelf import SessionShelf
from sidecar.service.showing import NoHit, near_spans
from sidecar.service.transcript_documents import transcript_of
from sidecar.text.fragments import format_fragment, label
from sidecar.text.lines import revision
from sidecar.text.transcripts import Rendered
from sidecar.text.windows import excerpt, grow, range_of

TRUST: tuple[OriginClass, ...] = ("owner", "agent", "system", "untrusted")
"""Most trusted first."""


class SessionWindows:
    """The windows of one search over transcripts: no piece is shown twice, each chunk is proven once."""

    def __init__(
        self, *, scored: Scored, shelf: SessionShelf, provider_id: str, hybrid: bool, reach: int
    ) -> None:
        self._scored = scored
        self._score: dict[int, float] | None = None
        self._shelf = shelf
        self._provider_id = provider_id
        self._hybrid = hybrid
        self._reach = reach
        self._taken: set[int] = set()
        self._records: dict[int, tuple[Rendered, ...] | None] = {}

    def show(self, ranked: Ranked) -> Hit | NoHit:
        """The hit that starts from a piece, or why there is none."""
        if ranked.key in self._taken:
            return NoHit.COVERED
        entry = ranked.entry
        if entry.document_id not in self._records:
            self._records[entry.document_id] = self._shelf.records(entry)
        records = self._records[entry.document_id]
        if records is None:
            return NoHit.STALE
        base, taken = entry.document_id << ORDINAL_BITS, self._taken
        low, spans = near_spans(entry.units, ranked.ordinal, lambda at: base + at in taken, self._reach)
        first, last = grow(spans, ranked.ordinal - low, gains=self._gains(base + low, len(spans)))
        taken.update(range(base + low + first, base + low + last + 1))
        parts = ScoreParts(
            text=ranked.text,
            vector=ranked.vector if self._hybrid else None,
            adjustments=ranked.adjustments,
        )
        places = range_of(spans, first, last)
        path = transcript_of(entry.path)
        return session_hit(self._provider_id, path, records, places, score=ranked.score, parts=parts)

    def park(self) -> None:
        """Hold less from here on."""
        self._score = None
        self._records = {}

    def hold(self, entry: DocumentEntry) -> bool:  # noqa: ARG002
        """Nothing is read ahead: transcripts only ever grow, and what is shown of them stays."""
        return False

    def _gains(self, start: int, count: int) -> list[float]:
        if self._score is None:
            keys, scores = self._scored.keys.tolist(), self._scored.scores.tolist()
            self._score = dict(zip(keys, scores, strict=True))
        score = self._score
        return [score.get(key, 0.0) for key in range(start, start + count)]


def session_hit(
    provider_id: str,
    path: str,
    records: Sequence[Rendered],
    places: LineRange,
    *,
    score: float,
    parts: ScoreParts,
) -> Hit:
    """The hit on records of a transcript, given by their places (1-based) among `records`."""
    text, shown = excerpt([record.text for record in records], places)
    lines = physical(records, shown)
    reference = Reference(
        provider_id=provider_id,
        id=path,
        fragment=format_fragment(lines),
        revision=revision_of(records[shown.start - 1 : shown.end]),
    )
    citation = Citation(
        label=label(path, lines), reference=reference, start_line=lines.start, end_line=lines.end
    )
    return Hit(
        reference=reference,
        excerpt=text,
        path=path,
        lines=lines,
        score=score,
        source="sessions",
        citations=(citation,),
        recall=AutomaticRecall(eligible=False),
        parts=parts,
        origin=_origin_of(records[shown.start - 1 : shown.end]),
    )


def _origin_of(records: Sequence[Rendered]) -> Origin:
    """The least trusted origin that is present, and the newest time (U§7)."""
    return Origin(
        origin_class=max((record.origin for record in records), key=TRUST.index),
        observed_ms=max(record.observed_ms for record in records),
    )


def places_of(records: Sequence[Rendered], lines: LineRange) -> LineRange | None:
    """The places of the records that stand on physical lines; None where there is none."""
    inside = [place for place, record in enumerate(records, 1) if lines.start <= record.line <= lines.end]
    if not inside or (lines.chars is not None and len(inside) != 1):
        return None
    if lines.chars is not None and lines.chars[1] > len(records[inside[0] - 1].text):
        return None
    return LineRange(inside[0], inside[-1], lines.chars)


def physical(records: Sequence[Rendered], places: LineRange) -> LineRange:
    """The physical lines of records given by their places (1-based); characters stay those of one record."""
    return LineRange(records[places.start - 1].line, records[places.end - 1].line, places.chars)


def revision_of(records: Sequence[Rendered]) -> str:
    """The name of what these records say: that of their rendered lines."""
    return revision([line for record in records for line in record.lines])

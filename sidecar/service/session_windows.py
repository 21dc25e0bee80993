"""From a ranked piece of a transcript to a hit: whole records around it, named by their physical lines."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.domain.memory import AutomaticRecall, Citation, Hit, LineRange, Reference, ScoreParts
from sidecar.index.documents import ORDINAL_BITS
from sidecar.ranking.fusion import Scored
from sidecar.service.ordering import Ranked
from sidecar.service.session_shelf import SessionShelf
from sidecar.service.showing import NoHit, near_spans
from sidecar.service.transcript_documents import transcript_of
from sidecar.text.fragments import format_fragment, label
from sidecar.text.lines import revision
from sidecar.text.transcripts import Rendered
from sidecar.text.windows import excerpt, grow, range_of


class SessionWindows:
    """The windows of one search over transcripts: no piece is shown twice, each chunk is proven once."""

    def __init__(self, *, scored: Scored, shelf: SessionShelf, provider_id: str, hybrid: bool) -> None:
        self._score = dict(zip(scored.keys.tolist(), scored.scores.tolist(), strict=True))
        self._shelf = shelf
        self._provider_id = provider_id
        self._hybrid = hybrid
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
        low, spans = near_spans(entry.units, ranked.ordinal, lambda at: base + at in taken)
        gains = [self._score.get(base + low + at, 0.0) for at in range(len(spans))]
        first, last = grow(spans, ranked.ordinal - low, gains=gains)
        taken.update(range(base + low + first, base + low + last + 1))
        text, shown = excerpt([record.text for record in records], range_of(spans, first, last))
        return self._hit(ranked, text, shown, records)

    def _hit(self, ranked: Ranked, text: str, shown: LineRange, records: Sequence[Rendered]) -> Hit:
        path = transcript_of(ranked.entry.path)
        cited = records[shown.start - 1 : shown.end]
        lines = physical(records, shown)
        reference = Reference(
            provider_id=self._provider_id,
            id=path,
            fragment=format_fragment(lines),
            revision=revision_of(cited),
        )
        return Hit(
            reference=reference,
            excerpt=text,
            path=path,
            lines=lines,
            score=ranked.score,
            source="sessions",
            citations=(
                Citation(
                    label=label(path, lines),
                    reference=reference,
                    start_line=lines.start,
                    end_line=lines.end,
                ),
            ),
            recall=AutomaticRecall(eligible=False),
            parts=ScoreParts(
                text=ranked.text,
                vector=ranked.vector if self._hybrid else None,
                adjustments=ranked.adjustments,
            ),
        )


def physical(records: Sequence[Rendered], places: LineRange) -> LineRange:
    """The physical lines of records given by their places (1-based); characters stay those of one record."""
    return LineRange(records[places.start - 1].line, records[places.end - 1].line, places.chars)


def revision_of(records: Sequence[Rendered]) -> str:
    """The name of what these records say: that of their rendered lines."""
    return revision([line for record in records for line in record.lines])

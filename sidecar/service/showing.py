"""From a ranked unit to a hit: the window around it, proven against the disk, with its reference."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum

from sidecar.domain.memory import Hit, ScoreParts
from sidecar.index.documents import ORDINAL_BITS
from sidecar.index.entries import DocumentEntry
from sidecar.index.packing import HEADING, UnitRow, UnitTable
from sidecar.ranking.fusion import Scored
from sidecar.service.hits import Found, HitMaker
from sidecar.service.ordering import Ranked
from sidecar.service.shelf import Shelf
from sidecar.text.cutting import UNIT_LIMIT
from sidecar.text.prepare import CURATED
from sidecar.text.windows import Span, entry_window, grow, range_of


class NoHit(Enum):
    """Why a ranked unit gives no hit: it is inside an earlier one, or its file changed."""

    COVERED = "covered"
    STALE = "stale"


class Windows:
    """The windows of one search: no unit is shown twice, and each file is checked once."""

    def __init__(
        self,
        *,
        scored: Scored,
        shelf: Shelf,
        hits: HitMaker,
        hybrid: bool,
        reach: int,
        still: Collection[str] = (),
    ) -> None:
        """`still`: folders that were just seen to be as the scan left them."""
        self._scored = scored
        self._shelf = shelf
        self._hits = hits
        self._hybrid = hybrid
        self._reach = reach
        self._still = still
        self._proven = True
        self._taken: set[int] = set()
        self._lines: dict[int, Sequence[str] | None] = {}

    def show(self, ranked: Ranked) -> Hit | NoHit:
        """The hit that starts from a unit, or why there is none."""
        if ranked.key in self._taken:
            return NoHit.COVERED
        entry = ranked.entry
        if entry.document_id not in self._lines:
            self._lines[entry.document_id] = (
                self._shelf.lines(entry, self._still) if self._proven else self._shelf.indexed(entry)
            )
        lines = self._lines[entry.document_id]
        if lines is None:
            return NoHit.STALE
        base = entry.document_id << ORDINAL_BITS
        curated = entry.path in CURATED
        first, last, spans, offset = self._window(entry, ranked.ordinal, base, curated)
        if first == last and spans[first - offset].heading and _has_body(entry.units, first):
            # A bare heading says nothing: what stands under it is shown in its place.
            self._taken.add(ranked.key)
            if base + first + 1 in self._taken:
                return NoHit.COVERED
            first, last, spans, offset = self._window(entry, first + 1, base, curated)
        self._taken.update(range(base + first, base + last + 1))
        found = Found(
            path=entry.path,
            source=entry.source,
            origin=entry.origin,
            annotations=entry.units.annotations(ranked.ordinal),
            score=ranked.score,
            parts=ScoreParts(
                text=ranked.text,
                vector=ranked.vector if self._hybrid else None,
                adjustments=ranked.adjustments,
            ),
        )
        return self._hits.hit(found, lines, range_of(spans, first - offset, last - offset))

    def park(self) -> None:
        """From here on windows are shown in what was indexed, changed or not, and less is held meanwhile."""
        self._proven = False

    def hold(self, entry: DocumentEntry) -> bool:
        """Keep the lines of a document as it was indexed for `show`; whether that was new. After `park`."""
        if entry.document_id in self._lines:
            return False
        self._lines[entry.document_id] = self._shelf.indexed(entry)
        return True

    def _window(
        self, entry: DocumentEntry, ordinal: int, base: int, curated: bool
    ) -> tuple[int, int, list[Span], int]:
        """First and last ordinal of the window, and the spans (from the returned ordinal on) around it."""
        taken = self._taken
        if curated:
            low, spans = entry_spans(entry.units, ordinal)
            first, last = entry_window(spans, ordinal - low)
        else:
            low, spans = near_spans(entry.units, ordinal, lambda at: base + at in taken, self._reach)
            gains = self._gains(base + low, len(spans))
            first, last = grow(spans, ordinal - low, gains=gains)
        return first + low, last + low, spans, low

    def _gains(self, start: int, count: int) -> list[float]:
        """The scores of `count` units from a key on; 0 where nothing was found."""
        low, high = self._scored.keys.searchsorted((start, start + count)).tolist()
        gains = [0.0] * count
        scores = self._scored.scores[low:high].tolist()
        for key, score in zip(self._scored.keys[low:high].tolist(), scores, strict=True):
            gains[key - start] = score
        return gains


def _has_body(table: UnitTable, heading: int) -> bool:
    """Whether text of the same kind follows a heading: same group, and no heading itself."""
    following = heading + 1
    if following >= len(table) or table.kind(following) == "heading":
        return False
    return table.group(following) == table.group(heading)


def near_spans(
    table: UnitTable, ordinal: int, taken: Callable[[int], bool], reach: int
) -> tuple[int, list[Span]]:
    """The units that a window around `ordinal` could hold, `reach` on each side, with the first's ordinal.

    It ends where the sizes add up to more than a window takes, at a taken unit and at another group.
    """
    low = max(0, ordinal - reach)
    rows = table.rows_between(low, ordinal + reach + 1)
    at = ordinal - low
    group, room = rows[at].group, UNIT_LIMIT - rows[at].size

    def fitting(places: range) -> int:
        """How many of these rows, in turn, could stand in the window."""
        left = room
        for count, place in enumerate(places):
            row = rows[place]
            left -= row.size
            if left < 0 or row.group != group or taken(low + place):
                return count
        return len(places)

    first = at - fitting(range(at - 1, -1, -1))
    end = at + 1 + fitting(range(at + 1, len(rows)))
    spans = [_span(row, table.char_range(low + first + n)) for n, row in enumerate(rows[first:end])]
    return low + first, spans


def entry_spans(table: UnitTable, ordinal: int) -> tuple[int, list[Span]]:
    """The units of the curated entry that `ordinal` belongs to, with the first one's ordinal."""
    group = table.group(ordinal)
    low = high = ordinal
    while low > 0 and table.group(low - 1) == group:
        low -= 1
    while high + 1 < len(table) and table.group(high + 1) == group:
        high += 1
    rows = table.rows_between(low, high + 1)
    return low, [_span(row, table.char_range(low + at)) for at, row in enumerate(rows)]


def _span(row: UnitRow, chars: tuple[int, int] | None) -> Span:
    start, end, section, group, size, kind = row
    return Span(start, end, size, group, section, kind == HEADING, chars)

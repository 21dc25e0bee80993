"""Which lines a hit shows: a window of whole units around the best one, and its text (spec §5.1)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sidecar.domain.memory import LineRange
from sidecar.text.annotations import strip
from sidecar.text.cutting import UNIT_LIMIT, before_comment
from sidecar.text.lines import cut_utf16, utf16_length
from sidecar.text.markdown import raw_text

BLOCKED = -1
"""The group of units that no window may hold: their entry has a malformed project annotation (U§10)."""


class Span(msgspec.Struct, frozen=True):
    """A unit as windows see it, light enough to be unpacked from a compact table.

    `size` is what the unit adds to a window in UTF-16 units, line ends between units not counted (see
    `sizes`). A window holds units of one `group` only: units with the same project keys or, in a curated
    file, one entry. `section` is that of `Unit`, `heading` tells the unit that opens it.
    """

    start: int
    end: int
    size: int
    group: int
    section: int = 0
    heading: bool = False
    chars: tuple[int, int] | None = None


def sizes(lines: Sequence[str], ranges: Sequence[LineRange]) -> list[int]:
    """The `Span.size` of a file's units: their annotation-stripped text, and the white space just above.

    With these, a window never comes out longer than its spans promise (blank lines are rarely empty).
    """
    found: list[int] = []
    above = 0
    for where in ranges:
        size = utf16_length(strip(raw_text(lines, where)))
        size += sum(map(utf16_length, lines[above : where.start - 1]))
        above = where.end
        found.append(size)
    return found


def grow(
    spans: Sequence[Span], best: int, *, limit: int = UNIT_LIMIT, gains: Sequence[float] | None = None
) -> tuple[int, int]:
    """The first and last index (inclusive) of the units to show around `best`.

    Takes whole neighbours while the text stays within `limit` UTF-16 units, never past a unit of another
    group, and between the pieces of one over-long line only each other. `gains` (one number per unit) says
    how much each unit matters: the side whose next unit gains more grows first. Where that does not decide,
    a heading directly above is taken first, then units of the same section, then the shorter side. A
    blocked unit, and one that is over the limit already, is a window by itself.
    """
    first = last = best
    length = spans[best].size
    end = len(spans) - 1
    while True:
        above = _grown(spans[first - 1], spans[first], length, limit) if first > 0 else None
        below = _grown(spans[last + 1], spans[last], length, limit) if last < end else None
        if above is not None and (
            below is None
            or _rank(spans, best, first - 1, best - first, last - best, gains)
            > _rank(spans, best, last + 1, best - first, last - best, gains)
        ):
            first, length = first - 1, above
        elif below is not None:
            last, length = last + 1, below
        else:
            return first, last


def _grown(outer: Span, inner: Span, length: int, limit: int) -> int | None:
    """The length of a window once it takes in a neighbour; None where it may not, or would get too long."""
    grown = length + outer.size + _line_ends(outer, inner)
    return grown if grown <= limit and _adjoins(outer, inner) else None


def _rank(
    spans: Sequence[Span], best: int, index: int, above: int, below: int, gains: Sequence[float] | None
) -> tuple[float, ...]:
    """How welcome a neighbour is; larger is better."""
    candidate = spans[index]
    same_section = candidate.section == spans[best].section
    upward = index < best
    return (
        gains[index] if gains is not None else 0.0,
        float(upward and candidate.heading and same_section),
        float(same_section),
        float(below - above if upward else above - below),
    )


def _adjoins(outer: Span, inner: Span) -> bool:
    """Whether a window may hold both of two neighbours."""
    if outer.group != inner.group or outer.group == BLOCKED:
        return False
    if outer.chars is None and inner.chars is None:
        return True
    # Pieces of one line join where they touch; a whole over-long line never fits a window.
    if outer.chars is None or inner.chars is None or outer.start != inner.start:
        return False
    return outer.chars[0] == inner.chars[1] or outer.chars[1] == inner.chars[0]


def _line_ends(one: Span, other: Span) -> int:
    return max(one.start, other.start) - min(one.end, other.end)


def entry_window(spans: Sequence[Span], best: int) -> tuple[int, int]:
    """The first and last index of the curated entry that unit `best` belongs to, however long it is."""
    first = last = best
    while first > 0 and spans[first - 1].group == spans[best].group:
        first -= 1
    while last + 1 < len(spans) and spans[last + 1].group == spans[best].group:
        last += 1
    return first, last


def range_of(spans: Sequence[Span], first: int, last: int) -> LineRange:
    """The lines from unit `first` to unit `last`; a character range when both are pieces of one line."""
    head, tail = spans[first], spans[last]
    if head.chars is not None and tail.chars is not None and head.start == tail.start:
        return LineRange(head.start, head.start, (head.chars[0], tail.chars[1]))
    return LineRange(head.start, tail.end)


def excerpt(lines: Sequence[str], where: LineRange, limit: int | None = UNIT_LIMIT) -> tuple[str, LineRange]:
    """The text on disk of a range after annotation stripping, and the range that this text shows.

    A text over `limit` UTF-16 units (None: no limit) is cut at a line end and loses blank lines at both ends;
    one whose first line alone is longer is cut within it, and the range then carries the characters.
    """
    text = strip(raw_text(lines, where))
    if limit is None or utf16_length(text) <= limit:
        return text, where
    first = where.start
    if where.chars is None:
        while first < where.end and not lines[first - 1].strip():
            first += 1
        for count in range(_fitting(strip(raw_text(lines, LineRange(first, where.end))), limit), 0, -1):
            shorter = LineRange(first, first + count - 1)
            text = strip(raw_text(lines, shorter))
            if lines[shorter.end - 1].strip() and utf16_length(text) <= limit:
                return text, shorter
    line = lines[first - 1]
    if not line:
        return "", LineRange(first, first)
    start, end = where.chars or (0, len(line))
    end = before_comment(line, start, start + max(1, len(cut_utf16(line[start:end], limit))))
    cut = LineRange(first, first, (start, end))
    return strip(raw_text(lines, cut)), cut


def _fitting(stripped: str, limit: int) -> int:
    """How many whole lines of a stripped text fit."""
    length = -1
    count = 0
    for line in stripped.split("\n"):
        length += utf16_length(line) + 1
        if length > limit:
            break
        count += 1
    return count

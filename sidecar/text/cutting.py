"""Cutting what is too long for one unit: many lines at line ends, an endless line into ranges (spec §5.1)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter

from sidecar.domain.memory import LineRange
from sidecar.text.annotations import comment_spans
from sidecar.text.lines import character_border, cut_utf16, utf16_length

UNIT_LIMIT = 700
"""UTF-16 units that a unit may hold: what an excerpt can show (spec §5.1)."""

CODE_LINES = 30
"""Lines of a code block that stay together."""

_PIECE = 600
_PIECE_MINIMUM = 420
_SENTENCE_END = re.compile(r"[.!?;,:。！？；，、：।۔؟|)\]}>»”]")


def cut_lines(lines: Sequence[str], start: int, end: int, *, most: int | None = None) -> Iterator[LineRange]:
    """Ranges that cover the 1-based lines `start`-`end`, each within `UNIT_LIMIT` and at most `most` lines.

    Cut only where a line ends, except that a single line over the limit becomes ranges with `chars`.
    Ranges neither begin nor end with a blank line, so blank lines at a cut belong to none.
    """
    first, length = 0, 0
    last = start - 1
    for number in range(start, end + 1):
        line = lines[number - 1]
        if not line.strip():
            length += len(line) + 1 if first else 0
            continue
        size = utf16_length(line)
        if first and (length + size > UNIT_LIMIT or (most is not None and number - first >= most)):
            yield LineRange(first, last)
            first, length = 0, 0
        if size > UNIT_LIMIT:
            for chars in cut_line(line):
                if not line[chars[0] : chars[1]].isspace():
                    yield LineRange(number, number, chars)
            continue
        first = first or number
        last = number
        length += size + 1
    if first:
        yield LineRange(first, last)


def cut_line(line: str) -> list[tuple[int, int]]:
    """Half-open code point ranges that cover a line: about 420-600 code points and within `UNIT_LIMIT`.

    Cut after white space, else after punctuation, else between two visible characters. An annotation
    comment is not cut unless it is itself longer than a piece.
    """
    comments = comment_spans(line)
    ranges: list[tuple[int, int]] = []
    at = 0
    while at < len(line):
        end = _outside(comments, at, _piece_end(line, at))
        ranges.append((at, end))
        at = end
    return ranges


def before_comment(line: str, start: int, end: int) -> int:
    """`end`, or the start of the annotation comment that a cut there would part, if that is past `start`."""
    return _outside(comment_spans(line), start, end)


def _outside(comments: Sequence[tuple[int, int]], start: int, end: int) -> int:
    index = bisect_right(comments, end - 1, key=itemgetter(0)) - 1
    if index >= 0 and start < comments[index][0] < end < comments[index][1]:
        return comments[index][0]
    return end


def _piece_end(line: str, at: int) -> int:
    window = cut_utf16(line[at : at + _PIECE + 1], UNIT_LIMIT)[:_PIECE]
    if at + len(window) >= len(line):
        return len(line)
    minimum = min(_PIECE_MINIMUM, len(window) * 2 // 3)
    tail = window[minimum:]
    kept = tail.rstrip()
    if len(kept) < len(tail):
        return at + len(window)
    space = max(tail.rfind(" "), tail.rfind("\t"), tail.rfind("\u3000"))
    if space >= 0:
        return at + minimum + space + 1
    marks = [found.end() for found in _SENTENCE_END.finditer(tail)]
    if marks:
        return at + minimum + marks[-1]
    return at + max(character_border(line[at : at + len(window) + 1], len(window)), 1)

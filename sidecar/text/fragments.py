"""Fragments: the part of a reference that names lines, `L3-L7` or `L7-L7@c9000-9700` (spec §5.1)."""

from __future__ import annotations

import re

from sidecar.domain.memory import LineRange

_FRAGMENT = re.compile(r"L([0-9]{1,9})(?:-L([0-9]{1,9}))?(?:@c([0-9]{1,9})-([0-9]{1,9}))?\Z")


def format_fragment(lines: LineRange) -> str:
    """The fragment of a range: always the range form, with code points of one over-long line behind `@c`."""
    text = f"L{lines.start}-L{lines.end}"
    return text if lines.chars is None else f"{text}@c{lines.chars[0]}-{lines.chars[1]}"


def parse_fragment(text: str) -> LineRange | None:
    """The range a fragment names, or None when it is not one of ours."""
    match = _FRAGMENT.match(text)
    if match is None:
        return None
    start, end, first, last = match.groups()
    chars = None if first is None else (int(first), int(last))
    try:
        return LineRange(int(start), int(end or start), chars)
    except ValueError:
        return None


def label(path: str, lines: LineRange) -> str:
    """The user-visible label of a place, as upstream writes it (U§5)."""
    return f"{path}#L{lines.start}-L{lines.end}"

"""How much one read gives, and which lines a reference without a revision chooses (spec §5.1, get)."""

from __future__ import annotations

from typing import Final

from sidecar.domain.memory import LineRange

MOST_LINES: Final = 120
MOST_CHARACTERS: Final = 12_000


def chosen(wanted: LineRange | None, from_line: int | None) -> tuple[int, int | None, tuple[int, int] | None]:
    """First and last line (None: to the text's end) and characters, by a fragment or `from`.

    A `from` behind the first line of the fragment and within it reads on in the fragment, to its end; any
    other chooses for itself.
    """
    if wanted is None:
        return from_line or 1, None, None
    if from_line is None:
        return wanted.start, wanted.end, wanted.chars
    if wanted.start < from_line <= wanted.end:
        return from_line, wanted.end, None
    return from_line, None, None

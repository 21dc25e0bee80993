"""Which documents of a view a filter covers; both legs of a search are asked for these alone.

A filter inside the legs, not behind them, finds the best notes under it however many better ones it hides.
"""

from __future__ import annotations

from datetime import date

from sidecar.domain.memory import NoteFilter
from sidecar.index.view import View
from sidecar.text.globs import fitting


def covered(view: View, within: NoteFilter | None) -> frozenset[int] | None:
    """The numbers of the documents that a filter covers; None without a filter."""
    if within is None:
        return None
    fits = None if within.path is None else fitting(within.path)
    return frozenset(
        number
        for number, entry in view.documents.items()
        if _of_days(entry.day, within) and (fits is None or fits(entry.path))
    )


def _of_days(ordinal: int | None, within: NoteFilter) -> bool:
    if within.since is None and within.until is None:
        return True
    if ordinal is None:
        return False
    day = date.fromordinal(ordinal).isoformat()
    return (within.since is None or within.since <= day) and (within.until is None or day <= within.until)

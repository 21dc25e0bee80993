"""Whether a hit shares more with a query than one word: a score alone does not tell one from several."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from sidecar.service.legs import WeightedTerm
from sidecar.text.prepare import name_terms
from sidecar.text.terms import index_terms

_COMMON = 3
"""A word that no more units hold is a name for what they say, and finds few anyway."""


class QueryWords:
    """The words of a query with the terms that stand for each."""

    def __init__(self, terms: Sequence[WeightedTerm] = ()) -> None:
        self._known = {weighted.term.term: weighted for weighted in terms}
        self._several = len({weighted.term.group for weighted in terms}) > 1

    def lone(self, excerpt: str, path: str, day: int | None) -> bool:
        """Whether an excerpt, with its file's name and day, has one word of several, a common one."""
        if not self._several:
            return False
        dated = None if day is None else datetime.date.fromordinal(day)
        found = {*index_terms(excerpt), *name_terms(path, dated)}
        held = [self._known[term] for term in found if term in self._known]
        return len({weighted.term.group for weighted in held}) == 1 and all(
            weighted.held_by > _COMMON for weighted in held
        )

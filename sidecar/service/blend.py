"""The hits of several sources as one list (spec §5.1): best score first, each source's own order kept.

Scores are comparable, being shares of what the query could attain in its source. So another source only ever
comes between the hits of one: it changes neither their scores nor their order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from sidecar.domain.memory import Hit
from sidecar.service.descent import Descent


class Blend:
    """Descents that were each taken to as many hits as are asked for, seen as one. As `Descent`."""

    def __init__(self, descents: Sequence[Descent], most: int) -> None:
        self._descents = descents
        self._shown = most

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What was taken so far. The earlier source goes first where scores are equal."""
        return blended([descent.hits for descent in self._descents])[: self._shown]

    @property
    def dropped(self) -> set[str]:
        """Files that changed since they were indexed."""
        return set().union(*(descent.dropped for descent in self._descents))

    def has_more(self) -> bool:
        """Whether a further hit follows, as far as can be told at little cost."""
        taken = sum(len(descent.hits) for descent in self._descents)
        return taken > self._shown or any(descent.has_more() for descent in self._descents)

    def park(self) -> None:
        """As `Descent.park`."""
        for descent in self._descents:
            descent.park()

    def hold(self, seconds: float) -> bool:
        """As `Descent.hold`; the earlier source first, with what it leaves of the time for the next."""
        until = time.perf_counter() + seconds
        return all(descent.hold(until - time.perf_counter()) for descent in self._descents)

    def advance(self, most: int, steps: int) -> bool:
        """As `Descent.advance`: each source is taken to `most` hits before any of them is shown."""
        for descent in self._descents:
            if descent.advance(most, steps):
                return True
        self._shown = most
        return False


def blended(lists: Sequence[Sequence[Hit]]) -> tuple[Hit, ...]:
    """Merged by score, best first, with the order inside each list as it is."""
    waiting = [list(reversed(hits)) for hits in lists]
    merged: list[Hit] = []
    while any(waiting):
        best = max((hits for hits in waiting if hits), key=lambda hits: hits[-1].score or 0.0)
        merged.append(best.pop())
    return tuple(merged)

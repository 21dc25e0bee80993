"""One way down the rankings of a search, in steps: a page now, the rest of the walk later (spec §5.1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Protocol

from sidecar.domain.memory import Hit
from sidecar.ranking.collapse import LOOK_AHEAD, NEAR_SCORE, Collapse, Placed
from sidecar.ranking.floor import Floor
from sidecar.service.ordering import Ranked
from sidecar.service.showing import NoHit
from sidecar.text.prepare import CURATED


class Shows(Protocol):
    """What makes hits of ranked units (`Windows`)."""

    def show(self, ranked: Ranked) -> Hit | NoHit:
        """The hit that starts from a unit, or why there is none."""
        ...

    def park(self) -> None:
        """Hold less from here on."""
        ...


class Descent:
    """The hits of one search in their order, as far as they were asked for. One thread at a time.

    However often it stops and goes on, the hits and their places are those of one uninterrupted descent.
    """

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._found = Collapse()
        self._legs: list[_Leg] = []
        self.dropped: set[str] = set()
        """Files that changed since they were indexed: their hits are left out."""

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What was taken so far."""
        return self._found.hits

    def take(self, ranking: Iterator[Ranked], windows: Shows, most: int) -> None:
        """Go down one more ranking until there are `most` hits, and a little further for their twins."""
        leg = _Leg(ranking, windows, self._floor, self._found, self.dropped)
        self._legs.append(leg)
        while len(self._found) < most and leg.step():
            pass
        if len(self._found) >= most:
            leg.look_ahead()

    def has_more(self) -> bool:
        """Whether a further hit follows. Looks at ten units at most; True when none of them says."""
        return any(leg.has_more() for leg in self._legs)

    def park(self) -> None:
        """Hold less until `advance`, which takes the text of what was indexed for what is there."""
        for leg in self._legs:
            leg.windows.park()

    def advance(self, most: int, steps: int) -> bool:
        """Take up to `steps` ranked units more, until there are `most` hits; gives whether it may go on."""
        for leg in self._legs:
            while len(self._found) < most:
                if steps == 0:
                    return True
                steps -= 1
                if not leg.step():
                    break
        return False


class _Leg:
    """The descent through one ranking. `_ahead` holds what was looked at without being taken."""

    def __init__(
        self, ranking: Iterator[Ranked], windows: Shows, floor: Floor, found: Collapse, dropped: set[str]
    ) -> None:
        self.windows = windows
        self._ranking = ranking
        self._floor = floor
        self._found = found
        self._dropped = dropped
        self._ahead: deque[tuple[Ranked, Hit | None]] = deque()
        self._best = self._last = 0.0
        self._ended = False

    def step(self) -> bool:
        """Take the next ranked unit; False at the end of what the floor keeps."""
        following = self._next()
        if following is None:
            return False
        ranked, shown = following
        if not self._keeps(ranked):
            return not self._ended
        hit = shown or self._show(ranked)
        if hit is not None:
            self._found.add(_placed(ranked, hit))
        return True

    def look_ahead(self) -> None:
        """Find the twins of what was taken among the next units, as long as these score about as much."""
        for ranked in islice(self._ranking, LOOK_AHEAD):
            if ranked.score < NEAR_SCORE * self._last:
                self._ahead.append((ranked, None))
                return
            hit = self._show(ranked)
            if hit is not None and not self._found.add(_placed(ranked, hit), only_twins=True):
                self._ahead.append((ranked, hit))

    def has_more(self) -> bool:
        """As `Descent.has_more`. What it looks at is kept for `step`."""
        for _ in range(LOOK_AHEAD):
            following = self._next()
            if following is None:
                return False
            ranked, shown = following
            if not self._keeps(ranked):
                if self._ended:
                    return False
                continue
            hit = shown or self._show(ranked)
            if hit is not None and not self._found.add(_placed(ranked, hit), only_twins=True):
                self._ahead.appendleft((ranked, hit))
                return True
        return True

    def _next(self) -> tuple[Ranked, Hit | None] | None:
        if self._ended:
            return None
        if self._ahead:
            return self._ahead.popleft()
        ranked = next(self._ranking, None)
        if ranked is None:
            self._ended = True
            return None
        return ranked, None

    def _keeps(self, ranked: Ranked) -> bool:
        kept = self._floor.keeps(len(self._found), ranked.score, ranked.text, self._best or ranked.score)
        self._ended = not kept and self._floor.final
        return kept

    def _show(self, ranked: Ranked) -> Hit | None:
        shown = self.windows.show(ranked)
        if shown is NoHit.STALE:
            self._dropped.add(ranked.entry.path)
        if not isinstance(shown, Hit):
            return None
        self._best = self._best or ranked.score
        self._last = ranked.score
        return shown


def _placed(ranked: Ranked, hit: Hit) -> Placed:
    return Placed(hit, ranked.entry.path in CURATED, ranked.entry.day or 0)

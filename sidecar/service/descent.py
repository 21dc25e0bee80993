"""One way down the rankings of a search, in steps: a page now, the rest of the walk later (spec §5.1)."""

from __future__ import annotations

import time
from bisect import insort
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec

from sidecar.domain.memory import Hit
from sidecar.index.entries import DocumentEntry
from sidecar.ranking.collapse import LOOK_AHEAD, NEAR_SCORE, Collapse, Placed
from sidecar.ranking.floor import Floor, Strength
from sidecar.ranking.likeness import Likeness, said
from sidecar.service.ordering import Ranked
from sidecar.service.query_words import QueryWords
from sidecar.service.showing import NoHit
from sidecar.text.prepare import CURATED

_HELD_UNITS = 200
"""Of so many units of a ranking the files are read ahead of their turn."""
_HELD_STRIDE = 20


class Shows(Protocol):
    """What makes hits of ranked units (`Windows`)."""

    def show(self, ranked: Ranked) -> Hit | NoHit:
        """The hit that starts from a unit, or why there is none."""
        ...

    def park(self) -> None:
        """Hold less from here on."""
        ...

    def hold(self, entry: DocumentEntry) -> bool:
        """Keep what `show` needs of a document as it was indexed; whether that was new. After `park`."""
        ...


class Descent:
    """The hits of one search in their order, as far as they were asked for. One thread at a time.

    However often it stops and goes on, the hits and their places are those of one uninterrupted descent.
    """

    def __init__(self, floor: Floor, *, demoted: float, words: QueryWords | None = None) -> None:
        self._floor = floor
        self._words = words or QueryWords()
        self._demoted = demoted
        self._found = Collapse()
        self._likeness = Likeness()
        self._legs: list[_Leg] = []
        self.dropped: set[str] = set()
        """Files that changed since they were indexed: their hits are left out."""

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What was taken so far."""
        return self._found.hits

    def take(self, ranking: Iterator[Ranked], windows: Shows, most: int) -> None:
        """Go down one more ranking until there are `most` hits, and a little further for their twins."""
        leg = _Leg(
            ranking,
            windows,
            self._floor,
            self._words,
            self._found,
            self._likeness,
            self.dropped,
            self._demoted,
        )
        self._legs.append(leg)
        while len(self._found) < most and leg.step():
            pass
        if len(self._found) >= most:
            leg.look_ahead()

    def has_more(self) -> bool:
        """Whether a further hit follows; True as well when the next ten are other places of shown texts."""
        return any(leg.has_more() for leg in self._legs)

    def park(self) -> None:
        """Hold less until `advance`, which takes the text of what was indexed for what is there."""
        for leg in self._legs:
            leg.windows.park()

    def hold(self, seconds: float) -> bool:
        """Read the files of what follows, so that what was ranked can be named even if it changes now.

        Gives up after `seconds`; True when all are read.
        """
        until = time.perf_counter() + seconds
        return all(leg.hold(until) for leg in self._legs)

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


class _Next(NamedTuple):
    """What comes next: a ranked unit, its hit if it was looked at before, whether it was demoted."""

    ranked: Ranked
    hit: Hit | None = None
    waited: bool = False


class _Leg:
    """The descent through one ranking.

    `_ahead` holds what was looked at without being taken, `_demoted` the hits that nearly equal an earlier
    one, which wait until nothing better is left.
    """

    def __init__(
        self,
        ranking: Iterator[Ranked],
        windows: Shows,
        floor: Floor,
        asked: QueryWords,
        found: Collapse,
        likeness: Likeness,
        dropped: set[str],
        demoted: float,
    ) -> None:
        self.windows = windows
        self._ranking = ranking
        self._floor = floor
        self._asked = asked
        self._found = found
        self._dropped = dropped
        self._factor = demoted
        self._likeness = likeness
        self._ahead: deque[_Next] = deque()
        self._demoted: list[_Next] = []
        self._held = -1
        self._best: Strength | None = None
        self._last = 0.0
        self._ended = False

    def step(self) -> bool:
        """Take the next ranked unit; False at the end of what the floor keeps."""
        following = self._next()
        if following is None:
            return False
        if not self._keeps(following.ranked):
            return not self._ended
        hit = following.hit or self._show(following.ranked)
        if hit is None or self._found.add(_placed(following.ranked, hit), only_twins=True):
            return True
        words = said(hit.excerpt)
        if not following.waited and self._likeness.repeats(words):
            self._demote(following.ranked, hit)
        else:
            self._found.add(_placed(following.ranked, hit))
            self._likeness.show(words)
        return True

    def look_ahead(self) -> None:
        """Find the twins of what was taken among the next units, as long as these score about as much."""
        looked: list[_Next] = []
        for _ in range(LOOK_AHEAD):
            following = self._undemoted()
            if following is None:
                break
            if following.ranked.score < NEAR_SCORE * self._last:
                looked.append(following)
                break
            hit = following.hit or self._show(following.ranked)
            if hit is not None and not self._found.add(_placed(following.ranked, hit), only_twins=True):
                looked.append(_Next(following.ranked, hit))
        self._ahead.extendleft(reversed(looked))

    def has_more(self) -> bool:
        """As `Descent.has_more`. What it looks at is kept for `step`."""
        twins = 0
        while twins < LOOK_AHEAD:
            following = self._next()
            if following is None:
                return False
            ranked = following.ranked
            if not self._keeps(ranked):
                if self._ended:
                    return False
                continue
            hit = following.hit or self._show(ranked)
            if hit is None:  # it stands in a window that is shown, or is gone: no look at its text was needed
                continue
            if self._found.add(_placed(ranked, hit), only_twins=True):
                twins += 1
                continue
            if following.waited:
                self._demoted.insert(0, _Next(ranked, hit, waited=True))
            else:
                self._ahead.appendleft(_Next(ranked, hit))
            return True
        return True

    def hold(self, until: float) -> bool:
        """As `Descent.hold`; comes before the first `step` after `has_more`."""
        if self._held < 0:
            self._held = 0
            while len(self._ahead) < _HELD_UNITS:
                before = len(self._ahead)
                self._ahead.extend(map(_Next, islice(self._ranking, _HELD_STRIDE)))
                if len(self._ahead) == before or (
                    self._floor.final and not self._kept(self._ahead[-1].ranked)
                ):
                    break
        for following in islice(self._ahead, self._held, None):
            if self.windows.hold(following.ranked.entry) and time.perf_counter() > until:
                return False
            self._held += 1
        return True

    def _next(self) -> _Next | None:
        """The best of what comes next in the ranking and what was demoted."""
        if self._ended:
            return None
        following = self._undemoted()
        if self._demoted and (following is None or self._demoted[0].ranked.score >= following.ranked.score):
            if following is not None:
                self._ahead.appendleft(following)
            return self._demoted.pop(0)
        self._ended = following is None
        return following

    def _undemoted(self) -> _Next | None:
        if self._ahead:
            return self._ahead.popleft()
        ranked = next(self._ranking, None)
        return None if ranked is None else _Next(ranked)

    def _demote(self, ranked: Ranked, hit: Hit) -> None:
        score = ranked.score * self._factor
        adjustments = (*hit.parts.adjustments, ("nearEqual", self._factor))
        parts = msgspec.structs.replace(hit.parts, adjustments=adjustments)
        demoted = _Next(
            msgspec.structs.replace(ranked, score=score),
            msgspec.structs.replace(hit, score=score, parts=parts),
            waited=True,
        )
        insort(self._demoted, demoted, key=lambda waiting: -waiting.ranked.score)

    def _keeps(self, ranked: Ranked) -> bool:
        kept = self._kept(ranked)
        self._ended = not kept and self._floor.final
        return kept

    def _kept(self, ranked: Ranked) -> bool:
        hit = Strength(ranked.score, ranked.text)
        return self._floor.keeps(len(self._found), hit, self._best or hit)

    def _show(self, ranked: Ranked) -> Hit | None:
        shown = self.windows.show(ranked)
        if shown is NoHit.STALE:
            self._dropped.add(ranked.entry.path)
        if not isinstance(shown, Hit):
            return None
        if self._best is None:
            lone = self._asked.lone(shown.excerpt, ranked.entry.path, ranked.entry.day)
            self._best = Strength(ranked.score, ranked.text, lone)
        self._last = ranked.score
        return shown


def _placed(ranked: Ranked, hit: Hit) -> Placed:
    return Placed(hit, ranked.entry.path in CURATED, ranked.entry.day or 0)

"""Where an answer ends: the caller's own minimum score, or our rule without one (spec §5.1)."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Floor(Protocol):
    """Decides for a ranked list, best hit first, what is too weak to be shown.

    `final`: whether nothing after the first hit that does not stay can stay.
    """

    @property
    def final(self) -> bool: ...

    def keeps(self, place: int, score: float, text: float, best: float) -> bool:
        """Whether the hit at `place` (0 is first) stays.

        `text` is the lexical part of its score, `best` the score of the first hit.
        """
        ...


class StrictFloor(msgspec.Struct, frozen=True):
    """v2 with `minScore`: no hit below it."""

    minimum: float
    final: bool = True

    def keeps(self, place: int, score: float, text: float, best: float) -> bool:  # noqa: ARG002
        """By the score alone, as callers see it: to six decimals."""
        return round(score, 6) >= self.minimum


class DefaultFloor(msgspec.Struct, frozen=True):
    """Without `minScore`: the stronger the best hit, the longer its list.

    Hits within `near` of the best always stay: they say the same of the query. Of the others those stay that
    reach `relative` of the best, at most `most` of them where the best has all of the query (`full`), `few`
    where it is just `strong`. Below that the list gets shorter still, down to one hit at `lowest`. A hit that
    shares no word with the query needs `meaning`: static vectors see some likeness in anything.
    """

    lowest: float = 0.07
    meaning: float = 0.2
    strong: float = 0.35
    full: float = 1.0
    relative: float = 0.4
    near: float = 0.95
    few: int = 6
    most: int = 20
    final: bool = True

    def keeps(self, place: int, score: float, text: float, best: float) -> bool:
        """By the best hit's strength, the share of it that is reached, and the place in the list."""
        if score <= 0 or (text <= 0 and score < self.meaning) or (score < self.lowest and place > 0):
            return False
        if best < self.strong:
            share = max(0.0, best - self.lowest) / (self.strong - self.lowest)
            return place < 1 + round((self.few - 1) * share) or score >= self.near * best
        share = min(1.0, (best - self.strong) / (self.full - self.strong))
        within = place < self.few + round((self.most - self.few) * share)
        return score >= self.near * best or (within and score >= self.relative * best)


class FileShapedFloor(msgspec.Struct, frozen=True):
    """v1: hits that matched words survive a minimum score, hits by meaning alone do not (U§11)."""

    minimum: float | None
    without: DefaultFloor = DefaultFloor()
    final: bool = False

    def keeps(self, place: int, score: float, text: float, best: float) -> bool:
        """With a minimum: at least that, or matched by words. Without one: the default rule."""
        if self.minimum is None:
            return self.without.keeps(place, score, text, best)
        return round(score, 6) >= self.minimum or text > 0

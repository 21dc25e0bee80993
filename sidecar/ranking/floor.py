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
        """By the score alone."""
        return score >= self.minimum


class DefaultFloor(msgspec.Struct, frozen=True):
    """Without `minScore`.

    A strong best hit brings along all hits of at least `relative` times its score. A weak one may still be
    right, but its list is short: from `weak` hits at `strong` down to one near `lowest`. A hit that shares
    no word with the query needs `lowest`; one that does is never left out for its score alone while it is
    the first.
    """

    lowest: float = 0.10
    strong: float = 0.35
    relative: float = 0.4
    weak: int = 6
    final: bool = True

    def keeps(self, place: int, score: float, text: float, best: float) -> bool:
        """By the best hit's strength and the place in the list."""
        if score <= 0 or (score < self.lowest and (text <= 0 or place > 0)):
            return False
        if best >= self.strong:
            return score >= self.relative * best
        share = max(0.0, best - self.lowest) / (self.strong - self.lowest)
        return place < 1 + round((self.weak - 1) * share)


class FileShapedFloor(msgspec.Struct, frozen=True):
    """v1: hits that matched words survive a minimum score, hits by meaning alone do not (U§11)."""

    minimum: float | None
    without: DefaultFloor = DefaultFloor()
    final: bool = False

    def keeps(self, place: int, score: float, text: float, best: float) -> bool:
        """With a minimum: at least that, or matched by words. Without one: the default rule."""
        if self.minimum is None:
            return self.without.keeps(place, score, text, best)
        return score >= self.minimum or text > 0

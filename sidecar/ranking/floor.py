"""Where an answer ends: the caller's own minimum score, or our rule without one (spec §5.1)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec


class Strength(NamedTuple):
    """What a hit is worth: its score, and the part of it that its words gave.

    `lone`: it holds one word of the query, of several, and a common one. Only of the best hit is that known.
    """

    score: float
    text: float
    lone: bool = False


class Floor(Protocol):
    """Decides for a ranked list, best hit first, what is too weak to be shown.

    `final`: whether nothing after the first hit that does not stay can stay.
    """

    @property
    def final(self) -> bool: ...

    def keeps(self, place: int, hit: Strength, best: Strength) -> bool:
        """Whether the hit at `place` (0 is first) stays, given the first one."""
        ...


class StrictFloor(msgspec.Struct, frozen=True):
    """v2 with `minScore`: no hit below it."""

    minimum: float
    final: bool = True

    def keeps(self, place: int, hit: Strength, best: Strength) -> bool:  # noqa: ARG002
        """By the score alone, as callers see it: to six decimals."""
        return round(hit.score, 6) >= self.minimum


class DefaultFloor(msgspec.Struct, frozen=True):
    """Without `minScore`: the more the best hit says of the query, the longer its list.

    What it says is told by its words, alike with and without vectors: likeness adds something to any text,
    and counts only beyond `likeness`. One common word of several counts as `lone` of what it weighs: it
    stands in notes about other things, while two seldom meet by chance. One hit at `lowest`, `few` from
    `strong` on, more from `longer` on, `most` where it is all of the query (`full`). Of these stay those that
    reach `relative` of the best; hits within `near` of the best stay always, for they say the same of the
    query. A hit that shares no word with the query needs `meaning`.
    """

    lowest: float = 0.14
    strong: float = 0.22
    longer: float = 0.4
    full: float = 1.0
    lone: float = 0.5
    few: int = 6
    most: int = 20
    least: float = 0.07
    relative: float = 0.25
    near: float = 0.95
    meaning: float = 0.2
    likeness: float = 0.12
    final: bool = True

    def keeps(self, place: int, hit: Strength, best: Strength) -> bool:
        """By the best hit's strength, the share of it that is reached, and the place in the list."""
        if hit.score <= 0 or (hit.text <= 0 and hit.score < self.meaning):
            return False
        if place == 0:
            return True
        if hit.score < self.least:
            return False
        within = place < self._length(best) and hit.score >= self.relative * best.score
        return within or hit.score >= self.near * best.score

    def _length(self, best: Strength) -> int:
        """How long a list may be that begins with this hit."""
        strength = max(best.text, best.score - self.likeness) * (self.lone if best.lone else 1.0)
        weak = _share(strength, self.lowest, self.strong)
        strong = _share(strength, self.longer, self.full)
        return 1 + round((self.few - 1) * weak + (self.most - self.few) * strong)


class FileShapedFloor(msgspec.Struct, frozen=True):
    """v1: hits that matched words survive a minimum score, hits by meaning alone do not (U§11)."""

    minimum: float | None
    without: DefaultFloor = DefaultFloor()
    final: bool = False

    def keeps(self, place: int, hit: Strength, best: Strength) -> bool:
        """With a minimum: at least that, or matched by words. Without one: the default rule."""
        if self.minimum is None:
            return self.without.keeps(place, hit, best)
        return round(hit.score, 6) >= self.minimum or hit.text > 0


def _share(value: float, low: float, high: float) -> float:
    """How far a value has come from `low` to `high`, 0 to 1."""
    return min(1.0, max(0.0, (value - low) / (high - low)))

"""Equal text found in several places comes back once, with every place in its citations (spec §7)."""

from __future__ import annotations

import unicodedata

import msgspec

from sidecar.domain.memory import Hit

LOOK_AHEAD = 10
"""So many ranked units behind the last hit are still looked at for its twins."""

NEAR_SCORE = 0.8
"""Twins stand close by in the ranking: what scores under this share of the last hit is not looked at."""

# Folded excerpt and project keys.
_Key = tuple[str, tuple[str, ...]]


class Placed(msgspec.Struct, frozen=True):
    """A hit with what decides which of its twins is shown: curated files, then the newest day."""

    hit: Hit
    curated: bool
    day: int


def fold(text: str) -> str:
    """The text as equality sees it: NFC, case and white space folded."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


class Collapse:
    """Hits in ranked order without repeated text. A twin takes the place of the first of them."""

    def __init__(self) -> None:
        self._places: list[Placed] = []
        self._known: dict[_Key, int] = {}
        self._folded: tuple[Hit, _Key] | None = None

    def __len__(self) -> int:
        return len(self._places)

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What is shown."""
        return tuple(placed.hit for placed in self._places)

    def add(self, placed: Placed, *, only_twins: bool = False) -> bool:
        """Take in the next hit; with `only_twins` only where its text is shown already. Whether it was."""
        key = self._key(placed.hit)
        index = self._known.get(key)
        if index is not None:
            self._places[index] = _merged(self._places[index], placed)
        elif not only_twins:
            self._known[key] = len(self._places)
            self._places.append(placed)
        return index is not None or not only_twins

    def _key(self, hit: Hit) -> _Key:
        """What equal hits have in common; made once for a hit that is looked up and then taken in."""
        if self._folded is None or self._folded[0] is not hit:
            keys = hit.recall.project_keys if hit.recall is not None else ()
            self._folded = (hit, (fold(hit.excerpt), tuple(sorted(keys))))
        return self._folded[1]


def _merged(first: Placed, twin: Placed) -> Placed:
    shown, other = (twin, first) if (twin.curated, twin.day) > (first.curated, first.day) else (first, twin)
    hit = msgspec.structs.replace(
        shown.hit,
        score=first.hit.score,
        parts=first.hit.parts,
        citations=(*shown.hit.citations, *other.hit.citations),
    )
    return Placed(hit, shown.curated, shown.day)

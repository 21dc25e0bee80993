"""Near-equal text comes later, never away: the same note saved twice must not fill the answer (spec §7)."""

from __future__ import annotations

from zlib import crc32

NEAR_EQUAL = 0.8
"""Share of words in common (of all words of both) from which two excerpts say the same."""

_SIGNATURE_BITS = 512
_ESTIMATE = 0.65
_FEWEST_WORDS = 5


class Likeness:
    """The excerpts shown so far. Exact comparison is left to those whose signatures are alike."""

    def __init__(self) -> None:
        self._shown: list[tuple[int, frozenset[str]]] = []

    def repeats(self, excerpt: str) -> bool:
        """Whether an excerpt nearly equals one that was shown; if not, it counts as shown from now on.

        A few words are never near-equal: in a short line one other word is another fact.
        """
        words = frozenset(excerpt.casefold().split())
        if len(words) < _FEWEST_WORDS:
            return False
        signature = 0
        for word in words:
            signature |= 1 << (crc32(word.encode("utf-8", "surrogatepass")) % _SIGNATURE_BITS)
        for other, known in self._shown:
            union = (signature | other).bit_count()
            if (signature & other).bit_count() >= _ESTIMATE * union and _jaccard(words, known) >= NEAR_EQUAL:
                return True
        self._shown.append((signature, words))
        return False


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    common = len(one & other)
    return common / (len(one) + len(other) - common)

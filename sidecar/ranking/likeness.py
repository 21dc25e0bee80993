"""Near-equal text comes later, never away: a note saved twice must not fill the answer (spec §7)."""

from __future__ import annotations

Said = frozenset[str]
"""The words of an excerpt, each once, without case."""

_FEWEST_WORDS = 5


def said(excerpt: str) -> Said:
    """What an excerpt says, as far as likeness goes."""
    return frozenset(excerpt.casefold().split())


class Likeness:
    """The excerpts shown so far."""

    def __init__(self) -> None:
        self._shown: list[Said] = []

    def repeats(self, words: Said) -> bool:
        """Whether an excerpt nearly equals one that was shown.

        A few words are never near-equal: in a short line one other word is another fact.
        """
        return len(words) >= _FEWEST_WORDS and any(nearly_equal(words, known) for known in self._shown)

    def show(self, words: Said) -> None:
        """Count an excerpt as shown."""
        if len(words) >= _FEWEST_WORDS:
            self._shown.append(words)


def nearly_equal(one: Said, other: Said) -> bool:
    """Whether four in five of all words of both stand in both. Most pairs are told apart by a few words."""
    needed = -(-4 * (len(one) + len(other)) // 9)
    missing = len(one) - needed
    if missing < 0 or len(other) < needed:
        return False
    for word in one:
        if word not in other:
            missing -= 1
            if missing < 0:
                return False
    return True

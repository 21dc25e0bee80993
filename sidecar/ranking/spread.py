"""What a unit owes to its surroundings: neighbours, passage, block.

Everything works on one sorted array of keys made by `halo`: it holds, beside every unit with a score, the
keys around it. So a key `d` away from a scored one stands exactly `d` places away, and neighbours are found
by shifting instead of searching.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Keys = NDArray[np.int64]


class Spans:
    """Runs of consecutive units with a score each, best first: passages with BM25, blocks with a cosine.

    `starts` are the keys of first units, `counts` how many units a span has; spans do not overlap.
    """

    __slots__ = ("counts", "scores", "starts")

    def __init__(self, starts: Keys, counts: Keys, scores: Floats) -> None:
        self.starts = starts
        self.counts = counts
        self.scores = scores

    def __len__(self) -> int:
        return len(self.starts)

    def members(self, most: int) -> Keys:
        """The keys of all units of the first `most` spans."""
        return runs(self.starts[:most], self.counts[:most])

    def covering(self, keys: Keys, otherwise: float = 0.0) -> Floats:
        """The score of the span that covers each of the sorted keys, `otherwise` where none does."""
        out = np.full(len(keys), otherwise, np.float32)
        first = np.searchsorted(keys, self.starts)
        width = np.searchsorted(keys, self.starts + self.counts) - first
        out[runs(first, width)] = np.repeat(self.scores, width)
        return out


NO_SPANS = Spans(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))


def distinct(keys: Keys) -> Keys:
    """The keys sorted, each once."""
    ordered = np.sort(keys)
    fresh = np.empty(len(ordered), np.bool_)
    fresh[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return ordered[fresh]


def halo(keys: Keys, reach: int) -> Keys:
    """The keys and all keys up to `reach` beside them, sorted, each once.

    Some may name units that do not exist; those serve as nothing but a place to look up a score.
    """
    return distinct((keys[:, None] + np.arange(-reach, reach + 1)).ravel())


def placed(keys: Keys, found: Keys, values: Floats) -> Floats:
    """An array along `keys` with the values of the `found` keys (all among `keys`), 0 elsewhere."""
    out = np.zeros(len(keys), np.float32)
    out[np.searchsorted(keys, found)] = values
    return out


def neighbours(keys: Keys, scores: Floats, *, near: float, decay: float, reach: int) -> Floats:
    """What each unit inherits: `near * decay ** (d - 1)` of the score of each unit `d` places away.

    `keys` holds the halo of `reach` around every key with a score. Units of two documents are never
    neighbours, since their keys lie far apart.
    """
    inherited = np.zeros(len(keys), np.float32)
    for distance in range(1, reach + 1):
        share = np.float32(near * decay ** (distance - 1))
        beside = keys[distance:] - keys[:-distance] == distance
        inherited[:-distance] += share * scores[distance:] * beside
        inherited[distance:] += share * scores[:-distance] * beside
    return inherited


def runs(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """`starts[0], starts[0] + 1, ...` (`counts[0]` of them), then the same for the next, in one array."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(starts - ends + counts, counts)

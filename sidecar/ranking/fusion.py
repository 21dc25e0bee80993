"""One score for each unit, comparable across queries: 0 says nothing of the query, about 1 says all of it."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sidecar.ranking.parameters import K1, B, Parameters
from sidecar.ranking.spread import Floats, Keys, Spans, distinct, halo, neighbours, placed


class FoundUnits:
    """Units that hold a term of the query: keys, Tantivy's BM25, token counts, and the index's mean count."""

    __slots__ = ("average", "keys", "lengths", "scores")

    def __init__(self, keys: Keys, scores: Floats, lengths: NDArray[np.int64], average: float) -> None:
        self.keys = keys
        self.scores = scores
        self.lengths = lengths
        self.average = average


class Scored:
    """Scores by key (sorted). `seeds` are indices of the units a hit may start from, best first.

    `text` is the lexical part of the score, `vector` the cosine of the unit's block (zeros without vectors);
    `spoken` is whether the unit itself holds a term of the query.
    """

    __slots__ = ("keys", "scores", "seeds", "spoken", "text", "vector")

    def __init__(
        self,
        keys: Keys,
        scores: Floats,
        text: Floats,
        vector: Floats,
        spoken: NDArray[np.bool_],
        seeds: NDArray[np.intp],
    ) -> None:
        self.keys = keys
        self.scores = scores
        self.text = text
        self.vector = vector
        self.spoken = spoken
        self.seeds = seeds


FULL = np.float32(1.1)
MOST = np.float32(1.5)


def idf(document_frequency: int, documents: int) -> float:
    """Tantivy's inverse document frequency; a term that no document holds weighs most."""
    rest = max(documents - document_frequency, 0)
    return math.log(1 + (rest + 0.5) / (document_frequency + 0.5))


def best_attainable(weights: Iterable[float]) -> float:
    """The limit of BM25 for a unit that says every term without end: the sum of weights times `k1 + 1`."""
    return max((K1 + 1) * sum(weights), 1e-9)


def relengthen(units: FoundUnits, wanted_b: float) -> Floats:
    """BM25 with `b = 0.75` turned into BM25 with `wanted_b`, exact for terms that stand once in a unit."""
    ratio = units.lengths.astype(np.float32) / max(units.average, 1e-9)
    tantivy = 1 + K1 * (1 - B + B * ratio)
    wanted = 1 + K1 * (1 - wanted_b + wanted_b * ratio)
    return np.asarray(units.scores * tantivy / wanted, np.float32)


def bounded(text: Floats) -> Floats:
    """What exceeds `FULL` squeezed into the range up to `MOST`, in its order.

    A unit that has all of the query has about 1. Repeating its words all around it may add to that (nearly
    twice as much again), but scores compare across queries (spec §7), and the default cut goes by the best:
    other good hits must not look weak beside it. (That they are found at all, `Parameters.spread` sees to.)
    """
    over = np.maximum(text - FULL, 0)
    return np.asarray(
        np.minimum(text, FULL) + (MOST - FULL) * (1 - np.exp(-over / (MOST - FULL))), np.float32
    )


def fuse(
    units: FoundUnits, passages: Spans, blocks: Spans, attainable: float, parameters: Parameters
) -> Scored:
    """`(own + neighbours + passage * P) / attainable + vector * max(cosine, 0)`.

    `blocks` is empty for a lexical search. A block that the vector leg did not return counts as near as the
    worst that it did return, so that the end of its list is no cliff.
    """
    p = parameters
    own = relengthen(units, p.length_b)
    seeds = distinct(
        np.concatenate((units.keys, blocks.members(p.seed_blocks), passages.members(p.seed_passages)))
    )
    keys = halo(seeds, p.near_reach)
    said = placed(keys, units.keys, own)
    text = said + neighbours(keys, said, near=p.near, decay=p.near_decay, reach=p.near_reach)
    text += np.float32(p.passage) * passages.covering(keys)
    text = bounded(text / np.float32(attainable))
    vector = np.zeros(len(keys), np.float32)
    if len(blocks):
        cosine = np.maximum(blocks.scores, 0)
        vector = Spans(blocks.starts, blocks.counts, cosine).covering(keys, float(cosine[-1]))
    scores = text + np.float32(p.vector) * vector
    at = np.searchsorted(keys, seeds)
    return Scored(keys, scores, text, vector, said > 0, at[np.argsort(-scores[at], kind="stable")])

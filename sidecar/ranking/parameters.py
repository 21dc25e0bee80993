"""Every number of the ranking, in one place. Each optimum is flat: its neighbours differ by under a point."""

from __future__ import annotations

import msgspec

K1 = 1.2
B = 0.75
"""Tantivy's fixed BM25 constants."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What the order depends on.

    `candidates`, `passages`, `blocks`: how many units, passages and vector blocks are asked of the engines.
    `spread`: while units or passages of fewer files were found, as many of other files are asked for as well.
    `seed_passages`, `seed_blocks`: of these, how many may start a hit whose units hold no word of the query
    (the word stands in the file's name or date; the block is near by its meaning).
    `length_b`: length normalisation of units, in place of Tantivy's 0.75 (short bullets are no better).
    `near`, `near_decay`, `near_reach`: what a unit inherits of the units beside it.
    `passage`: weight of the BM25 of the passage around it. `vector`: weight of the cosine of its block.
    `adjusted`: the best so many candidates that the adjustments may reorder.
    `curated`: what a unit of `MEMORY.md` and `USER.md` has ahead at equal relevance.
    `recency`, `recency_half_life_days`: at most this share more for a note of today.
    `project`: factor for entries of an active project.
    `near_equal`: what is left of the score of a hit that nearly equals an earlier one (`likeness`).
    `window_reach`: so many units on either side a hit may show beside its best one; more hardly ever fit.
    """

    candidates: int = 400
    passages: int = 200
    blocks: int = 100
    spread: int = 20
    seed_passages: int = 10
    seed_blocks: int = 32
    length_b: float = 0.3
    near: float = 0.3
    near_decay: float = 0.5
    near_reach: int = 2
    passage: float = 0.9
    vector: float = 0.3
    adjusted: int = 200
    curated: float = 1.02
    recency: float = 0.05
    recency_half_life_days: float = 30.0
    project: float = 1.15
    near_equal: float = 0.8
    window_reach: int = 24


DEFAULT = Parameters()

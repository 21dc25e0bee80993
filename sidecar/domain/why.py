"""Why a line of a note is found by a query, or is not: what is asked, and the verdict (spec §2)."""

from __future__ import annotations

from typing import Literal

import msgspec

WhyVerdict = Literal[
    "found",
    "below-cut",
    "no-match",
    "no-such-line",
    "hidden",
    "other-project",
    "not-indexed-yet",
    "not-indexed",
]


class WhyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A path, perhaps with a line, and a query; with project keys as a host would search with them."""

    path: str
    query: str
    line: int | None = None
    active_project_keys: tuple[str, ...] | None = None


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict and what led to it. `action` is the one thing to do, None where nothing is to be done.

    `rank` counts from 1 among all that the query finds, `score` is that of the hit, `best` of the first one.
    """

    path: str
    verdict: WhyVerdict
    reason: str
    action: str | None = None
    line: int | None = None
    rank: int | None = None
    score: float | None = None
    best: float | None = None
    project_keys: tuple[str, ...] = ()

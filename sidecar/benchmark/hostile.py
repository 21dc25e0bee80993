"""Query strings that nobody types and somebody sends: each must be answered, and in time.

Every query is made from a seed, so a run can be repeated. Queries of one length class are compared with each
other only: a long one may cost more, but none may cost a multiple of its like.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from sidecar.client import SidecarClient
from sidecar.domain.errors import SidecarError

LENGTHS = (1, 4, 16, 64, 256, 1024, 8192)
"""Longest query of each class, in characters."""

_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_OPERATORS = ("AND", "OR", "NOT", "NEAR/2", "*", "?", "~", "^2", "+", "-", ":", "(", ")", "[", "]", "{", "}")
_QUOTES = (
    '"',
    "'",
    "`",
    "\\",
    "“",
    "«",
    "''",
    '""',
    "%",
    "_",
    "/",
    "//",
    "\x00",
    "\n",
    "\r\n",
    "\t",
    "\u2028",
)
_PILES = (
    "\u0301",
    "\u0e34",
    "\u200d",
    "\ufe0f",
    "\u202e",
    "👨",
    "\u1100",
    "ﷺ",
    "ß",
    "漢",
    "က",
    "a",
    "-",
    ".",
    "@",
    "ä",
)


class LengthClass(msgspec.Struct, frozen=True, kw_only=True):
    """The latencies of the queries up to one length, in milliseconds."""

    longest: int
    queries: int
    p50: float
    p99: float
    worst: float

    @property
    def spread(self) -> float:
        """How many medians the 99th percentile is."""
        return round(self.p99 / self.p50, 1)


class HostileResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `errors` are the first few distinct error messages; there must be none."""

    classes: tuple[LengthClass, ...]
    failed: int
    errors: tuple[str, ...]


def hostile_queries(seed: int, words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Endless (length class, query) pairs; `words` of the corpus are strewn in, so that engines have work."""
    source = random.Random(seed)  # noqa: S311 - repeatable, not secret
    makers: tuple[Callable[[random.Random, Sequence[str], int], str], ...] = (
        _any,
        _operators,
        _piled,
        _spoken,
    )
    while True:
        for longest in LENGTHS:
            size = source.randint(max(1, longest // 4), longest)
            query = source.choice(makers)(source, words, size)[:size]
            yield longest, query if query.strip() else "x" * min(size, 3)


async def ask_hostile(client: SidecarClient, *, count: int, seed: int, words: Sequence[str]) -> HostileResult:
    """Ask `count` queries one after the other."""
    times: dict[int, list[float]] = {longest: [] for longest in LENGTHS}
    errors: dict[str, int] = {}
    queries = hostile_queries(seed, words)
    for _ in range(count):
        longest, query = next(queries)
        began = time.perf_counter()
        try:
            await client.call("memory.search", {"version": 2, "query": query})
        except SidecarError as error:
            errors[error.message] = errors.get(error.message, 0) + 1
        times[longest].append((time.perf_counter() - began) * 1000)
    return HostileResult(
        classes=tuple(_summary(longest, found) for longest, found in times.items() if found),
        failed=sum(errors.values()),
        errors=tuple(list(errors)[:5]),
    )


def _summary(longest: int, found: list[float]) -> LengthClass:
    found.sort()
    return LengthClass(
        longest=longest,
        queries=len(found),
        p50=round(found[len(found) // 2], 2),
        p99=round(found[int(len(found) * 0.99)], 2),
        worst=round(found[-1], 2),
    )


def _any(source: random.Random, _words: Sequence[str], size: int) -> str:
    """Any code points at all, one plane now and all of them then."""
    top = source.choice((0x7F, 0xFF, 0x2FFF, 0xFFFF, _LAST_CODE_POINT))
    points = (source.randint(0, top) for _ in range(size))
    return "".join(chr(point) for point in points if point not in _SURROGATES)


def _operators(source: random.Random, words: Sequence[str], size: int) -> str:
    """What query languages are made of, around real words."""
    pieces = (source.choice(source.choice((_OPERATORS, _QUOTES, words))) for _ in range(size // 3 + 1))
    return source.choice(("", " ")).join(pieces)


def _piled(source: random.Random, words: Sequence[str], size: int) -> str:
    """One sign over and over, behind a word."""
    return source.choice(words) + source.choice(_PILES) * size


def _spoken(source: random.Random, words: Sequence[str], size: int) -> str:
    """Words of the notes in any order, more of them than anyone would say."""
    return " ".join(source.choice(words) for _ in range(size // 4 + 1))

"""Walks: the hits of a search beyond its first page, as names of texts, kept for a while (spec §5.1).

A walk is begun by a first page that leaves hits over. What is left is written down by a task of its own: the
files are read at once, the rest follows in short steps while no search runs, or sooner for whoever waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import TypeVar

import msgspec

from sidecar.domain.errors import CursorExpired, ProviderFailed
from sidecar.domain.memory import Citation, LineRange, ScoreParts, Source
from sidecar.service.blend import Blend
from sidecar.service.cursors import Owner, new_walk_id
from sidecar.service.descent import Descent
from sidecar.service.offload import Offload
from sidecar.text.fragments import parse_fragment

log = logging.getLogger(__name__)

KEPT_SECONDS = 600.0
MOST_HITS = 200
"""A ranking is walked no further."""
MOST_WALKS = 256
MOST_KEPT_HITS = 16_384
"""Of all walks together, about 8 MB."""
MOST_UNWRITTEN = 64
STEP_UNITS = 8
HOLD_SECONDS = 0.005
LONGEST_WAIT_SECONDS = 0.02

EXPIRED = "this memory cursor has expired; search again"


_Holder = TypeVar("_Holder", bound=Hashable)

Rest = Descent | Blend
"""What is left of a search."""


class Place(msgspec.Struct, frozen=True):
    """The name of a text: its file, where it stood, and the hash of its raw lines."""

    path: str
    where: LineRange
    revision: str


class KeptHit(msgspec.Struct, frozen=True, kw_only=True):
    """A hit without its text. `twins` are the other places of the same text.

    `before` are places of earlier hits with the very same lines in the same file: entries of other projects
    may say the same. Whoever looks for this hit leaves a copy to each of them.
    """

    place: Place
    before: tuple[Place, ...]
    twins: tuple[Place, ...]
    project_keys: tuple[str, ...]
    source: Source
    score: float
    parts: ScoreParts


class Walk:
    """The hits of one search from `first` on (0 is the best hit). `hits` is complete once `written`."""

    def __init__(self, rest: Rest, *, owner: Owner, partial: tuple[str, ...], began: float) -> None:
        self.owner = owner
        self.rest: Rest | None = rest
        self.first = len(rest.hits)
        self.partial = partial
        self.began = began
        self.hits: tuple[KeptHit, ...] = ()
        self.dropped: frozenset[str] = frozenset()
        self.written = asyncio.Event()
        self.held = False
        self.awaited = False
        self.failed = False


class Walks:
    """The walks of one agent, bounded in number, size and age.

    When there is no room, whoever holds most gives way: the token, of its callers the one, of its walks that
    which was used longest ago. So with n tokens each is sure of an n-th, whatever the others ask.
    """

    def __init__(
        self,
        *,
        offload: Offload,
        quiet: Callable[[float], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._offload = offload
        self._quiet = quiet
        self._clock = clock
        self._walks: dict[bytes, Walk] = {}  # in the order in which they were begun
        self._used: OrderedDict[bytes, None] = OrderedDict()  # the one used longest ago first
        self._unwritten: deque[bytes] = deque()
        self._kept_hits = 0
        self._writer: asyncio.Task[None] | None = None
        self._closed = False

    def begin(self, rest: Rest, partial: tuple[str, ...], owner: Owner) -> bytes:
        """Keep what is left of a search; gives the walk's id."""
        self._sweep()
        walk_id = new_walk_id()
        self._walks[walk_id] = Walk(rest, owner=owner, partial=partial, began=self._clock())
        self._used[walk_id] = None
        self._unwritten.append(walk_id)
        if len(self._unwritten) > MOST_UNWRITTEN:
            unawaited = [each for each in self._unwritten if not self._walks[each].awaited]
            self._drop(self._giving_way(unawaited, _one) if unawaited else walk_id)
        while len(self._walks) > MOST_WALKS:
            self._drop(self._giving_way(self._used, _one))
        if self._writer is None and not self._closed:
            self._writer = asyncio.create_task(self._write_all(), name="walks")
        return walk_id

    async def get(self, walk_id: bytes) -> Walk:
        """The walk with all its hits; raises `CursorExpired` when it is no longer kept."""
        self._sweep()
        walk = self._walks.get(walk_id)
        if walk is None or self._closed:
            raise CursorExpired(EXPIRED)
        self._used.move_to_end(walk_id)
        if not walk.written.is_set():
            walk.awaited = True
            self._unwritten.remove(walk_id)
            self._unwritten.appendleft(walk_id)
            await walk.written.wait()
        if walk.failed:
            raise ProviderFailed("the search could not be continued")
        if walk.rest is not None:
            raise CursorExpired(EXPIRED)
        return walk

    async def close(self) -> None:
        """Forget all walks and end the task."""
        self._closed = True
        writer = self._writer
        if writer is not None:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
        for walk_id in list(self._walks):
            self._drop(walk_id)

    def _sweep(self) -> None:
        limit = self._clock() - KEPT_SECONDS
        while self._walks:
            walk_id, walk = next(iter(self._walks.items()))
            if walk.began > limit:
                return
            self._drop(walk_id)

    def _drop(self, walk_id: bytes) -> None:
        walk = self._walks.pop(walk_id)
        del self._used[walk_id]
        self._kept_hits -= len(walk.hits)
        if not walk.written.is_set():
            self._unwritten.remove(walk_id)
            walk.written.set()

    async def _write_all(self) -> None:
        """Write walks down, those first that somebody waits for, until none is left."""
        try:
            while self._unwritten:
                walk_id = self._unwritten[0]
                walk = self._walks[walk_id]
                if walk.held and not walk.awaited:
                    await self._quiet(LONGEST_WAIT_SECONDS)
                if self._unwritten and self._unwritten[0] == walk_id:
                    await self._write_some(walk_id, walk)
        finally:
            self._writer = None

    async def _write_some(self, walk_id: bytes, walk: Walk) -> None:
        rest = walk.rest
        steps = MOST_HITS if walk.awaited else STEP_UNITS
        if rest is None:
            return
        try:
            if not walk.held:
                walk.held = await self._offload.run(lambda: rest.hold(HOLD_SECONDS))
                return
            hits = await self._offload.run(lambda: _written(rest, walk.first, steps))
        except Exception:  # the ranking cannot be continued: whoever asks for it is told, the others go on
            log.exception("a search could not be continued")
            walk.failed = True
            hits = ()
        if hits is None or walk_id not in self._walks:
            return
        walk.hits, walk.dropped, walk.rest = hits, frozenset(rest.dropped), None
        self._unwritten.remove(walk_id)
        self._kept_hits += len(hits)
        walk.written.set()
        while self._kept_hits > MOST_KEPT_HITS:
            self._drop(self._giving_way(self._used, _hits))

    def _giving_way(self, among: Iterable[bytes], weight: Callable[[Walk], int]) -> bytes:
        """The walk that goes when these are too much, given in the order in which they would go."""
        waiting = [(walk_id, self._walks[walk_id]) for walk_id in among]
        token = _heaviest((walk.owner.token, weight(walk)) for _, walk in waiting)
        caller = _heaviest((walk.owner, weight(walk)) for _, walk in waiting if walk.owner.token == token)
        return next(walk_id for walk_id, walk in waiting if walk.owner == caller and weight(walk))


def _one(_walk: Walk) -> int:
    return 1


def _hits(walk: Walk) -> int:
    return len(walk.hits)


def _heaviest(weighed: Iterable[tuple[_Holder, int]]) -> _Holder:
    held: Counter[_Holder] = Counter()
    for holder, weight in weighed:
        held[holder] += weight
    return held.most_common(1)[0][0]


def _written(rest: Rest, first: int, steps: int) -> tuple[KeptHit, ...] | None:
    """Go on for some steps; all hits from `first` on once there are no more, else None."""
    if rest.advance(MOST_HITS, steps):
        return None
    before: dict[object, list[Place]] = {}
    kept: list[KeptHit] = []
    for hit in rest.hits:
        own, *twins = [_place(citation) for citation in hit.citations]
        others = before.setdefault((own.path, own.revision, own.where.chars), [])
        kept.append(
            KeptHit(
                place=own,
                before=tuple(others),
                twins=tuple(twins),
                project_keys=hit.recall.project_keys if hit.recall is not None else (),
                source="sessions" if hit.source == "sessions" else "memory",
                score=hit.score or 0.0,
                parts=hit.parts,
            )
        )
        others.append(own)
    return tuple(kept[first:])


def _place(citation: Citation) -> Place:
    reference = citation.reference
    where = None if reference is None or reference.fragment is None else parse_fragment(reference.fragment)
    if reference is None or where is None or reference.revision is None:
        raise ValueError("a hit of ours names its lines and their revision")
    return Place(reference.id, where, reference.revision)

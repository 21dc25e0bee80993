"""Leases: handles that a host opens once and calls by an unguessable id (spec §4.2).

A lease belongs to the token that opened it, name and secret; to everybody else it does not exist. It ends by
`close`, after `IDLE_SECONDS` without a call, with its token's secret, or with the process. An ended lease
gives nothing any more, not even what a call was obtaining while it ended.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from sidecar.domain.authority import (
    Audience,
    Authority,
    Bearer,
    CallerContext,
    Session,
    identity_of,
    nothing_pending,
)
from sidecar.domain.errors import CallerRevoked, LeaseClosed, Overloaded, concerning
from sidecar.domain.provider import MemoryProvider, Purpose
from sidecar.domain.sessions import AudienceBinding, Audiences
from sidecar.service.audit import authority_kind
from sidecar.service.binding import DEADLINES, BoundHandle, Deadlines, Gate, always_served, open_bound

IDLE_SECONDS = 600.0
SWEEP_SECONDS = 15.0
MOST_PER_TOKEN = 256
MOST = 1024
RETRY_MS = 1000


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a lease is asked for. `audience` is the handle that a session caller showed, if any."""

    agent_id: str
    purpose: Purpose
    authority: Authority
    audience: str | None = None


class _Lease:
    def __init__(self, *, agent_id: str, kind: str, bearer: Bearer, handle: BoundHandle, now: float) -> None:
        self.agent_id = agent_id
        self.kind = kind
        self.bearer = bearer
        self.handle = handle
        self.last_used = now
        self.calls = 0


class Leases:
    """The open leases of this process. `run` is its sweeper; `aclose` ends every lease."""

    def __init__(
        self,
        *,
        audiences: Audiences,
        deadlines: Deadlines = DEADLINES,
        clock: Callable[[], float] = time.monotonic,
        most_per_token: int = MOST_PER_TOKEN,
        most: int = MOST,
    ) -> None:
        self._audiences = audiences
        self._deadlines = deadlines
        self._clock = clock
        self._most_per_token = most_per_token
        self._most = most
        self._open: dict[str, _Lease] = {}
        self._opening: Counter[str] = Counter()
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def open(
        self,
        provider: MemoryProvider,
        opening: Opening,
        *,
        bearer: Bearer,
        caller: Callable[[], None],
        check_audience: Callable[[Audience], None],
        is_served: Callable[[], bool] = always_served,
        gate: Gate | None = None,
    ) -> tuple[str, BoundHandle]:
        """A new lease: its id and its handle.

        `caller` raises once the request is no longer current, `check_audience` when the token may not speak
        of that audience; `gate` decides for a provider that does not itself. Raises `Overloaded` at the
        bounds, `AccessDenied` for an audience that is not ours.
        """
        self._make_room(bearer.key)
        lease_id = secrets.token_urlsafe(24)
        self._opening[bearer.key] += 1
        try:
            with concerning(opening.agent_id, authority_kind(opening.authority)):
                context = self._context(lease_id, opening, bearer, check_audience)
                handle = await open_bound(
                    provider,
                    opening.agent_id,
                    context,
                    opening.purpose,
                    caller=caller,
                    is_served=is_served,
                    gate=gate,
                    deadlines=self._deadlines,
                )
        except BaseException:  # a caller that goes away leaves nothing bound to its lease
            self._audiences.released(lease_id, opened=False)
            raise
        finally:
            self._opening[bearer.key] -= 1
            self._opening += Counter()  # forgets tokens that open nothing
        self._open[lease_id] = _Lease(
            agent_id=opening.agent_id,
            kind=authority_kind(context.authority),
            bearer=bearer,
            handle=handle,
            now=self._clock(),
        )
        return lease_id, handle

    @contextmanager
    def used(self, lease_id: str, *, bearer: Bearer, caller: Callable[[], None]) -> Iterator[BoundHandle]:
        """The handle of a lease for one request; a lease in use is not idle. Raises `LeaseClosed`."""
        lease = self._found(lease_id, bearer)
        if lease is None:
            raise LeaseClosed
        with concerning(lease.agent_id, lease.kind):
            if self._is_over(lease):
                raise LeaseClosed
            lease.calls += 1
            try:
                yield lease.handle.called_by(caller)
            finally:
                lease.calls -= 1
                lease.last_used = self._clock()

    async def close(self, lease_id: str, *, bearer: Bearer) -> None:
        """End a lease. To close what is unknown, closed, expired or another token's changes nothing."""
        if self._found(lease_id, bearer) is not None:
            # Whoever asked may go away meanwhile; the provider's handle is closed all the same.
            await asyncio.shield(self._end(lease_id))

    def sweep(self) -> None:
        """End the leases that have been idle for too long or whose token's secret no longer stands."""
        for lease_id in [lease_id for lease_id, lease in self._open.items() if self._is_over(lease)]:
            self._end(lease_id)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()

    async def aclose(self) -> None:
        """End every lease, and wait until the provider's handles are closed."""
        for lease_id in list(self._open):
            self._end(lease_id)
        await asyncio.gather(*self._closing)

    def _make_room(self, key: str) -> None:
        if self._is_full(key):
            self.sweep()
        if self._is_full(key):
            raise Overloaded("too many memory provider handles are open", retry_after_ms=RETRY_MS)

    def _is_full(self, key: str) -> bool:
        held = sum(lease.bearer.key == key for lease in self._open.values()) + self._opening[key]
        return held >= self._most_per_token or len(self._open) + self._opening.total() >= self._most

    def _found(self, lease_id: str, bearer: Bearer) -> _Lease | None:
        lease = self._open.get(lease_id)
        return lease if lease is not None and lease.bearer.key == bearer.key else None

    def _is_over(self, lease: _Lease) -> bool:
        if not lease.bearer.holds():
            return True
        return not lease.calls and self._clock() - lease.last_used >= IDLE_SECONDS

    def _end(self, lease_id: str) -> asyncio.Task[None]:
        lease = self._open.pop(lease_id)
        self._audiences.released(lease_id)
        closing = asyncio.create_task(lease.handle.close(), name="lease closing")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        return closing

    def _context(
        self, lease_id: str, opening: Opening, bearer: Bearer, check_audience: Callable[[Audience], None]
    ) -> CallerContext:
        authority = opening.authority
        binding: AudienceBinding | None = None
        if isinstance(authority, Session) and opening.audience is not None:
            binding = self._audiences.bind(
                opening.audience,
                agent_id=opening.agent_id,
                session_key=authority.session_key,
                session_id=authority.session_id,
                lease=lease_id,
                bearer=bearer,
            )
            check_audience(binding.audience)
            authority = msgspec.structs.replace(authority, audience=binding.audience)

        def assert_current() -> None:
            if not bearer.holds():
                raise CallerRevoked
            if binding is not None:
                binding.assert_current()

        return CallerContext(
            authority=authority,
            assert_current=assert_current,
            settle=nothing_pending if binding is None else binding.settle,
            identity=identity_of(bearer.principal.name, opening.agent_id, authority),
            token_name=bearer.principal.name,
        )

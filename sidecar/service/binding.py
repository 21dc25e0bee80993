"""The one binding around any provider handle: what U§4 enforces, in its order.

Every call: pending session rows, a closed handle, the caller's currency and the provider's place in service;
then capabilities and the reference; then the provider; then what came back; then the first step again before
anything is released. So a revocation outranks a capability error, and a result obtained before a revocation
is discarded. A provider that does not decide by itself who may read has a gate before it (spec §5.4).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, cast, get_args

import msgspec

from sidecar.domain.authority import CallerContext, Operator
from sidecar.domain.errors import (
    AccessDenied,
    AudienceRefused,
    CapabilityUnsupported,
    LeaseClosed,
    ProviderFailed,
    SidecarError,
    Unavailable,
)
from sidecar.domain.memory import GetRequest, Page, ReadResult, SearchRequest, Source
from sidecar.domain.provider import (
    CandidateHandle,
    CandidateKind,
    CandidateRequest,
    Capabilities,
    Health,
    MemoryProvider,
    ProviderHandle,
    Purpose,
    RefreshHandle,
)
from sidecar.policy.access import Operation
from sidecar.service import results

log = logging.getLogger(__name__)
T = TypeVar("T")

BAD_SHAPE = (
    "memory provider must implement search, get, health, close, "
    "and valid capabilities with matching candidates"
)
PROJECT_FILTER = "memory provider does not support the project filter capability"
NOTE_FILTER = "memory provider does not support the note filter capability (path, since, until)"
NO_REFRESH = "memory provider does not support refresh"
WITHHELD = "session transcripts are withheld: nothing here can authorise them"
NOT_CURRENT = "memory provider instance is no longer current"
CLOSE_SECONDS = 10.0


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """How long provider code may take, in seconds, before its caller is told that it failed."""

    call: float = 60.0
    refresh: float = 1800.0


DEADLINES = Deadlines()


def unquestioned() -> None:
    """The currency check of a caller that the context already speaks for."""


def always_served() -> bool:
    """A provider that is never replaced while its process runs."""
    return True


class Gate(Protocol):
    """Who may read a provider that leaves that to its service. Each answer is recorded where it is given."""

    def denied(self, operation: Operation, context: CallerContext) -> str | None:
        """Why this caller may not, or None when it may."""
        ...

    def full_health(self, context: CallerContext) -> bool:
        """Whether health may carry more than its word."""
        ...


class _Opened:
    """What every view of one open handle shares."""

    def __init__(
        self,
        handle: ProviderHandle,
        *,
        provider_id: str,
        capabilities: Capabilities,
        context: CallerContext,
        is_served: Callable[[], bool],
        gate: Gate | None,
        deadlines: Deadlines,
    ) -> None:
        self.handle = handle
        self.provider_id = provider_id
        self.capabilities = capabilities
        self.context = context
        self.is_served = is_served
        self.gate = gate
        self.deadlines = deadlines
        self.closed = False


class BoundHandle:
    """A caller's handle with the contract enforced. Built by `open_bound` only.

    A provider that can refresh gives a `RefreshableHandle`: the method exists only where it is offered.
    """

    def __init__(self, opened: _Opened, caller: Callable[[], None] = unquestioned) -> None:
        self._opened = opened
        self._caller = caller
        self.provider_id = opened.provider_id
        self.capabilities = opened.capabilities

    def called_by(self, caller: Callable[[], None]) -> BoundHandle:
        """The same handle for one request: `caller` raises once that request is no longer current."""
        return type(self)(self._opened, caller)

    async def search(self, request: SearchRequest) -> Page:
        """A page of hits, all of this provider."""
        await self.assert_usable()
        for source in request.sources or ():
            if source not in self.capabilities.sources:
                raise CapabilityUnsupported(
                    f"memory provider does not support the {source} source capability"
                )
        if request.cursor is not None and not self.capabilities.pagination:
            raise CapabilityUnsupported("memory provider does not support the pagination capability")
        if request.active_project_keys and not self.capabilities.project_filter:
            raise CapabilityUnsupported(PROJECT_FILTER)
        if request.within is not None and not self.capabilities.note_filter:
            raise CapabilityUnsupported(NOTE_FILTER)
        denied = self._denied("search")
        if denied is not None:
            return Page(hits=(), warning=f"{self.provider_id}: stored memories were not searched: {denied}")
        page = results.page(await self._call(self._opened.handle.search, request), self.provider_id)
        return self._without_transcripts(await self._release(page), request)

    async def candidates(self, request: CandidateRequest) -> Page:
        """The entries of one declared kind that a host may inject by itself."""
        await self.assert_usable()
        if request.kind not in self.capabilities.candidates:
            raise CapabilityUnsupported(
                f"memory provider does not support the {request.kind} candidates capability"
            )
        if request.active_project_keys and not self.capabilities.project_filter:
            raise CapabilityUnsupported(PROJECT_FILTER)
        denied = self._denied("candidates")
        if denied is not None:
            return Page(hits=(), warning=f"{self.provider_id}: stored memories were not listed: {denied}")
        offered = cast(CandidateHandle, self._opened.handle).candidates
        return await self._release(results.page(await self._call(offered, request), self.provider_id))

    async def get(self, request: GetRequest) -> ReadResult:
        """The text of a reference of this provider, or `NotFound`."""
        await self.assert_usable()
        results.own(request.reference, self.provider_id)
        self._assert_allowed("get")
        read = results.read(await self._call(self._opened.handle.get, request), self.provider_id)
        return await self._release(read)

    async def health(self) -> Health:
        """How the provider is, at once and for everybody: a caller whose audience lapsed gets the word alone.

        It waits for no session row: what a row that is being written will say decides only about details.
        """
        self._has_audience()
        health = results.health(await self._call(self._opened.handle.health), self.provider_id)
        current, gate = self._has_audience(), self._opened.gate
        full = gate is None or gate.full_health(self._opened.context)
        return health if full and current else Health(status=health.status)

    async def close(self) -> None:
        """Release the lease. Idempotent, works after the caller was revoked, and never raises."""
        if self._opened.closed:
            return
        self._opened.closed = True
        await close_quietly(self._opened.handle, self.provider_id)

    async def assert_usable(self) -> None:
        """Raise unless the handle is open, its caller current and its provider in service (U§4 a and b)."""
        await self._opened.context.settle()
        self._assert_current()

    def _assert_current(self) -> None:
        if self._opened.closed:
            raise LeaseClosed
        self._caller()
        self._opened.context.assert_current()
        _assert_served(self._opened.is_served)

    def _has_audience(self) -> bool:
        """Whether the audience of the caller holds now, if it has one; raises for every other lapse."""
        try:
            self._assert_current()
        except AudienceRefused:
            _assert_served(self._opened.is_served)
            return False
        return True

    def _denied(self, operation: Operation) -> str | None:
        gate = self._opened.gate
        return None if gate is None else gate.denied(operation, self._opened.context)

    def _assert_allowed(self, operation: Operation) -> None:
        denied = self._denied(operation)
        if denied is not None:
            raise AccessDenied(f"{self.provider_id}: memory access denied: {denied}")

    def _without_transcripts(self, page: Page, request: SearchRequest) -> Page:
        """Of a provider behind a gate nobody can say whose a transcript is: they are for operators only."""
        if self._opened.gate is None or isinstance(self._opened.context.authority, Operator):
            return page
        kept = tuple(hit for hit in page.hits if hit.source != "sessions")
        # Said where they were asked for, found or not: that some were found is nobody's to know.
        asked = "sessions" in (request.sources or ())
        warning = "; ".join(filter(None, (page.warning, WITHHELD if asked else None))) or None
        return msgspec.structs.replace(page, hits=kept, warning=warning)

    async def _release(self, result: T) -> T:
        await self.assert_usable()
        return result

    async def _call(
        self, method: Callable[..., Awaitable[T]], *args: object, seconds: float | None = None
    ) -> T:
        deadline = self._opened.deadlines.call if seconds is None else seconds
        return await _guarded(
            lambda: method(*args),
            seconds=deadline,
            provider_id=self.provider_id,
            message=f"memory provider {self.provider_id} failed",
        )


class RefreshableHandle(BoundHandle):
    """A bound handle of a provider that can bring itself up to date."""

    async def refresh(self) -> None:
        """Return once the provider has taken in what changed."""
        await self.assert_usable()
        self._assert_allowed("refresh")
        offered = cast(RefreshHandle, self._opened.handle).refresh
        await self._call(offered, seconds=self._opened.deadlines.refresh)
        await self.assert_usable()


async def open_bound(
    provider: MemoryProvider,
    agent_id: str,
    context: CallerContext,
    purpose: Purpose,
    *,
    caller: Callable[[], None] = unquestioned,
    is_served: Callable[[], bool] = always_served,
    gate: Gate | None = None,
    deadlines: Deadlines = DEADLINES,
) -> BoundHandle:
    """Open a provider and bind the handle: `context` speaks for its whole life, `caller` for this request.

    `gate` decides who may read; None for a provider that decides by itself.

    Currency is checked before and after; a handle that fails the shape check, or whose caller was revoked or
    went away meanwhile, is closed before the error is raised.
    """
    provider_id = provider.provider_id
    await _assert_current(context, caller)
    handle = await _guarded(
        lambda: provider.open(agent_id, context, purpose),
        seconds=deadlines.call,
        provider_id=provider_id,
        message="Memory provider unavailable",
    )
    try:
        await _assert_current(context, caller)
        _assert_served(is_served)
        opened = _Opened(
            handle,
            provider_id=provider_id,
            capabilities=_declared(handle, provider_id),
            context=context,
            is_served=is_served,
            gate=gate,
            deadlines=deadlines,
        )
    except BaseException:  # a caller that goes away leaves no open handle either
        await close_quietly(handle, provider_id)
        raise
    if callable(getattr(handle, "refresh", None)):
        return RefreshableHandle(opened)
    return BoundHandle(opened)


async def close_quietly(handle: object, provider_id: str) -> None:
    """Close a provider's handle; that it fails or hangs concerns the log, not whoever lets go of it."""
    close = getattr(handle, "close", None)
    if not callable(close):
        return
    try:
        await _guarded(close, seconds=CLOSE_SECONDS, provider_id=provider_id, message="close")
    except SidecarError as error:
        log.warning("a handle of provider %s did not close cleanly: %s", provider_id, error.message)


async def _assert_current(context: CallerContext, caller: Callable[[], None]) -> None:
    await context.settle()
    caller()
    context.assert_current()


def _assert_served(is_served: Callable[[], bool]) -> None:
    if not is_served():
        raise ProviderFailed(NOT_CURRENT)


async def _guarded(call: Callable[[], Awaitable[T]], *, seconds: float, provider_id: str, message: str) -> T:
    """Await provider code, which is foreign: whatever it does, one declared error comes out, and in time."""
    try:
        async with asyncio.timeout(seconds) as deadline:
            return await call()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # our caller went away; otherwise the provider lost a task of its own
        log.exception("provider %s failed", provider_id)
        raise ProviderFailed(message) from error
    except Exception as error:
        if deadline.expired():
            log.error("provider %s did not answer within %g seconds", provider_id, seconds)  # noqa: TRY400
        elif isinstance(error, Unavailable):
            raise  # after parsing nothing is the caller's mistake any more (U§1)
        else:
            log.exception("provider %s failed", provider_id)
        raise ProviderFailed(message) from error


def _declared(handle: object, provider_id: str) -> Capabilities:
    """A copy of a handle's capabilities that no later change can reach; raises `ProviderFailed`."""
    try:
        capabilities = _capabilities_of(handle)
    except Exception as error:  # what looks like an attribute may be provider code
        log.exception("provider %s opened a handle that cannot be looked at", provider_id)
        raise ProviderFailed(BAD_SHAPE) from error
    if capabilities is None:
        log.error("provider %s opened a handle of the wrong shape", provider_id)
        raise ProviderFailed(BAD_SHAPE)
    return capabilities


def _capabilities_of(handle: object) -> Capabilities | None:
    if not all(callable(getattr(handle, name, None)) for name in ("search", "get", "health", "close")):
        return None
    told = getattr(handle, "capabilities", None)
    if not isinstance(told, Capabilities):
        return None
    copied = Capabilities(
        sources=tuple(told.sources),
        pagination=told.pagination,
        candidates=tuple(told.candidates),
        project_filter=told.project_filter,
        note_filter=told.note_filter,
    )
    valid = (
        bool(copied.sources)
        and all(source in get_args(Source) for source in copied.sources)
        and isinstance(copied.pagination, bool)
        and all(kind in get_args(CandidateKind) for kind in copied.candidates)
        and isinstance(copied.project_filter, bool)
        and isinstance(copied.note_filter, bool)
        and callable(getattr(handle, "candidates", None)) == bool(copied.candidates)
    )
    return copied if valid else None

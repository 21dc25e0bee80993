"""The one binding around any provider handle: what U§4 enforces, in its order.

Every call: caller currency and a closed handle, then capabilities and the reference, then the provider,
then the references that came back, then currency again before anything is released. So a revocation
outranks a capability error, and a result obtained before a revocation is discarded.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar, cast, get_args

from sidecar.domain.authority import CallerContext
from sidecar.domain.errors import (
    CapabilityUnsupported,
    ForeignReference,
    LeaseClosed,
    ProviderFailed,
    SidecarError,
)
from sidecar.domain.memory import (
    Citation,
    Found,
    GetRequest,
    Hit,
    Page,
    ReadResult,
    Reference,
    SearchRequest,
    Source,
)
from sidecar.domain.provider import (
    CandidateHandle,
    CandidateKind,
    CandidateRequest,
    Capabilities,
    Health,
    MemoryProvider,
    ProviderHandle,
    Purpose,
)

log = logging.getLogger(__name__)
T = TypeVar("T")

BAD_SHAPE = (
    "memory provider must implement search, get, health, close, "
    "and valid capabilities with matching candidates"
)
PROJECT_FILTER = "memory provider does not support the project filter capability"


class BoundHandle:
    """A caller's handle with the contract enforced. Built by `open_bound` only."""

    def __init__(
        self, handle: ProviderHandle, *, provider_id: str, capabilities: Capabilities, context: CallerContext
    ) -> None:
        self._handle = handle
        self._context = context
        self._closed = False
        self.provider_id = provider_id
        self.capabilities = capabilities

    async def search(self, request: SearchRequest) -> Page:
        """A page of hits, all of this provider."""
        self._enter()
        for source in request.sources or ():
            if source not in self.capabilities.sources:
                raise CapabilityUnsupported(
                    f"memory provider does not support the {source} source capability"
                )
        if request.cursor is not None and not self.capabilities.pagination:
            raise CapabilityUnsupported("memory provider does not support the pagination capability")
        if request.active_project_keys and not self.capabilities.project_filter:
            raise CapabilityUnsupported(PROJECT_FILTER)
        return self._leave(_own_page(await self._call(self._handle.search, request), self.provider_id))

    async def candidates(self, request: CandidateRequest) -> Page:
        """The entries of one declared kind that a host may inject by itself."""
        self._enter()
        if request.kind not in self.capabilities.candidates:
            raise CapabilityUnsupported(
                f"memory provider does not support the {request.kind} candidates capability"
            )
        if request.active_project_keys and not self.capabilities.project_filter:
            raise CapabilityUnsupported(PROJECT_FILTER)
        offered = cast(CandidateHandle, self._handle).candidates
        return self._leave(_own_page(await self._call(offered, request), self.provider_id))

    async def get(self, request: GetRequest) -> ReadResult:
        """The text of a reference of this provider, or `NotFound`."""
        self._enter()
        _own([request.reference], self.provider_id)
        result = await self._call(self._handle.get, request)
        if isinstance(result, Found):
            _own([result.reference, *_cited(result.citations)], self.provider_id)
        return self._leave(result)

    async def health(self) -> Health:
        """How the provider is."""
        self._enter()
        return self._leave(await self._call(self._handle.health))

    async def close(self) -> None:
        """Release the lease. Idempotent, and works after the caller was revoked."""
        if self._closed:
            return
        self._closed = True
        await self._handle.close()

    def _enter(self) -> None:
        if self._closed:
            raise LeaseClosed
        self._context.assert_current()

    def _leave(self, result: T) -> T:
        self._enter()
        return result

    async def _call(self, method: Callable[..., Awaitable[T]], *args: object) -> T:
        try:
            return await method(*args)
        except Exception as error:  # provider code is foreign: whatever it throws becomes one declared error
            if isinstance(error, SidecarError) and error.on_wire:
                raise
            log.exception("provider %s failed", self.provider_id)
            raise ProviderFailed(f"memory provider {self.provider_id} failed") from error


async def open_bound(
    provider: MemoryProvider, agent_id: str, context: CallerContext, purpose: Purpose
) -> BoundHandle:
    """Open a provider for a caller and bind the handle.

    Currency is checked before and after; a handle that fails the shape check, or whose caller was revoked
    meanwhile, is closed before the error is raised.
    """
    context.assert_current()
    try:
        handle = await provider.open(agent_id, context, purpose)
    except Exception as error:  # provider code is foreign, see `BoundHandle._call`
        if isinstance(error, SidecarError) and error.on_wire:
            raise
        log.exception("provider %s failed to open", provider.provider_id)
        raise ProviderFailed("Memory provider unavailable") from error
    try:
        context.assert_current()
        if not _well_shaped(handle):
            raise ProviderFailed(BAD_SHAPE)
    except SidecarError:
        if hasattr(handle, "close"):
            await handle.close()
        raise
    return BoundHandle(
        handle, provider_id=provider.provider_id, capabilities=handle.capabilities, context=context
    )


def _well_shaped(handle: object) -> bool:
    methods = all(callable(getattr(handle, name, None)) for name in ("search", "get", "health", "close"))
    capabilities = getattr(handle, "capabilities", None)
    if not methods or not isinstance(capabilities, Capabilities):
        return False
    return (
        bool(capabilities.sources)
        and all(source in get_args(Source) for source in capabilities.sources)
        and isinstance(capabilities.pagination, bool)
        and all(kind in get_args(CandidateKind) for kind in capabilities.candidates)
        and isinstance(capabilities.project_filter, bool)
        and callable(getattr(handle, "candidates", None)) == bool(capabilities.candidates)
    )


def _own_page(page: Page, provider_id: str) -> Page:
    for hit in page.hits:
        _own(_references(hit), provider_id)
    return page


def _references(hit: Hit) -> list[Reference]:
    return [hit.reference, *_cited(hit.citations)]


def _cited(citations: Iterable[Citation]) -> list[Reference]:
    return [citation.reference for citation in citations if citation.reference is not None]


def _own(references: Iterable[Reference], provider_id: str) -> None:
    if any(reference.provider_id != provider_id for reference in references):
        raise ForeignReference

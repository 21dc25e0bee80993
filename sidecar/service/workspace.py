"""The native provider (spec §5.1): neutral handles over an agent's index and workspace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from sidecar.domain.authority import Authority, CallerContext
from sidecar.domain.errors import AccessDenied, ProviderFailed
from sidecar.domain.memory import GetRequest, Page, ReadResult, SearchRequest, Source
from sidecar.domain.provider import CandidateRequest, Capabilities, Health, Purpose
from sidecar.domain.sessions import TranscriptAuthoriser
from sidecar.policy.access import Operation, Partition
from sidecar.service.candidates import CandidateService
from sidecar.service.decisions import Decisions
from sidecar.service.health import HealthReport
from sidecar.service.offload import Offload
from sidecar.service.paging import Pager
from sidecar.service.reading import Reader
from sidecar.service.session_reading import SessionReader

PROVIDER_ID = "memory-sidecar"
CAPABILITIES = Capabilities(
    sources=("memory",),
    pagination=True,
    candidates=("trigger", "project"),
    project_filter=True,
    note_filter=True,
)


TranscriptAccess = Callable[[Authority], TranscriptAuthoriser | None]
"""An authority's view of the agent's transcripts; None withholds all of them."""


def no_transcripts(authority: Authority) -> TranscriptAuthoriser | None:  # noqa: ARG001
    """The view of everybody where nothing says who may see transcripts."""
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkspaceServices:
    """What the handles of one agent share; it outlives every handle."""

    agent_id: str
    pager: Pager
    candidates: CandidateService
    reader: Reader
    refresh: Callable[[], Awaitable[object]]
    health: HealthReport
    offload: Offload
    decisions: Decisions
    transcripts: TranscriptAccess
    session_reader: SessionReader | None = None

    @property
    def capabilities(self) -> Capabilities:
        """What the handles can do: transcripts only where they are enabled."""
        if self.session_reader is None:
            return CAPABILITIES
        return msgspec.structs.replace(CAPABILITIES, sources=("memory", "sessions"))


class WorkspaceProvider:
    """Opens handles on one agent."""

    provider_id = PROVIDER_ID

    def __init__(self, services: WorkspaceServices) -> None:
        self._services = services

    async def open(self, agent_id: str, context: CallerContext, purpose: Purpose) -> WorkspaceHandle:  # noqa: ARG002
        """A handle for this caller, whatever the purpose: opening grants nothing, calls ask the policy."""
        if agent_id != self._services.agent_id:
            raise ProviderFailed("Memory provider unavailable")
        return WorkspaceHandle(self._services, context)


class WorkspaceHandle:
    """One caller's view of the provider."""

    def __init__(self, services: WorkspaceServices, context: CallerContext) -> None:
        self._services = services
        self._context = context
        self.capabilities = services.capabilities

    async def search(self, request: SearchRequest) -> Page:
        """A page of the best hits; none, and why, for a caller that may not read (spec §5.4)."""
        asked = self._services.pager.sources(request)
        withheld = {source: why for source in asked if (why := self._withheld(source)) is not None}
        warning = "; ".join(withheld.values()) or None
        allowed = tuple(source for source in asked if source not in withheld)
        if not allowed:
            return Page(hits=(), warning=warning)
        page = await self._services.pager.page(
            msgspec.structs.replace(request, sources=allowed),
            self._context,
            self._services.transcripts(self._context.authority) if "sessions" in allowed else None,
        )
        if warning is None:
            return page
        return msgspec.structs.replace(page, warning="; ".join(filter(None, (warning, page.warning))))

    async def candidates(self, request: CandidateRequest) -> Page:
        """The entries that a host may inject by itself; none, and why, for a caller that may not read."""
        denied = self._denied("candidates")
        if denied is not None:
            return Page(hits=(), warning=f"{PROVIDER_ID}: stored memories were not listed: {denied}")
        found = await self._services.candidates.candidates(request)
        return Page(
            hits=found.hits,
            coverage="partial" if found.partial else "complete",
            warning="; ".join(found.partial) or None,
        )

    async def get(self, request: GetRequest) -> ReadResult:
        """The text of a reference; a caller that may not read is refused."""
        sessions = self._services.session_reader
        if sessions is not None and sessions.reads(request.reference.id):
            denied = self._denied("get", "transcripts")
            if denied is not None:
                raise AccessDenied(f"{PROVIDER_ID}: memory access denied: {denied}")
            transcripts = self._services.transcripts(self._context.authority)
            return await self._services.offload.run(lambda: sessions.get(request, transcripts))
        denied = self._denied("get")
        if denied is not None:
            raise AccessDenied(f"{PROVIDER_ID}: memory access denied: {denied}")
        return await self._services.offload.run(lambda: self._services.reader.get(request))

    async def health(self) -> Health:
        """How the index is; callers that may not read get the status word alone."""
        report = await self._services.health.report()
        if self._services.decisions.full_health(self._context):
            return report
        return Health(status=report.status)

    async def refresh(self) -> None:
        """One scan of the workspace to its end; a caller that may not read is refused."""
        denied = self._denied("refresh")
        if denied is not None:
            raise AccessDenied(f"{PROVIDER_ID}: memory access denied: {denied}")
        await self._services.refresh()

    async def close(self) -> None:
        """A handle holds nothing of the shared services."""

    def _withheld(self, source: Source) -> str | None:
        """Why a source is not searched for this caller."""
        if source == "memory":
            denied = self._denied("search")
            return denied and f"{PROVIDER_ID}: stored memories were not searched: {denied}"
        denied = self._denied("search", "transcripts")
        return denied and f"{PROVIDER_ID}: transcripts were not searched: {denied}"

    def _denied(self, operation: Operation, partition: Partition = "memory") -> str | None:
        return self._services.decisions.denied(operation, self._context, partition=partition)

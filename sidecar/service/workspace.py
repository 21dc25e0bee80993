"""The native provider (spec §5.1): neutral handles over an agent's index and workspace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sidecar.domain.authority import CallerContext
from sidecar.domain.errors import AccessDenied, ProviderFailed
from sidecar.domain.memory import GetRequest, Page, ReadResult, SearchRequest
from sidecar.domain.provider import CandidateRequest, Capabilities, Health, Purpose
from sidecar.policy.access import Operation
from sidecar.service.candidates import CandidateService
from sidecar.service.decisions import Decisions
from sidecar.service.health import HealthReport
from sidecar.service.offload import Offload
from sidecar.service.paging import Pager
from sidecar.service.reading import Reader

PROVIDER_ID = "memory-sidecar"
CAPABILITIES = Capabilities(
    sources=("memory",),
    pagination=True,
    candidates=("trigger", "project"),
    project_filter=True,
    note_filter=True,
)


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

    capabilities = CAPABILITIES

    def __init__(self, services: WorkspaceServices, context: CallerContext) -> None:
        self._services = services
        self._context = context

    async def search(self, request: SearchRequest) -> Page:
        """A page of the best hits; none, and why, for a caller that may not read (spec §5.4)."""
        denied = self._denied("search")
        if denied is not None:
            return Page(hits=(), warning=f"{PROVIDER_ID}: stored memories were not searched: {denied}")
        return await self._services.pager.page(request, self._context)

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

    def _denied(self, operation: Operation) -> str | None:
        return self._services.decisions.denied(operation, self._context)

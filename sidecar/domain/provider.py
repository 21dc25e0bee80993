"""The provider-neutral contract as types (U§4): capabilities, health, and what a provider must offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Protocol, runtime_checkable

import msgspec

from sidecar.domain.authority import CallerContext
from sidecar.domain.memory import GetRequest, Page, ReadResult, SearchRequest, Source

Purpose = Literal["default", "status", "cli"]
CandidateKind = Literal["trigger", "project"]
HealthStatus = Literal["ready", "degraded", "unavailable"]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider can do, declared once and enforced before its code runs.

    `note_filter` (by path and day, `NoteFilter`) is ours alone; hosts are not told of it.
    """

    sources: tuple[Source, ...]
    pagination: bool
    candidates: tuple[CandidateKind, ...]
    project_filter: bool
    note_filter: bool = False


class CandidateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for entries that a host may inject by itself (U§10)."""

    kind: CandidateKind
    limit: int | None = None
    active_project_keys: tuple[str, ...] | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How a provider is. `details` is free JSON that holds no text, no host path and no secret."""

    status: HealthStatus
    message: str | None = None
    details: Mapping[str, object] | None = None


@runtime_checkable
class ProviderHandle(Protocol):
    """A caller's open handle. `candidates` and `refresh` exist as methods only where declared or offered."""

    @property
    def capabilities(self) -> Capabilities:
        """What this handle can do."""
        ...

    async def search(self, request: SearchRequest) -> Page:
        """The hits for a query, best first."""
        ...

    async def get(self, request: GetRequest) -> ReadResult:
        """The text that a reference names, or `NotFound`."""
        ...

    async def health(self) -> Health:
        """How the provider is, for every authenticated caller."""
        ...

    async def close(self) -> None:
        """Release this caller's lease; the shared service stays."""
        ...


class CandidateHandle(ProviderHandle, Protocol):
    """A handle whose capabilities declare candidates."""

    async def candidates(self, request: CandidateRequest) -> Page:
        """The entries of one declared kind that a host may inject by itself."""
        ...


class RefreshHandle(ProviderHandle, Protocol):
    """A handle whose provider can bring itself up to date."""

    async def refresh(self) -> None:
        """Return once the provider has taken in what changed."""
        ...


class MemoryProvider(Protocol):
    """A provider: it owns an agent's memory and opens handles on it."""

    @property
    def provider_id(self) -> str:
        """The id that scopes its references."""
        ...

    async def open(self, agent_id: str, context: CallerContext, purpose: Purpose) -> ProviderHandle:
        """A handle bound to this caller; raises `Unavailable` when it cannot be had."""
        ...


class ProviderSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider outside of the index is built from: its agent, and its own raw table of settings.

    `options` is `[agents.<id>.<provider>]` as written; the provider validates it and raises `SettingsError`
    with the key and what it accepts. `workspace` is the agent's folder where one is configured. Who may read
    is none of its concern: the service decides that before it is asked (spec §5.4).
    """

    agent_id: str
    options: Mapping[str, object]
    workspace: str | None = None


ProviderFactory = Callable[[ProviderSetup], MemoryProvider]
"""What an entry point of the group `memory_sidecar.providers` names.

The provider may have two more methods: `async start()`, called once before the first `open`, and
`async aclose()`, called once at the end.
"""

"""The operator methods: `memory.*`, and those of `sidecar.*` that are about one agent (spec §4.1)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

from sidecar.adapters.file_shaped import FileShapedRuntime
from sidecar.api.dispatch import Call, Method, Payload
from sidecar.domain.authority import Authority
from sidecar.domain.errors import (
    AccessDenied,
    CapabilityUnsupported,
    InvalidRequest,
    ProviderFailed,
    SidecarError,
)
from sidecar.domain.file_shaped import FileSearch
from sidecar.domain.memory import Note
from sidecar.domain.provider import MemoryProvider, Purpose
from sidecar.domain.why import Why, WhyRequest
from sidecar.policy.roster import Subject, resolve_agent, visible_agents
from sidecar.service.binding import DEADLINES, BoundHandle, Deadlines, Gate, open_bound
from sidecar.service.decisions import Decisions
from sidecar.wire import encode, file_shaped, frames, params
from sidecar.wire.params import AgentParam

log = logging.getLogger(__name__)


class ServedAgent(Protocol):
    """What the methods need of one configured agent."""

    @property
    def provider(self) -> MemoryProvider: ...

    @property
    def gate(self) -> Gate | None:
        """Who decides about reads before the provider is asked; None where the provider does."""
        ...

    @property
    def decisions(self) -> Decisions:
        """Who may do what with the agent's memory."""
        ...

    @property
    def manager(self) -> FileShapedRuntime | None:
        """Where file-shaped managers come from; None where the provider has no files."""
        ...

    @property
    def serves_v1(self) -> bool:
        """Whether v1 is answered from its files (`serve_v1`)."""
        ...

    def notes(self, after: str, most: int) -> list[Note] | None:
        """Notes behind a path, in order of their paths; None where the provider has no files."""
        ...

    async def why(self, asked: WhyRequest, authority: Authority) -> Why | None:
        """The verdict on a line, as this caller may see it; None where the provider has no files."""
        ...

    async def refresh(self, *, rebuild: bool, purge: bool) -> dict[str, object]:
        """One scan to completion; counts."""
        ...


class MemoryMethods:
    """Handlers over the configured agents."""

    def __init__(
        self,
        agents: Mapping[str, ServedAgent],
        default_agent: str | None,
        *,
        deadlines: Deadlines = DEADLINES,
    ) -> None:
        """`agents` is looked up anew for every call."""
        self._agents = agents
        self._default = default_agent
        self._deadlines = deadlines

    def table(self) -> dict[str, Method]:
        """The entries for the dispatcher."""
        return {
            "memory.search": Method(handler=self.search),
            "memory.get": Method(handler=self.get),
            "memory.status": Method(handler=self.status),
            "sidecar.capabilities": Method(handler=self.capabilities),
            "sidecar.explain": Method(handler=self.explain),
            "sidecar.search": Method(handler=self.bounded_search),
            "sidecar.notes": Method(handler=self.notes),
            "sidecar.why": Method(handler=self.why),
            "sidecar.refresh": Method(handler=self.refresh),
        }

    async def search(self, call: Call) -> Payload:
        """`memory.search`, both versions."""
        asked = params.search(call.params)
        if isinstance(asked, params.SearchV1):
            return await self._search_v1(call, asked)
        async with self._bound(call, asked.agent, "cli") as (agent_id, handle):
            page = await handle.search(asked.request)
            return encode.v2(agent_id, handle.provider_id, encode.page(page))

    async def _search_v1(self, call: Call, asked: params.SearchV1) -> Payload:
        agent_id = self._resolve(call, asked.agent, "memory search")
        agent = self._agents[agent_id]
        if agent.manager is None or not agent.serves_v1:
            raise InvalidRequest(
                f'memory plugin "{agent.provider.provider_id}" uses the provider runtime; '
                "retry memory.search with version: 2"
            )
        call.context.assert_current()
        denied = agent.decisions.denied("search", call.context)
        if denied is not None:
            raise ProviderFailed(f"memory search unavailable: {denied}")
        options = FileSearch(
            max_results=asked.max_results,
            min_score=asked.min_score,
            transcripts=agent.manager.view(call.context.authority),
        )
        manager = agent.manager.manager("cli")
        try:
            found = await manager.search(asked.query, options)
            payload = file_shaped.v1(agent_id, found, manager.status())
        except Exception as error:  # whatever the engine throws, the caller gets upstream's one sentence
            if isinstance(error, SidecarError) and error.on_wire:
                raise ProviderFailed(f"memory search failed: {error.message}") from error
            log.exception("memory search failed")
            raise ProviderFailed(f"memory search failed: {frames.INTERNAL}") from error
        finally:
            await manager.close()
        call.context.assert_current()
        return payload

    async def explain(self, call: Call) -> Payload:
        """`sidecar.explain`: a v2 search whose hits say where their score comes from (spec §4.1)."""
        asked = params.explain(call.params)
        async with self._bound(call, asked.agent, "cli") as (agent_id, handle):
            page = await handle.search(asked.request)
            return encode.v2(agent_id, handle.provider_id, encode.explained_page(page))

    async def bounded_search(self, call: Call) -> Payload:
        """`sidecar.search`: a v2 search among notes of some paths and days, with at most so much text."""
        asked = params.bounded_search(call.params)
        async with self._bound(call, asked.agent, "cli") as (agent_id, handle):
            page = await handle.search(asked.request)
            return encode.v2(agent_id, handle.provider_id, encode.bounded_page(page, asked.max_chars))

    async def notes(self, call: Call) -> Payload:
        """`sidecar.notes`: the names of the indexed notes, some at a time."""
        asked = params.notes(call.params)
        agent_id, agent = self._readable(call, asked.agent, "notes")
        found = agent.notes(asked.after, asked.limit + 1)
        if found is None:
            raise CapabilityUnsupported("memory provider does not list its notes")
        return {"agentId": agent_id, **encode.notes(found, asked.limit)}

    async def why(self, call: Call) -> Payload:
        """`sidecar.why`: why a line of a note or transcript is found by a query, or is not."""
        asked = params.why(call.params)
        agent_id, agent = self._readable(call, asked.agent, "why")
        found = await agent.why(asked.request, call.context.authority)
        if found is None:
            raise CapabilityUnsupported("memory provider does not explain its notes")
        call.context.assert_current()
        return {"agentId": agent_id, **encode.why(found)}

    def _readable(self, call: Call, asked: AgentParam, method: str) -> tuple[str, ServedAgent]:
        """The agent that a method without a handle is about, if the caller may read its notes."""
        agent_id = self._resolve(call, asked, "memory provider")
        agent = self._agents[agent_id]
        call.context.assert_current()
        denied = agent.decisions.denied("get", call.context, method=method)
        if denied is not None:
            raise AccessDenied(f"{agent.provider.provider_id}: memory access denied: {denied}")
        return agent_id, agent

    async def get(self, call: Call) -> Payload:
        """`memory.get`."""
        asked = params.get(call.params)
        async with self._bound(call, asked.agent, "cli") as (agent_id, handle):
            return encode.v2(agent_id, handle.provider_id, encode.read(await handle.get(asked.request)))

    async def status(self, call: Call) -> Payload:
        """`memory.status`."""
        async with self._bound(call, params.status(call.params), "cli") as (agent_id, handle):
            return encode.v2(agent_id, handle.provider_id, encode.health(await handle.health()))

    async def capabilities(self, call: Call) -> Payload:
        """`sidecar.capabilities`: what the agent's provider declares, and whether v1 is answered."""
        async with self._bound(call, params.status(call.params), "status") as (agent_id, handle):
            await handle.assert_usable()
            declared = {
                **encode.capabilities(handle.capabilities),
                "noteFilter": handle.capabilities.note_filter,
            }
            served = self._agents[agent_id].serves_v1
            return encode.v2(agent_id, handle.provider_id, {"capabilities": declared, "servesV1": served})

    async def refresh(self, call: Call) -> Payload:
        """`sidecar.refresh`: one scan to completion, for `memory-sidecar index` beside a running service."""
        asked = params.refresh(call.params)
        agent_id = self._resolve(call, asked.agent, "memory provider")
        call.context.assert_current()
        agent = self._agents[agent_id]
        denied = agent.decisions.denied("refresh", call.context)
        if denied is not None:
            raise AccessDenied(f"{agent.provider.provider_id}: memory access denied: {denied}")
        counts = await agent.refresh(rebuild=asked.rebuild, purge=asked.purge)
        return {"agentId": agent_id, **counts}

    def _resolve(self, call: Call, agent: AgentParam, subject: Subject) -> str:
        roster = visible_agents(call.principal, tuple(self._agents))
        return resolve_agent(agent.name, roster, self._default, subject=subject)

    @asynccontextmanager
    async def _bound(
        self, call: Call, agent: AgentParam, purpose: Purpose
    ) -> AsyncIterator[tuple[str, BoundHandle]]:
        agent_id = self._resolve(call, agent, "memory provider")
        provider = self._agents[agent_id].provider
        handle = await open_bound(
            provider,
            agent_id,
            call.context,
            purpose,
            is_served=lambda: self._serves(agent_id, provider),
            gate=self._agents[agent_id].gate,
            deadlines=self._deadlines,
        )
        try:
            yield agent_id, handle
        finally:
            await handle.close()

    def _serves(self, agent_id: str, provider: MemoryProvider) -> bool:
        agent = self._agents.get(agent_id)
        return agent is not None and agent.provider is provider

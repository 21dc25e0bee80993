"""The host methods `manager.*`: the file-shaped manager of an agent, raw hits included (spec §4.2).

A host token is full read of its agents, so the rule is always the same: `manager.authorize` gives a host the
verdict on hits that it is about to pass on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec

from sidecar.adapters.file_shaped import FileShapedManager, FileShapedRuntime
from sidecar.api.dispatch import Call, Method, Payload
from sidecar.api.memory_methods import ServedAgent
from sidecar.domain.authority import Operator
from sidecar.domain.errors import CapabilityUnsupported
from sidecar.domain.provider import Purpose
from sidecar.policy.access import READ_SCOPE, Allow
from sidecar.policy.roster import check_session_keys, resolve_agent, visible_agents
from sidecar.service.audit import Audit
from sidecar.wire import file_shaped, javascript, manager_params
from sidecar.wire.rules import Params, field

HOST_READS = "host-token"
"""The rule that admits a host to the raw memory of its agents."""
WHOLE = Operator(scopes=(READ_SCOPE,))
"""Whoever sees every transcript of an agent that anybody may see."""


class ManagerMethods:
    """Handlers over the configured agents."""

    def __init__(
        self, agents: Mapping[str, ServedAgent], default_agent: str | None, *, audit: Audit | None = None
    ) -> None:
        """`agents` is looked up anew for every call; each is recorded in `audit`."""
        self._agents = agents
        self._default = default_agent
        self._audit = audit or Audit()

    def table(self) -> dict[str, Method]:
        """The entries for the dispatcher."""
        handlers = {
            "search": self.search,
            "readFile": self.read_file,
            "status": self.status,
            "sync": self.sync,
            "candidates": self.candidates,
            "probe": self.probe,
            "classify": self.classify,
            "authorize": self.authorize,
        }
        return {f"manager.{name}": Method(handler=handler, role="host") for name, handler in handlers.items()}

    async def search(self, call: Call) -> Payload:
        """`manager.search`: raw hits, and whether something may be missing."""
        asked = manager_params.search(call.params)
        async with self._manager(call, "search", "cli") as (agent_id, runtime, manager):
            # A host is full read of its agents: what it may pass on is asked of `manager.authorize`.
            whole = msgspec.structs.replace(asked.options, transcripts=runtime.view(WHOLE))
            found = await manager.search(asked.query, whole)
            hits = [file_shaped.hit(item) for item in found.hits]
            return self._reply(call, agent_id, {"hits": hits, **file_shaped.staleness(agent_id, found)})

    async def read_file(self, call: Call) -> Payload:
        """`manager.readFile`."""
        asked = manager_params.read_file(call.params)
        async with self._manager(call, "readFile", "cli") as (agent_id, _, manager):
            return self._reply(call, agent_id, file_shaped.text(await manager.read_file(asked)))

    async def status(self, call: Call) -> Payload:
        """`manager.status`."""
        manager_params.plain(call.params)
        async with self._manager(call, "status", "status") as (agent_id, _, manager):
            return self._reply(call, agent_id, {"status": manager.status()})

    async def sync(self, call: Call) -> Payload:
        """`manager.sync`: one scan to completion."""
        asked = manager_params.sync(call.params)
        async with self._manager(call, "sync", "cli") as (agent_id, _, manager):
            await manager.sync(reason=asked.reason, force=asked.force)
            return self._reply(call, agent_id, {})

    async def candidates(self, call: Call) -> Payload:
        """`manager.candidates`: raw hits of the entries that a host may inject by itself."""
        asked = manager_params.candidates(call.params)
        async with self._manager(call, "candidates", "cli") as (agent_id, _, manager):
            found = await manager.candidates(asked)
            hits = [file_shaped.hit(item) for item in found.hits]
            return self._reply(call, agent_id, {"hits": hits, **file_shaped.staleness(agent_id, found)})

    async def probe(self, call: Call) -> Payload:
        """`manager.probe`: whether embeddings answer, and whether vectors can be searched."""
        manager_params.plain(call.params)
        async with self._manager(call, "probe", "status") as (agent_id, _, manager):
            return self._reply(call, agent_id, await manager.probe())

    async def classify(self, call: Call) -> Payload:
        """`manager.classify`: the origin class of workspace paths."""
        paths = manager_params.classify(call.params)
        agent_id, runtime = self._runtime(call, "classify")
        classes = [
            {"relativePath": path, "originClass": origin} for path, origin in await runtime.classify(paths)
        ]
        return self._reply(call, agent_id, {"classifications": classes})

    async def authorize(self, call: Call) -> Payload:
        """`manager.authorize`: those of the hits that the requester may see, as they came (U§7)."""
        asked, given = manager_params.authorize(call.params)
        agent_id, runtime = self._runtime(call, "authorize")
        asked = msgspec.structs.replace(asked, agent_id=agent_id)
        admitted = {id(hit) for hit in await runtime.admitted(asked)}
        hits = [raw for raw, hit in zip(given, asked.hits, strict=True) if id(hit) in admitted]
        return self._reply(call, agent_id, {"hits": hits})

    def _runtime(self, call: Call, name: str) -> tuple[str, FileShapedRuntime]:
        roster = visible_agents(call.principal, tuple(self._agents))
        named = javascript.text(field(call.params, "agentId"))
        agent_id = resolve_agent(named, roster, self._default, subject="memory provider")
        check_session_keys(_session_keys(call.params), roster)
        call.context.assert_current()
        agent = self._agents[agent_id]
        if agent.manager is None:
            raise CapabilityUnsupported(
                f'memory plugin "{agent.provider.provider_id}" uses the provider runtime; '
                "open it with provider.open"
            )
        self._audit.decided(
            Allow(HOST_READS),
            token_name=call.principal.name,
            authority="host",
            agent=agent_id,
            method=f"manager.{name}",
        )
        return agent_id, agent.manager

    @asynccontextmanager
    async def _manager(
        self, call: Call, name: str, purpose: Purpose
    ) -> AsyncIterator[tuple[str, FileShapedRuntime, FileShapedManager]]:
        agent_id, runtime = self._runtime(call, name)
        manager = runtime.manager(purpose)
        try:
            yield agent_id, runtime, manager
        finally:
            await manager.close()

    def _reply(self, call: Call, agent_id: str, result: Mapping[str, object]) -> Payload:
        call.context.assert_current()
        return {"agentId": agent_id, **result}


def _session_keys(params: Params) -> list[str]:
    paths = (("sessionKey",), ("requesterSessionKey",), ("conversationRecall", "anchorSessionKey"))
    return [key for path in paths if isinstance(key := field(params, *path), str)]

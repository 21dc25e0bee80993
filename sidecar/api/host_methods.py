"""The neutral handle over the wire, for hosts: `provider.open` and calls on its lease (spec §4.2, U§4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from sidecar.api.dispatch import Call, Method, Payload
from sidecar.domain.authority import Audience, Conversation
from sidecar.domain.errors import CapabilityUnsupported, UnknownAgent
from sidecar.domain.provider import MemoryProvider
from sidecar.policy.roster import check_session_keys, resolve_agent, visible_agents
from sidecar.service.binding import NO_REFRESH, BoundHandle, Gate, RefreshableHandle
from sidecar.service.leases import Leases, Opening
from sidecar.wire import encode, host_params

T = TypeVar("T")


class Provided(Protocol):
    """What the methods need of one configured agent."""

    @property
    def provider(self) -> MemoryProvider: ...

    @property
    def gate(self) -> Gate | None:
        """Who decides about reads before the provider is asked; None where the provider does."""
        ...


class ProviderMethods:
    """Handlers over the configured agents, by leases. `agents` is looked up anew for every call."""

    def __init__(self, agents: Mapping[str, Provided], leases: Leases) -> None:
        self._agents = agents
        self._leases = leases

    def table(self) -> dict[str, Method]:
        """The entries for the dispatcher."""
        handlers: dict[str, Callable[[Call], Awaitable[Payload]]] = {
            "provider.open": self.open,
            "provider.search": self.search,
            "provider.get": self.get,
            "provider.candidates": self.candidates,
            "provider.health": self.health,
            "provider.refresh": self.refresh,
            "provider.close": self.close,
        }
        return {name: Method(handler=handler, role="host") for name, handler in handlers.items()}

    async def open(self, call: Call) -> Payload:
        """`provider.open`: a lease for a caller that the host vouches for."""
        asked = host_params.open_(call.params)
        roster = visible_agents(call.principal, tuple(self._agents))
        agent_id = resolve_agent(asked.agent, roster, None, subject="memory provider")
        check_session_keys(asked.session_keys(), roster)
        provider = self._agents[agent_id].provider
        lease, handle = await self._leases.open(
            provider,
            Opening(
                agent_id=agent_id,
                purpose=asked.purpose,
                authority=asked.authority,
                audience=asked.audience,
            ),
            bearer=call.bearer,
            caller=call.context.assert_current,
            check_audience=lambda audience: _check_audience(audience, roster),
            is_served=lambda: self._serves(agent_id, provider),
            gate=self._agents[agent_id].gate,
        )
        return {
            "lease": lease,
            "providerId": handle.provider_id,
            "adapter": getattr(provider, "adapter", "native"),
            "capabilities": encode.capabilities(handle.capabilities),
        }

    async def search(self, call: Call) -> Payload:
        """`provider.search`."""
        lease, request = host_params.search(call.params)
        return encode.page(await self._on(lease, call, lambda handle: handle.search(request)))

    async def get(self, call: Call) -> Payload:
        """`provider.get`."""
        lease, request = host_params.get(call.params)
        return encode.read(await self._on(lease, call, lambda handle: handle.get(request)))

    async def candidates(self, call: Call) -> Payload:
        """`provider.candidates`."""
        lease, request = host_params.candidates(call.params)
        return encode.page(await self._on(lease, call, lambda handle: handle.candidates(request)))

    async def health(self, call: Call) -> Payload:
        """`provider.health`, for every authority."""
        lease = host_params.lease(call.params)
        return encode.health(await self._on(lease, call, lambda handle: handle.health()))

    async def refresh(self, call: Call) -> Payload:
        """`provider.refresh`, where the provider offers it."""
        await self._on(host_params.lease(call.params), call, _refresh)
        return {}

    async def close(self, call: Call) -> Payload:
        """`provider.close`: idempotent, also for a lease that is not the caller's."""
        await self._leases.close(host_params.lease(call.params), bearer=call.bearer)
        return {}

    async def _on(self, lease: str, call: Call, use: Callable[[BoundHandle], Awaitable[T]]) -> T:
        with self._leases.used(lease, bearer=call.bearer, caller=call.context.assert_current) as handle:
            return await use(handle)

    def _serves(self, agent_id: str, provider: MemoryProvider) -> bool:
        agent = self._agents.get(agent_id)
        return agent is not None and agent.provider is provider


async def _refresh(handle: BoundHandle) -> None:
    if not isinstance(handle, RefreshableHandle):
        await handle.assert_usable()
        raise CapabilityUnsupported(NO_REFRESH)
    await handle.refresh()


def _check_audience(audience: Audience, roster: Sequence[str]) -> None:
    if audience.agent_id not in roster:
        raise UnknownAgent
    if isinstance(audience, Conversation):
        check_session_keys([audience.session_key], roster)

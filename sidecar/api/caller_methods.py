"""`sidecar.caller`: what a token may do, as the service sees it (spec §3)."""

from __future__ import annotations

from collections.abc import Collection

from sidecar import __version__
from sidecar.api.dispatch import Call, Method, Payload
from sidecar.policy.access import ADMIN_SCOPE
from sidecar.policy.roster import sees_every_agent, visible_agents


class CallerMethods:
    """The handler over the configured agents. `instance` names this process."""

    def __init__(self, agents: Collection[str], default_agent: str | None, *, instance: str = "") -> None:
        self._agents = agents
        self._default = default_agent
        self._instance = instance

    def table(self) -> dict[str, Method]:
        """The entries for the dispatcher."""
        return {"sidecar.caller": Method(handler=self.caller)}

    async def caller(self, call: Call) -> Payload:
        """Role, scopes and agents of the token, which agent is meant where none is named, and more."""
        principal = call.principal
        configured = tuple(self._agents)
        visible = visible_agents(principal, configured)
        call.context.assert_current()
        payload: Payload = {
            "name": principal.name,
            "role": principal.role,
            "scopes": list(principal.scopes),
            "agents": list(visible),
            "audit": ADMIN_SCOPE in principal.scopes or sees_every_agent(principal, configured),
            "serviceVersion": __version__,
            "instance": self._instance,
        }
        if len(visible) == 1:
            return payload | {"defaultAgent": visible[0]}
        return payload | ({"defaultAgent": self._default} if self._default in visible else {})

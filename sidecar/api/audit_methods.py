"""`sidecar.audit`: what was decided lately, for whoever may see all agents (spec §3, §4.1)."""

from __future__ import annotations

from collections.abc import Iterable

from sidecar.api.dispatch import Call, Method, Payload, missing_scope
from sidecar.domain.errors import InvalidRequest
from sidecar.policy.access import ADMIN_SCOPE
from sidecar.policy.roster import sees_every_agent
from sidecar.service.audit import MOST_KEPT, Audit, Decision
from sidecar.wire import javascript
from sidecar.wire.rules import ABSENT, field

DEFAULT_DECISIONS = 100


class AuditMethods:
    """The handler over the one audit. `agents` are the configured ones."""

    def __init__(self, *, audit: Audit, agents: Iterable[str]) -> None:
        self._audit = audit
        self._agents = tuple(agents)

    def table(self) -> dict[str, Method]:
        """The entries for the dispatcher."""
        return {"sidecar.audit": Method(handler=self.recent)}

    async def recent(self, call: Call) -> Payload:
        """The last `limit` decisions, newest first, and the counts since the start."""
        admin = ADMIN_SCOPE in call.principal.scopes
        if not admin and not sees_every_agent(call.principal, self._agents):
            raise missing_scope(ADMIN_SCOPE)
        asked = field(call.params, "limit")
        limit = DEFAULT_DECISIONS if asked is ABSENT else javascript.positive_integer(asked)
        if limit is None:
            raise InvalidRequest("limit must be a positive integer")
        call.context.assert_current()
        return {
            "allowed": self._audit.allowed,
            "denied": self._audit.denials(),
            "decisions": [_decision(item) for item in self._audit.recent(min(limit, MOST_KEPT))],
        }


def _decision(value: Decision) -> dict[str, object]:
    return {
        "at": value.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "tokenName": value.token_name,
        "authority": value.authority,
        "agentId": value.agent,
        "method": value.method,
        "verdict": value.verdict,
        "reason": value.reason,
    }

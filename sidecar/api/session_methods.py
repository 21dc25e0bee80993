"""The host methods on sessions, audiences and origins (spec §4.2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from sidecar.api.dispatch import Call, Method, Payload
from sidecar.domain.errors import AccessDenied, InvalidRequest, UnknownAgent, concerning
from sidecar.host.audiences import Minted
from sidecar.host.sessions import HostSessions
from sidecar.policy.access import Allow, Deny
from sidecar.policy.lineage import NoAudience
from sidecar.policy.roster import resolve_agent, visible_agents
from sidecar.policy.session_keys import named_agent
from sidecar.service.audit import Audit
from sidecar.wire import session_params as params


class SessionMethods:
    """Handlers over what hosts report. `agents` are the configured ones."""

    def __init__(self, *, agents: Iterable[str], sessions: HostSessions, audit: Audit) -> None:
        self._agents = tuple(agents)
        self._sessions = sessions
        self._audit = audit

    def table(self) -> dict[str, Method]:
        """The entries for the dispatcher."""
        handlers: dict[str, Callable[[Call], Awaitable[Payload]]] = {
            "session.put": self.put,
            "session.replace": self.replace,
            "session.delete": self.delete,
            "audience.resolve": self.resolve,
            "audience.admit": self.admit,
            "audience.delegate": self.delegate,
            "audience.release": self.release,
            "provenance.put": self.provenance,
        }
        return {name: Method(handler=handler, role="host") for name, handler in handlers.items()}

    async def put(self, call: Call) -> Payload:
        """`session.put`: one row."""
        row = params.row(call.params)
        self._check_keys(call, row.session_key, row.parent_session_key)
        call.context.assert_current()
        self._sessions.put(row)
        return {}

    async def replace(self, call: Call) -> Payload:
        """`session.replace`: all rows of one agent."""
        asked = params.replace(call.params)
        agent_id = self._agent(call, asked.agent)
        for place, row in enumerate(asked.rows):
            if named_agent(row.session_key) != agent_id:
                raise InvalidRequest(f"rows[{place}].sessionKey must be a session of agentId")
            self._check_keys(call, row.session_key, row.parent_session_key)
        call.context.assert_current()
        self._sessions.replace(agent_id, asked.rows)
        return {}

    async def delete(self, call: Call) -> Payload:
        """`session.delete`."""
        key = params.session_key(call.params)
        self._check_keys(call, key)
        call.context.assert_current()
        self._sessions.delete(key)
        return {}

    async def resolve(self, call: Call) -> Payload:
        """`audience.resolve`: the audience of a turn by the reported rows, or why none."""
        asked = params.resolve(call.params)
        agent_id = self._agent(call, asked.agent)
        self._check_keys(call, asked.session_key)
        call.context.assert_current()
        found = await self._sessions.resolve(
            agent_id=agent_id,
            session_key=asked.session_key,
            session_id=asked.session_id,
            sender_is_owner=asked.sender_is_owner,
            bearer=call.bearer,
        )
        if isinstance(found, NoAudience):
            call.context.assert_current()
            self._record(call, agent_id, "audience.resolve", Deny(found.kind))
            return {"status": "denied", "kind": found.kind, "reason": found.reason}
        self._keep_if_current(call, found)
        self._record(call, agent_id, "audience.resolve", Allow("lineage"))
        return {"status": "granted", **_audience(found)}

    async def admit(self, call: Call) -> Payload:
        """`audience.admit`: an audience on the host's word, for one session and the leases that it opens."""
        asked = params.admit(call.params)
        agent_id = self._agent(call, asked.agent)
        keys = {"sessionKey": asked.session_key}
        if asked.root is not None:
            keys["rootSessionKey"] = asked.root[0]
        self._check_keys(call, *keys.values())
        for name, key in keys.items():
            if named_agent(key) != agent_id:
                raise InvalidRequest(f"{name} must be a session of agentId")
        call.context.assert_current()
        with concerning(agent_id, "host"):
            found = self._sessions.admit(
                asked.audience(agent_id), session_key=asked.session_key, bearer=call.bearer
            )
        self._record(call, agent_id, "audience.admit", Allow("host-vouched"))
        return _audience(found)

    async def delegate(self, call: Call) -> Payload:
        """`audience.delegate`: the same audience for a child session."""
        asked = params.delegate(call.params)
        self._check_keys(call, asked.session_key)
        agent_id = self._sessions.agent_of_handle(asked.handle, bearer=call.bearer) or ""
        call.context.assert_current()
        with concerning(agent_id, "host"):
            found = await self._sessions.delegate(
                asked.handle,
                session_key=asked.session_key,
                session_id=asked.session_id,
                bearer=call.bearer,
                detached=asked.detached,
            )
        self._keep_if_current(call, found)
        self._record(call, agent_id, "audience.delegate", Allow("delegated"))
        return _audience(found)

    async def release(self, call: Call) -> Payload:
        """`audience.release`: idempotent, and no error for a handle that is not this token's."""
        handle = params.handle(call.params)
        call.context.assert_current()
        self._sessions.release(handle, bearer=call.bearer)
        return {}

    async def provenance(self, call: Call) -> Payload:
        """`provenance.put`: where a text came from."""
        asked = params.provenance(call.params)
        agent_id = self._agent(call, asked.agent)
        call.context.assert_current()
        self._sessions.put_origin(agent_id, asked.path, asked.revision, asked.origin)
        return {}

    def _roster(self, call: Call) -> Sequence[str]:
        return visible_agents(call.principal, self._agents)

    def _agent(self, call: Call, named: str) -> str:
        return resolve_agent(named, self._roster(call), None, subject="memory provider")

    def _check_keys(self, call: Call, key: str, *parents: str | None) -> None:
        """Every agent inside a session key is one that the token lists (spec §3).

        A parent's key of another form names no agent; such a lineage gives no audience.
        """
        if named_agent(key) is None:
            raise InvalidRequest("sessionKey must have the form agent:<agentId>:<name>")
        for named in (named_agent(item) for item in (key, *parents) if item is not None):
            if named is not None and named not in self._roster(call):
                raise UnknownAgent

    def _keep_if_current(self, call: Call, minted: Minted) -> None:
        """What was minted for a caller that has gone meanwhile is nobody's."""
        try:
            call.context.assert_current()
        except AccessDenied:
            self._sessions.release(minted.handle, bearer=call.bearer)
            raise

    def _record(self, call: Call, agent_id: str, method: str, verdict: Allow | Deny) -> None:
        self._audit.decided(
            verdict, token_name=call.principal.name, authority="host", agent=agent_id, method=method
        )


def _audience(minted: Minted) -> Payload:
    return {"audience": params.audience(minted.handle, minted.audience)}

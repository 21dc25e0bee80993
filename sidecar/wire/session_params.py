"""Parameters of `session.*`, `audience.*` and `provenance.put` to values (spec §4.2)."""

from __future__ import annotations

from typing import Literal, TypeVar, cast

import msgspec

from sidecar.domain.authority import Audience, Conversation, OwnerPrivate
from sidecar.domain.errors import InvalidRequest
from sidecar.domain.session_rows import SessionRow
from sidecar.wire import session_rules as rules
from sidecar.wire.rules import ABSENT, Params, check, field

T = TypeVar("T", bound=msgspec.Struct)
Kind = Literal["owner-private", "conversation"]
OriginName = Literal["owner", "agent", "untrusted", "system"]


class Replace(msgspec.Struct, frozen=True, kw_only=True):
    """The full set of rows of one agent."""

    agent: str
    rows: tuple[SessionRow, ...]


class Resolve(msgspec.Struct, frozen=True, kw_only=True):
    """A turn whose audience is asked for."""

    agent: str
    session_key: str
    session_id: str
    sender_is_owner: bool = False


class Admit(msgspec.Struct, frozen=True, kw_only=True):
    """An audience on the host's word. `root` is key and id of a conversation's root session."""

    agent: str
    session_key: str
    root: tuple[str, str] | None

    def audience(self, agent_id: str) -> Audience:
        """What the host vouches for, of the resolved agent."""
        if self.root is None:
            return OwnerPrivate(agent_id=agent_id)
        key, session_id = self.root
        return Conversation(agent_id=agent_id, session_key=key, session_id=session_id)


class Delegate(msgspec.Struct, frozen=True, kw_only=True):
    """A child session that is to have what a handle stands for."""

    handle: str
    session_key: str
    session_id: str | None = None
    detached: bool = False


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where a text came from."""

    agent: str
    path: str
    revision: str
    origin: OriginName


def row(params: Params) -> SessionRow:
    """Decode `session.put`."""
    check(rules.ROW, params)
    return _decoded(SessionRow, params)


def replace(params: Params) -> Replace:
    """Decode `session.replace`; a faulty row is named by its place."""
    check(rules.REPLACE, params)
    rows: dict[str, SessionRow] = {}
    for place, item in enumerate(cast(list[Params], params["rows"])):
        try:
            decoded = row(item)
        except InvalidRequest as error:
            raise InvalidRequest(f"rows[{place}].{error.message}") from error
        if decoded.session_key in rows:
            raise InvalidRequest(f"rows[{place}].sessionKey must name each session once")
        rows[decoded.session_key] = decoded
    return Replace(agent=_text(params, "agentId"), rows=tuple(rows.values()))


def session_key(params: Params) -> str:
    """Decode `session.delete`."""
    check(rules.DELETE, params)
    return _text(params, "sessionKey")


def resolve(params: Params) -> Resolve:
    """Decode `audience.resolve`."""
    check(rules.RESOLVE, params)
    return _decoded(Resolve, params, agent="agentId")


def admit(params: Params) -> Admit:
    """Decode `audience.admit`."""
    check(rules.ADMIT, params)
    root = None
    if field(params, "kind") == "conversation":
        check(rules.ADMIT_CONVERSATION, params)
        root = (_text(params, "rootSessionKey"), _text(params, "rootSessionId"))
    return Admit(agent=_text(params, "agentId"), session_key=_text(params, "sessionKey"), root=root)


def delegate(params: Params) -> Delegate:
    """Decode `audience.delegate`. `detached` lets the child be without a row (U§6)."""
    check(rules.DELEGATE, params)
    return _decoded(Delegate, params)


def handle(params: Params) -> str:
    """Decode `audience.release`."""
    check(rules.RELEASE, params)
    return _text(params, "handle")


def provenance(params: Params) -> Provenance:
    """Decode `provenance.put`."""
    check(rules.PROVENANCE, params)
    return _decoded(Provenance, params, agent="agentId", origin="originClass")


def audience(handle: str, value: Audience) -> dict[str, object]:
    """An audience as its host sees it: the handle that alone counts, and what it stands for."""
    out: dict[str, object] = {"handle": handle, "agentId": value.agent_id}
    if isinstance(value, OwnerPrivate):
        return out | {"kind": "owner-private"}
    return out | {"kind": "conversation", "sessionKey": value.session_key, "sessionId": value.session_id}


def _text(params: Params, name: str) -> str:
    return cast(str, params[name])


def _decoded(shape: type[T], params: Params, **named: str) -> T:
    """The value of checked parameters: of each field's own name in the wire's spelling, or as `named`."""
    values = {}
    for known in msgspec.structs.fields(shape):
        first, *others = known.name.split("_")
        value = field(params, named.get(known.name, first + "".join(part.capitalize() for part in others)))
        if value is not ABSENT:
            values[known.name] = value
    return shape(**values)

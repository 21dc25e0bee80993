"""Who is asking (U§6). Authority is data; whether it is still current is asked of the context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec


class OwnerPrivate(msgspec.Struct, frozen=True, kw_only=True):
    """The audience of the agent's owner in a direct conversation."""

    agent_id: str


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """The audience of one root conversation and its validated descendants."""

    agent_id: str
    session_key: str
    session_id: str


Audience = OwnerPrivate | Conversation


class ConversationRecall(msgspec.Struct, frozen=True, kw_only=True):
    """A bounded recall pass that the host granted (U§7)."""

    anchor_session_key: str
    scope: str
    corpus: Literal["sessions", "configured"]


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated operator connection."""

    scopes: tuple[str, ...]
    connection_id: str | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's session; without an audience it has no private or conversation grant."""

    session_key: str
    sandboxed: bool
    session_id: str | None = None
    audience: Audience | None = None
    conversation_recall: ConversationRecall | None = None


class HostOperation(msgspec.Struct, frozen=True, kw_only=True):
    """A named operation of the host; it may ask for health only."""

    operation: str


Authority = Operator | Session | HostOperation


async def nothing_pending() -> None:
    """The `settle` of a caller whose authority depends on no session row."""


class CallerContext(msgspec.Struct, frozen=True, kw_only=True):
    """An authority together with the check that it still holds.

    `assert_current` raises when the caller was revoked, disconnected or replaced; it is called before and
    after every awaited step, and what was obtained before a revocation is discarded (U§4). `settle` waits,
    within a bound, for session rows that are being written, and comes before it (U§6). `identity` names the
    caller beyond one connection or lease: a cursor is bound to it (spec §5.1). `token_name` is the token that
    came with the call, for the audit.
    """

    authority: Authority
    assert_current: Callable[[], None]
    settle: Callable[[], Awaitable[None]] = nothing_pending
    identity: str = ""
    token_name: str = ""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a token stands for at the door (spec §3). `agents` None: every configured agent."""

    name: str
    role: Literal["operator", "host"]
    scopes: tuple[str, ...]
    agents: tuple[str, ...] | None = None


class Bearer(msgspec.Struct, frozen=True, kw_only=True):
    """A token in use. `key` names token and secret together without telling the secret.

    `holds` says whether the secret still stands for the same principal: a rotation ends that.
    """

    principal: Principal
    key: str
    holds: Callable[[], bool]

    def __repr__(self) -> str:
        return f"Bearer({self.principal.name})"


def identity_of(token_name: str, agent_id: str, authority: Authority) -> str:
    """What a caller vouched for by a host is called beyond one lease, connection or audience handle.

    Equal for two leases of the same caller, different in everything that decides what it may see.
    """
    match authority:
        case Operator():
            told: tuple[object, ...] = ("operator",)
        case HostOperation(operation=operation):
            told = ("host", operation)
        case Session(audience=audience, conversation_recall=recall):
            told = (
                "session",
                authority.session_key,
                authority.session_id,
                None if audience is None else (type(audience).__name__, *msgspec.structs.astuple(audience)),
                authority.sandboxed,
                None if recall is None else msgspec.structs.astuple(recall),
            )
    return msgspec.json.encode((token_name, agent_id, *told)).decode()

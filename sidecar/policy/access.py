"""Who may read an agent's notes (spec §5.4, the memory column). Default deny, every verdict is a value."""

from __future__ import annotations

from typing import Literal

import msgspec

from sidecar.domain.authority import Authority, HostOperation, Operator, OwnerPrivate, Session

READ_SCOPE = "operator.read"
ADMIN_SCOPE = "operator.admin"
SandboxedAccess = Literal["deny", "allow"]


class Allow(msgspec.Struct, frozen=True):
    """Admitted; `rule` names the row of the table that admits."""

    rule: str


class Deny(msgspec.Struct, frozen=True):
    """Refused; `reason` is what the caller may be told."""

    reason: str


Verdict = Allow | Deny

HOST_CANNOT_READ = Deny("host operations cannot read stored memories")
NO_AUDIENCE = Deny("this session has no owner-private memory audience")
OTHER_AGENT = Deny("the memory audience belongs to another agent")
SANDBOXED = Deny("sandboxed sessions cannot read stored memories")


def has_scope(scopes: tuple[str, ...], scope: str) -> bool:
    """Whether the scopes hold one; `operator.admin` passes every check (U§1)."""
    return scope in scopes or ADMIN_SCOPE in scopes


def read_memory(authority: Authority, agent_id: str, *, sandboxed_access: SandboxedAccess) -> Verdict:
    """Whether this authority may read the notes of `agent_id`."""
    match authority:
        case Operator(scopes=scopes):
            if has_scope(scopes, READ_SCOPE):
                return Allow("operator")
            return Deny(f"missing scope: {READ_SCOPE}")
        case Session(sandboxed=True) if sandboxed_access == "deny":
            return SANDBOXED
        case Session(audience=OwnerPrivate(agent_id=owner)):
            return Allow("owner-private") if owner == agent_id else OTHER_AGENT
        case Session():
            return NO_AUDIENCE
        case HostOperation():
            return HOST_CANNOT_READ


def full_health(authority: Authority, agent_id: str, *, sandboxed_access: SandboxedAccess) -> bool:
    """Whether health may carry details: only for those who may read; others get the status word alone."""
    return isinstance(read_memory(authority, agent_id, sandboxed_access=sandboxed_access), Allow)

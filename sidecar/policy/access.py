"""Who may see what (spec §5.4): the whole table as pure functions. Default deny, every verdict is a value.

Memory is an agent's notes, transcripts are its sessions' records; which transcripts is decided one by one in
`policy/transcripts.py`, only for callers that this module lets look at all.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from sidecar.domain.authority import Authority, Conversation, HostOperation, Operator, OwnerPrivate, Session

READ_SCOPE = "operator.read"
ADMIN_SCOPE = "operator.admin"
SandboxedAccess = Literal["deny", "allow"]
Operation = Literal["search", "get", "candidates", "health", "refresh"]
Partition = Literal["memory", "transcripts"]
OPERATIONS: tuple[Operation, ...] = ("search", "get", "candidates", "health", "refresh")
PARTITIONS: tuple[Partition, ...] = ("memory", "transcripts")


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
TRANSCRIPTS_ONLY = Deny("this recall pass covers transcripts only")
MEMORY_ONLY = Deny("candidates come from memory only")
NO_SCOPE = Deny(f"missing scope: {READ_SCOPE}")

OPERATOR = Allow("operator")
OWNER = Allow("owner-private")
CONVERSATION = Allow("conversation")
FULL_HEALTH = Allow("health-full")
STATUS_ONLY = Allow("health-status-only")
HOST_REFRESH = Allow("host-refresh")


def has_scope(scopes: tuple[str, ...], scope: str) -> bool:
    """Whether the scopes hold one; `operator.admin` passes every check (U§1)."""
    return scope in scopes or ADMIN_SCOPE in scopes


def decide(
    operation: Operation,
    partition: Partition,
    authority: Authority,
    agent_id: str,
    *,
    sandboxed_access: SandboxedAccess,
) -> Verdict:
    """The verdict on one operation on one partition of `agent_id`.

    Health and refresh have no partition: health answers everyone, `FULL_HEALTH` or `STATUS_ONLY`.
    """
    match operation:
        case "health":
            full = full_health(authority, agent_id, sandboxed_access=sandboxed_access)
            return FULL_HEALTH if full else STATUS_ONLY
        case "refresh":
            return refresh(authority, agent_id, sandboxed_access=sandboxed_access)
        case "candidates" if partition == "transcripts":
            return MEMORY_ONLY
    if partition == "memory":
        return read_memory(authority, agent_id, sandboxed_access=sandboxed_access)
    return read_transcripts(authority, agent_id, sandboxed_access=sandboxed_access)


def read_memory(authority: Authority, agent_id: str, *, sandboxed_access: SandboxedAccess) -> Verdict:
    """Whether this authority may read the notes of `agent_id`."""
    match authority:
        case Operator():
            return _operator(authority)
        case Session(sandboxed=True) if sandboxed_access == "deny":
            return SANDBOXED
        case Session(audience=OwnerPrivate(agent_id=owner)):
            if owner != agent_id:
                return OTHER_AGENT
            recall = authority.conversation_recall
            return TRANSCRIPTS_ONLY if recall is not None and recall.corpus == "sessions" else OWNER
        case Session():
            return NO_AUDIENCE
        case HostOperation():
            return HOST_CANNOT_READ


def read_transcripts(authority: Authority, agent_id: str, *, sandboxed_access: SandboxedAccess) -> Verdict:
    """Whether any transcript of `agent_id` may be looked at; the rule says which partition."""
    match authority:
        case Operator():
            return _operator(authority)
        case Session(sandboxed=True) if sandboxed_access == "deny":
            return SANDBOXED
        case Session(audience=OwnerPrivate(agent_id=owner)):
            return OWNER if owner == agent_id else OTHER_AGENT
        case Session(audience=Conversation(agent_id=owner)):
            return CONVERSATION if owner == agent_id else OTHER_AGENT
        case Session():
            return NO_AUDIENCE
        case HostOperation():
            return HOST_CANNOT_READ


def refresh(authority: Authority, agent_id: str, *, sandboxed_access: SandboxedAccess) -> Verdict:
    """Whether this authority may ask for a look at the disk; the answer tells it nothing (U§16)."""
    if isinstance(authority, HostOperation):
        return HOST_REFRESH
    return read_transcripts(authority, agent_id, sandboxed_access=sandboxed_access)


def full_health(authority: Authority, agent_id: str, *, sandboxed_access: SandboxedAccess) -> bool:
    """Whether health may carry counts and names: only for those who may read the notes.

    A recall pass narrows what it searches, not who its caller is.
    """
    verdict = read_memory(authority, agent_id, sandboxed_access=sandboxed_access)
    return isinstance(verdict, Allow) or verdict == TRANSCRIPTS_ONLY


def _operator(operator: Operator) -> Verdict:
    return OPERATOR if has_scope(operator.scopes, READ_SCOPE) else NO_SCOPE

"""Who may see what (spec §5.4). The table below is the specification in words; nothing else decides."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from sidecar.domain.authority import (
    Authority,
    Conversation,
    ConversationRecall,
    HostOperation,
    Operator,
    OwnerPrivate,
    Session,
)
from sidecar.policy.access import (
    FULL_HEALTH,
    OPERATIONS,
    PARTITIONS,
    STATUS_ONLY,
    Allow,
    Deny,
    decide,
)

AGENT, OTHER = "main", "main-2"


def session(audience: Any = None, **fields: Any) -> Session:
    return Session(session_key="agent:main:s", sandboxed=False, audience=audience, **fields)


def conversation(agent_id: str) -> Conversation:
    return Conversation(agent_id=agent_id, session_key=f"agent:{agent_id}:g", session_id="g")


RECALL = ConversationRecall(anchor_session_key="agent:main:s", scope="same-agent-private", corpus="sessions")
CALLERS: dict[str, Authority] = {
    "operator that may read": Operator(scopes=("operator.read",)),
    "administrator": Operator(scopes=("operator.admin",)),
    "operator without the scope": Operator(scopes=("operator.write",)),
    "operator without any scope": Operator(scopes=()),
    "session with the owner's audience": session(OwnerPrivate(agent_id=AGENT)),
    "session with the owner's audience of another agent": session(OwnerPrivate(agent_id=OTHER)),
    "session with a conversation's audience": session(conversation(AGENT)),
    "session with a conversation's audience of another agent": session(conversation(OTHER)),
    "session without audience": session(),
    "recall over transcripts with the owner's audience": session(
        OwnerPrivate(agent_id=AGENT), conversation_recall=RECALL
    ),
    "recall over everything with the owner's audience": session(
        OwnerPrivate(agent_id=AGENT), conversation_recall=msgspec.structs.replace(RECALL, corpus="configured")
    ),
    "recall without audience": session(conversation_recall=RECALL),
    "operation of the host": HostOperation(operation="memory-wiki.query"),
    "status operation of the host": HostOperation(operation="status"),
}
NO_SCOPE = "missing scope: operator.read"
NO_AUDIENCE = "this session has no owner-private memory audience"
OTHER_AGENT = "the memory audience belongs to another agent"
HOST = "host operations cannot read stored memories"
SANDBOXED = "sandboxed sessions cannot read stored memories"
ONLY_TRANSCRIPTS = "this recall pass covers transcripts only"
# Caller: memory, any transcript, health, refresh. "+" admits and names the rule, "-" refuses and says why.
TABLE: dict[str, tuple[str, str, str, str]] = {
    "operator that may read": ("+operator", "+operator", "full", "+operator"),
    "administrator": ("+operator", "+operator", "full", "+operator"),
    "operator without the scope": (f"-{NO_SCOPE}", f"-{NO_SCOPE}", "status", f"-{NO_SCOPE}"),
    "operator without any scope": (f"-{NO_SCOPE}", f"-{NO_SCOPE}", "status", f"-{NO_SCOPE}"),
    "session with the owner's audience": ("+owner-private", "+owner-private", "full", "+owner-private"),
    "session with the owner's audience of another agent": (
        f"-{OTHER_AGENT}", f"-{OTHER_AGENT}", "status", f"-{OTHER_AGENT}",
    ),
    "session with a conversation's audience": (
        f"-{NO_AUDIENCE}", "+conversation", "status", "+conversation",
    ),
    "session with a conversation's audience of another agent": (
        f"-{NO_AUDIENCE}", f"-{OTHER_AGENT}", "status", f"-{OTHER_AGENT}",
    ),
    "session without audience": (f"-{NO_AUDIENCE}", f"-{NO_AUDIENCE}", "status", f"-{NO_AUDIENCE}"),
    "recall over transcripts with the owner's audience": (
        f"-{ONLY_TRANSCRIPTS}", "+owner-private", "full", "+owner-private",
    ),
    "recall over everything with the owner's audience": (
        "+owner-private", "+owner-private", "full", "+owner-private",
    ),
    "recall without audience": (f"-{NO_AUDIENCE}", f"-{NO_AUDIENCE}", "status", f"-{NO_AUDIENCE}"),
    "operation of the host": (f"-{HOST}", f"-{HOST}", "status", "+host-refresh"),
    "status operation of the host": (f"-{HOST}", f"-{HOST}", "status", "+host-refresh"),
}  # fmt: skip


def verdict(words: str) -> Allow | Deny:
    return Allow(words[1:]) if words[0] == "+" else Deny(words[1:])


def sandboxed(authority: Authority) -> Authority:
    assert isinstance(authority, Session)
    return msgspec.structs.replace(authority, sandboxed=True)


def expected(caller: str, operation: str, partition: str, *, in_sandbox: bool, access: str) -> Any:
    """The table, read by hand: a refused sandbox has nothing of its row but the status word."""
    memory, transcripts, health, refresh = TABLE[caller]
    shut = in_sandbox and access == "deny"
    if operation == "health":
        return STATUS_ONLY if shut or health == "status" else FULL_HEALTH
    if operation == "refresh":
        return Deny(SANDBOXED) if shut else verdict(refresh)
    if operation == "candidates" and partition == "transcripts":
        return Deny("candidates come from memory only")
    if shut:
        return Deny(SANDBOXED)
    return verdict(memory if partition == "memory" else transcripts)


CASES = [
    (caller, in_sandbox, access)
    for caller, in_sandbox, access in itertools.product(TABLE, (False, True), ("deny", "allow"))
    if not in_sandbox or isinstance(CALLERS[caller], Session)
]


@pytest.mark.parametrize(("caller", "in_sandbox", "access"), CASES)
def test_the_table_of_who_may_see_what(caller: str, in_sandbox: bool, access: Any) -> None:
    authority = sandboxed(CALLERS[caller]) if in_sandbox else CALLERS[caller]
    for operation, partition in itertools.product(OPERATIONS, PARTITIONS):
        decided = decide(operation, partition, authority, AGENT, sandboxed_access=access)
        wanted = expected(caller, operation, partition, in_sandbox=in_sandbox, access=access)
        assert decided == wanted, (operation, partition)


def test_every_caller_stands_in_the_table() -> None:
    assert TABLE.keys() == CALLERS.keys()


def test_health_answers_everyone_and_full_only_those_who_may_read() -> None:
    for caller, authority in CALLERS.items():
        decided = decide("health", "memory", authority, AGENT, sandboxed_access="deny")
        reads = decide("get", "memory", authority, AGENT, sandboxed_access="deny")
        narrowed = reads == Deny(ONLY_TRANSCRIPTS)
        assert (decided == FULL_HEALTH) == (isinstance(reads, Allow) or narrowed), caller

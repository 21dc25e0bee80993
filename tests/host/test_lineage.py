"""Which audience a session's lineage gives, and in which words none is given (U§6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from sidecar.domain.authority import Conversation, OwnerPrivate
from sidecar.domain.session_rows import SessionRow, SessionRows
from sidecar.policy.lineage import Lineage, resolve

OWNER = OwnerPrivate(agent_id="main")


def rows(*given: SessionRow) -> SessionRows:
    return SessionRows(by_key={item.session_key: item for item in given})


def ask(given: Iterable[SessionRow], asked: SessionRow, *, owner: bool = True, agent: str = "main") -> Any:
    found = resolve(
        rows(*given),
        agent_id=agent,
        session_key=asked.session_key,
        session_id=asked.session_id,
        sender_is_owner=owner,
    )
    return found.audience if isinstance(found, Lineage) else (found.kind, found.reason)


def conversation_of(root: SessionRow) -> Conversation:
    return Conversation(agent_id="main", session_key=root.session_key, session_id=root.session_id)


@pytest.mark.parametrize(
    ("chat_type", "owner", "gives"),
    [
        ("direct", True, "owner-private"),
        ("direct", False, "conversation"),
        ("group", True, "conversation"),
        ("group", False, "conversation"),
        ("channel", True, "conversation"),
        ("channel", False, "conversation"),
    ],
)
@pytest.mark.parametrize("name", ["main", "telegram:group:9:topic:4", "thread:direct:x"])
def test_the_chat_type_of_the_root_decides_and_the_key_does_not(
    row: Any, chat_type: str, owner: bool, gives: str, name: str
) -> None:
    root = row(name, 1, chat_type=chat_type)
    expected = OWNER if gives == "owner-private" else conversation_of(root)
    assert ask([root], root, owner=owner) == expected


@pytest.mark.parametrize("chat_type", [None, "unknown", "Direct", "thread"])
def test_a_root_without_a_durable_chat_type_gives_none(row: Any, chat_type: str | None) -> None:
    root = row("main", 1, chat_type=chat_type)
    assert ask([root], root) == ("ineligible", "root session agent:main:main has no durable chat type")


@pytest.mark.parametrize(("receipt", "sender"), [(True, False), (False, True)])
def test_a_child_has_the_owner_bit_of_its_receipt_and_not_of_its_own_sender(
    row: Any, receipt: bool, sender: bool
) -> None:
    root = row("main", 1, chat_type="direct")
    child = row("subagent:a", 2, parent=root, spawned_by_sender_is_owner=receipt, chat_type="group")
    assert ask([root, child], child, owner=sender) == (OWNER if receipt else conversation_of(root))


def test_a_grandchild_has_the_bit_with_which_the_root_spawned_not_the_one_below(row: Any) -> None:
    root = row("main", 1, chat_type="direct")
    child = row("subagent:a", 2, parent=root, spawned_by_sender_is_owner=False)
    grandchild = row("subagent:b", 3, parent=child, spawned_by_sender_is_owner=True)
    assert ask([root, child, grandchild], grandchild) == conversation_of(root)


@pytest.mark.parametrize("hops", [64, 65])
def test_a_lineage_of_64_hops_is_walked_and_one_of_65_is_not(row: Any, hops: int) -> None:
    chain = [row("root", 1, chat_type="direct")]
    for number in range(2, hops + 1):
        chain.append(row(f"subagent:{number}", number, parent=chain[-1]))
    expected = OWNER if hops == 64 else ("ineligible", "session lineage exceeds 64 hops")
    assert ask(chain, chain[-1]) == expected


@pytest.mark.parametrize(
    "key",
    [
        "main",
        "agent:main:",
        "agent::x",
        "global",
        "agent:other:x",
        "agent:Main:x",
        " agent:main:x",
        "AGENT:main:x",
    ],
)
def test_a_key_that_is_not_exactly_of_this_agent_gives_none(row: Any, key: str) -> None:
    asked = SessionRow(session_key=key, session_id=row("x", 1).session_id, chat_type="direct")
    assert ask([asked], asked)[0] == "ineligible"


@pytest.mark.parametrize("session_id", ["x", "A" * 36, "g" * 36, "0" * 35, "0" * 37, "0" * 36 + "\n"])
def test_a_session_id_that_is_not_of_the_durable_form_gives_none(session_id: str) -> None:
    asked = SessionRow(session_key="agent:main:x", session_id=session_id, chat_type="direct")
    assert ask([asked], asked)[0] == "ineligible"


def test_why_a_parent_of_another_agent_gives_none_does_not_name_it(row: Any) -> None:
    theirs = SessionRow(session_key="agent:other:private", session_id=row("x", 1).session_id)
    child = row("subagent:a", 2, parent=theirs)
    assert ask([child], child) == (
        "ineligible",
        "session lineage is malformed, cyclic or of another agent at the parent of agent:main:subagent:a",
    )


def test_a_lineage_that_bites_its_tail_gives_none(row: Any) -> None:
    first = row("a", 1, parent=row("b", 2))
    second = row("b", 2, parent=first)
    assert ask([first, second], first) == (
        "ineligible",
        "session lineage is malformed, cyclic or of another agent at agent:main:a",
    )


def test_a_parent_of_another_agent_gives_none(row: Any) -> None:
    parent = SessionRow(session_key="agent:other:main", session_id=row("x", 9).session_id, chat_type="direct")
    child = row("subagent:a", 1, parent=parent)
    assert ask([parent, child], child)[0] == "ineligible"


def test_a_session_that_is_unknown_or_was_reset_is_unverified(row: Any) -> None:
    asked = row("main", 1, chat_type="direct")
    assert ask([], asked)[0] == "unverified"
    assert ask([row("main", 2, chat_type="direct")], asked)[0] == "unverified"


@pytest.mark.parametrize(
    "now",
    [
        {"number": 7, "chat_type": "direct", "lifecycle_revision": "r1"},
        {"number": 1, "chat_type": "direct", "lifecycle_revision": "r2"},
        {"number": 1, "chat_type": "direct", "lifecycle_revision": None},
        None,
    ],
)
def test_a_parent_that_is_not_the_recorded_incarnation_is_stale_lineage(row: Any, now: Any) -> None:
    child = row("subagent:a", 2, parent=row("main", 1, lifecycle_revision="r1"))
    parent = [] if now is None else [row("main", **now)]
    kind, reason = ask([*parent, child], child)
    assert kind == "stale-lineage"
    assert "agent:main:main" in reason


def test_a_child_whose_receipt_does_not_say_whether_the_owner_asked_is_stale_lineage(row: Any) -> None:
    root = row("main", 1, chat_type="direct")
    child = row("subagent:a", 2, parent=root, spawned_by_sender_is_owner=None)
    assert ask([root, child], child)[0] == "stale-lineage"


@pytest.mark.parametrize("missing", ["parent_session_key", "parent_session_id"])
def test_half_a_receipt_makes_no_root(row: Any, missing: str) -> None:
    root = row("main", 1, chat_type="direct")
    child = row("subagent:a", 2, parent=root, chat_type="direct", **{missing: None})
    assert ask([root, child], child)[0] == "ineligible"

"""The audit is bounded, says no more than it should, and is where the decisions are made."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from sidecar.domain.authority import (
    CallerContext,
    Conversation,
    HostOperation,
    Operator,
    OwnerPrivate,
    Session,
)
from sidecar.policy.access import Allow, Deny
from sidecar.service.audit import MOST_REASONS, Audit, authority_kind
from sidecar.service.decisions import Decisions

NOON = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
WHO = {"token_name": "gateway", "authority": "operator", "agent": "main", "method": "search"}


def an_audit(most: int = 3) -> Audit:
    return Audit(now=lambda: NOON, most=most)


def test_the_last_decisions_are_kept_newest_first_and_the_counts_go_on() -> None:
    audit = an_audit()
    for number in range(5):
        audit.decided(Deny(f"reason {number % 2}"), **WHO)
    audit.decided(Allow("operator"), **WHO)
    assert [item.reason for item in audit.recent()] == ["operator", "reason 0", "reason 1"]
    assert [item.reason for item in audit.recent(1)] == ["operator"]
    assert audit.recent()[0].at == NOON
    assert (audit.allowed, audit.denials()) == (1, {"reason 0": 3, "reason 1": 2})


def test_strangers_at_the_door_are_counted_and_push_nothing_out_of_sight() -> None:
    audit = an_audit()
    audit.decided(Deny("x"), **WHO)
    for _ in range(50):
        audit.refused_at_door("token-missing")
    assert [item.reason for item in audit.recent()] == ["x"]
    assert audit.denials() == {"x": 1, "token-missing": 50}


def test_reasons_are_bounded() -> None:
    audit = an_audit()
    for number in range(MOST_REASONS + 50):
        audit.decided(Deny(str(number)), **WHO)
    assert len(audit.denials()) == MOST_REASONS + 1
    assert audit.denials()["other"] == 50


@pytest.mark.parametrize(
    ("authority", "kind"),
    [
        (Operator(scopes=()), "operator"),
        (HostOperation(operation="secret"), "host"),
        (Session(session_key="agent:main:secret", sandboxed=False), "session"),
        (
            Session(session_key="k", sandboxed=True, audience=OwnerPrivate(agent_id="main")),
            "session owner-private sandboxed",
        ),
        (
            Session(
                session_key="k",
                sandboxed=False,
                audience=Conversation(agent_id="main", session_key="secret", session_id="secret"),
            ),
            "session conversation",
        ),
    ],
)
def test_the_kind_of_a_caller_tells_no_session(authority: Any, kind: str) -> None:
    assert authority_kind(authority) == kind


def test_every_decision_of_an_agent_is_recorded_with_the_token_that_came() -> None:
    audit = an_audit(most=10)
    decisions = Decisions(agent_id="main", sandboxed_access="deny", audit=audit)

    def caller(authority: Any) -> CallerContext:
        return CallerContext(authority=authority, assert_current=lambda: None, token_name="gateway")

    assert decisions.denied("search", caller(Operator(scopes=("operator.read",)))) is None
    assert decisions.denied("get", caller(HostOperation(operation="status"))) is not None
    assert not decisions.full_health(caller(Session(session_key="k", sandboxed=False)))
    assert decisions.denied("search", caller(Operator(scopes=())), partition="transcripts") is not None
    assert [(item.method, item.verdict, item.reason) for item in reversed(audit.recent())] == [
        ("search", "allow", "operator"),
        ("get", "deny", "host operations cannot read stored memories"),
        ("health", "allow", "health-status-only"),
        ("search transcripts", "deny", "missing scope: operator.read"),
    ]
    assert {item.token_name for item in audit.recent()} == {"gateway"}

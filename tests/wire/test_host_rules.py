"""Parameters of `provider.*`: the first broken rule gives the message, and what is sent is what is asked."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.domain.authority import ConversationRecall, HostOperation, Operator, Session
from sidecar.domain.errors import InvalidRequest
from sidecar.domain.memory import GetRequest, Reference, SearchRequest
from sidecar.domain.provider import CandidateRequest
from sidecar.wire import host_params

OPERATOR: dict[str, Any] = {"kind": "operator", "scopes": []}
SESSION: dict[str, Any] = {"kind": "session", "sessionKey": "agent:main:x", "sandboxed": False}
RECALL: dict[str, Any] = {
    "anchorSessionKey": "agent:main:x", "scope": "same-agent-private", "corpus": "sessions",
}  # fmt: skip


def opening(authority: object = OPERATOR, **more: object) -> dict[str, Any]:
    return {"agentId": "main", "authority": authority} | more


OPENINGS: list[tuple[dict[str, Any], str]] = [
    ({"purpose": "search"}, "purpose must be default, status or cli"),
    ({"purpose": None}, "purpose must be default, status or cli"),
    ({}, "authority must be an object"),
    (opening("operator"), "authority must be an object"),
    (opening({}), "authority.kind must be operator, session or host"),
    (opening({"kind": "admin"}), "authority.kind must be operator, session or host"),
    (opening({"kind": ["host"]}), "authority.kind must be operator, session or host"),
    (opening({"kind": "operator"}), "authority.scopes must be an array of non-empty strings"),
    (opening(OPERATOR | {"scopes": "x"}), "authority.scopes must be an array of non-empty strings"),
    (opening(OPERATOR | {"scopes": [" "]}), "authority.scopes must be an array of non-empty strings"),
    (opening(OPERATOR | {"connId": 7}), "authority.connId must be a non-empty string"),
    (opening({"kind": "session", "sandboxed": True}), "authority.sessionKey must be a non-empty string"),
    (opening({"kind": "session", "sessionKey": "k"}), "authority.sandboxed must be a boolean"),
    (opening(SESSION | {"sandboxed": 1}), "authority.sandboxed must be a boolean"),
    (opening(SESSION | {"sessionId": ""}), "authority.sessionId must be a non-empty string"),
    (opening(SESSION | {"conversationRecall": 1}), "authority.conversationRecall must be an object"),
    (
        opening(SESSION | {"conversationRecall": {}}),
        "authority.conversationRecall.anchorSessionKey must be a non-empty string",
    ),
    (
        opening(SESSION | {"conversationRecall": RECALL | {"corpus": "all"}}),
        "authority.conversationRecall.corpus must be sessions or configured",
    ),
    (opening({"kind": "host"}), "authority.operation must be a non-empty string"),
    ({"authority": OPERATOR}, "agentId must be a non-empty string"),
    (opening(agentId=""), "agentId must be a non-empty string"),
]


@pytest.mark.parametrize(("params", "message"), OPENINGS)
def test_the_first_broken_rule_of_an_opening_gives_the_message(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        host_params.open_(params)
    assert caught.value.message == message


CALLS: list[tuple[Any, dict[str, Any], str]] = [
    (host_params.lease, {}, "lease must be a non-empty string"),
    (host_params.search, {"request": {}}, "lease must be a non-empty string"),
    (host_params.search, {"lease": 7, "request": {}}, "lease must be a non-empty string"),
    (host_params.search, {"lease": "l"}, "request must be an object"),
    (host_params.search, {"lease": "l", "request": {"sources": 7}}, "query must be a non-empty string"),
    (
        host_params.search,
        {"lease": "l", "request": {"query": "x", "maxResults": 0, "lexicalOnly": 1}},
        "maxResults must be a positive integer",
    ),
    (
        host_params.search,
        {"lease": "l", "request": {"query": "x", "lexicalOnly": 1, "activeProjectKeys": 1}},
        "lexicalOnly must be a boolean",
    ),
    (
        host_params.search,
        {"lease": "l", "request": {"query": "x", "activeProjectKeys": [""]}},
        "activeProjectKeys must be an array of non-empty strings",
    ),
    (
        host_params.get,
        {"lease": "l", "request": {}},
        "reference must be a provider-scoped memory reference",
    ),
    (
        host_params.get,
        {"lease": "l", "request": {"reference": {"providerId": "p", "id": "i"}, "lines": 0}},
        "lines must be a positive integer",
    ),
    (host_params.candidates, {"lease": "l", "request": {"limit": 0}}, "kind must be trigger or project"),
    (
        host_params.candidates,
        {"lease": "l", "request": {"kind": "trigger", "limit": 1.5}},
        "limit must be a positive integer",
    ),
]


@pytest.mark.parametrize(("decode", "params", "message"), CALLS)
def test_the_first_broken_rule_of_a_call_gives_the_message(
    decode: Any, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(params)
    assert caught.value.message == message


def test_an_authority_is_taken_as_it_was_told() -> None:
    asked = host_params.open_(opening({"kind": "operator", "scopes": ["operator.read"], "connId": "c"}))
    assert (asked.authority, asked.purpose) == (
        Operator(scopes=("operator.read",), connection_id="c"),
        "default",
    )
    told = {"sandboxed": True, "sessionId": "s", "conversationRecall": RECALL, "audience": {"handle": "h"}}
    asked = host_params.open_(opening(SESSION | told, purpose="cli"))
    recall = ConversationRecall(
        anchor_session_key="agent:main:x", scope="same-agent-private", corpus="sessions"
    )
    assert asked.authority == Session(
        session_key="agent:main:x", sandboxed=True, session_id="s", conversation_recall=recall
    )
    assert (asked.audience, asked.purpose) == ("h", "cli")
    assert asked.session_keys() == ("agent:main:x", "agent:main:x")
    asked = host_params.open_(opening({"kind": "host", "operation": "status"}))
    assert (asked.authority, asked.audience) == (HostOperation(operation="status"), None)


def test_a_call_is_taken_as_it_was_told() -> None:
    request: dict[str, Any] = {
        "query": " x ", "maxResults": 80.0, "minScore": 0, "cursor": " c ", "sources": ["memory", "memory"],
        "lexicalOnly": True, "activeProjectKeys": [],
    }  # fmt: skip
    assert host_params.search({"lease": "l", "request": request}) == (
        "l",
        SearchRequest(
            query="x",
            max_results=50,
            min_score=0.0,
            cursor=" c ",
            sources=("memory",),
            lexical_only=True,
            active_project_keys=(),
        ),
    )
    assert host_params.search({"lease": "l", "request": {"query": "x"}})[1] == SearchRequest(query="x")
    reference = {"providerId": "p", "id": "i", "fragment": "L1-L2"}
    assert host_params.get({"lease": "l", "request": {"reference": reference, "from": 2}})[1] == GetRequest(
        reference=Reference(provider_id="p", id="i", fragment="L1-L2"), from_line=2
    )
    asked = {"kind": "project", "limit": 9999, "activeProjectKeys": ["k"]}
    assert host_params.candidates({"lease": "l", "request": asked})[1] == CandidateRequest(
        kind="project", limit=512, active_project_keys=("k",)
    )

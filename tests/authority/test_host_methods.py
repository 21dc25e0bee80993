"""Session rows, audiences and origins over HTTP: who may report, and how it is refused (spec §3, §4.2)."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.slow

ID = "00000001-0000-4000-8000-000000000000"
MAIN = {"sessionKey": "agent:pro:main", "sessionId": ID, "chatType": "direct"}
TURN = {"agentId": "pro", "sessionKey": "agent:pro:main", "sessionId": ID, "senderIsOwner": True}
OWNER = {"kind": "owner-private", "agentId": "pro", "sessionKey": "agent:pro:main"}
GROUP = {
    "kind": "conversation", "agentId": "pro", "sessionKey": "agent:pro:s",
    "rootSessionKey": "agent:pro:g", "rootSessionId": ID,
}  # fmt: skip
ORIGIN = {"agentId": "pro", "path": "MEMORY.md", "revision": "r", "originClass": "untrusted"}
CALLS: dict[str, dict[str, Any]] = {
    "session.put": MAIN,
    "session.replace": {"agentId": "pro", "rows": [MAIN]},
    "session.delete": {"sessionKey": "agent:pro:gone"},
    "audience.resolve": TURN,
    "audience.admit": OWNER,
    "audience.release": {"handle": "none"},
    "provenance.put": ORIGIN,
}


@pytest.mark.parametrize("method", CALLS)
async def test_a_host_may_and_each_answer_names_the_process(world: Any, method: str) -> None:
    instances = {
        (await world.call(token, name, CALLS[name])).payload["instance"]
        for token in ("host", "host-pro")
        for name in ("session.put", method)
    }
    assert len(instances) == 1
    assert len(instances.pop()) >= 16


@pytest.mark.parametrize("method", [*CALLS, "audience.delegate"])
async def test_an_operator_may_not_and_role_outranks_scope_and_params(world: Any, method: str) -> None:
    for token in ("all", "bare"):
        answer = await world.call(token, method, {})
        assert (answer.status, answer.error) == (
            403,
            {"code": "FORBIDDEN", "message": "unauthorized role: operator"},
        )
    answer = await world.call("host-bare", method, {})
    assert (answer.status, answer.error["message"]) == (403, "missing scope: operator.read")


KEY = "must be a non-empty string of at most 512 characters"
TEXT = "must be a non-empty string of at most 256 characters"
FORM = "sessionKey must have the form agent:<agentId>:<name>"
UNKNOWN = "unknown agentId"
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("session.put", {}, f"sessionKey {KEY}"),
    ("session.put", {"sessionKey": " "}, f"sessionKey {KEY}"),
    ("session.put", MAIN | {"sessionKey": "x" * 513}, f"sessionKey {KEY}"),
    ("session.put", {"sessionKey": "k"}, f"sessionId {TEXT}"),
    ("session.put", MAIN | {"lifecycleRevision": 1}, f"lifecycleRevision {TEXT}"),
    ("session.put", MAIN | {"chatType": None}, f"chatType {TEXT}"),
    ("session.put", MAIN | {"senderIsOwner": 1}, "senderIsOwner must be true or false"),
    ("session.put", MAIN | {"parentSessionKey": ""}, f"parentSessionKey {KEY}"),
    ("session.put", MAIN | {"parentSessionId": ""}, f"parentSessionId {TEXT}"),
    ("session.put", MAIN | {"parentLifecycleRevision": ""}, f"parentLifecycleRevision {TEXT}"),
    ("session.put", MAIN | {"spawnedBySenderIsOwner": "yes"}, "spawnedBySenderIsOwner must be true or false"),
    ("session.put", MAIN | {"incognito": 0}, "incognito must be true or false"),
    ("session.put", MAIN | {"pending": "x"}, "pending must be true or false"),
    ("session.put", MAIN | {"sessionKey": "main"}, FORM),
    ("session.put", MAIN | {"sessionKey": "agent:project-secret:main"}, UNKNOWN),
    ("session.put", MAIN | {"sessionKey": "agent:PRO:main"}, UNKNOWN),
    ("session.put", MAIN | {"sessionKey": "agent:nobody:main"}, UNKNOWN),
    ("session.put", MAIN | {"parentSessionKey": "agent:project-secret:main"}, UNKNOWN),
    ("session.replace", {}, f"agentId {TEXT}"),
    ("session.replace", {"agentId": "pro"}, "rows must be an array of session rows"),
    ("session.replace", {"agentId": "pro", "rows": [1]}, "rows must be an array of session rows"),
    ("session.replace", {"agentId": "pro", "rows": [MAIN, {}]}, f"rows[1].sessionKey {KEY}"),
    ("session.replace", {"agentId": "pro", "rows": [MAIN, MAIN]},
     "rows[1].sessionKey must name each session once"),
    ("session.replace", {"agentId": "project-secret", "rows": []}, UNKNOWN),
    ("session.replace", {"agentId": "pro", "rows": [MAIN | {"sessionKey": "agent:project-secret:main"}]},
     "rows[0].sessionKey must be a session of agentId"),
    ("session.delete", {}, f"sessionKey {KEY}"),
    ("session.delete", {"sessionKey": "agent:project-secret:main"}, UNKNOWN),
    ("audience.resolve", {}, f"agentId {TEXT}"),
    ("audience.resolve", {"agentId": "pro"}, f"sessionKey {KEY}"),
    ("audience.resolve", TURN | {"sessionId": 1}, f"sessionId {TEXT}"),
    ("audience.resolve", {k: v for k, v in TURN.items() if k != "senderIsOwner"},
     "senderIsOwner must be true or false"),
    ("audience.resolve", TURN | {"agentId": "project-secret"}, UNKNOWN),
    ("audience.resolve", TURN | {"sessionKey": "agent:project-secret:main"}, UNKNOWN),
    ("audience.admit", OWNER | {"kind": "public"}, "kind must be owner-private or conversation"),
    ("audience.admit", {"kind": "owner-private"}, f"agentId {TEXT}"),
    ("audience.admit", {"kind": "owner-private", "agentId": "pro"}, f"sessionKey {KEY}"),
    ("audience.admit", OWNER | {"kind": "conversation"}, f"rootSessionKey {KEY}"),
    ("audience.admit", {**GROUP, "rootSessionId": ""}, f"rootSessionId {TEXT}"),
    ("audience.admit", OWNER | {"agentId": "project-secret"}, UNKNOWN),
    ("audience.admit", OWNER | {"sessionKey": "agent:project-secret:main"}, UNKNOWN),
    ("audience.admit", GROUP | {"rootSessionKey": "agent:project-secret:g"}, UNKNOWN),
    ("audience.delegate", {}, "handle must be a non-empty string of at most 128 characters"),
    ("audience.delegate", {"handle": "h"}, f"sessionKey {KEY}"),
    ("audience.delegate", {"handle": "h", "sessionKey": "agent:project-secret:x"}, UNKNOWN),
    ("audience.delegate", {"handle": "h", "sessionKey": "agent:pro:x", "detached": 1},
     "detached must be true or false"),
    ("audience.release", {}, "handle must be a non-empty string of at most 128 characters"),
    ("provenance.put", {}, f"agentId {TEXT}"),
    ("provenance.put", ORIGIN | {"path": ""}, "path must be a non-empty string of at most 1024 characters"),
    ("provenance.put", ORIGIN | {"revision": 1}, f"revision {TEXT}"),
    ("provenance.put", ORIGIN | {"originClass": "me"},
     "originClass must be owner, agent, untrusted or system"),
    ("provenance.put", ORIGIN | {"agentId": "project-secret"}, UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize(("method", "params", "message"), REFUSED)
async def test_what_a_host_of_one_agent_is_refused(
    world: Any, method: str, params: dict[str, Any], message: str
) -> None:
    answer = await world.call("host-pro", method, params)
    assert answer.error.pop("details").keys() == {"instance"}
    assert (answer.status, answer.error) == (400, {"code": "INVALID_REQUEST", "message": message})


async def test_an_audience_is_resolved_delegated_and_released(world: Any) -> None:
    child = {"sessionKey": "agent:pro:child", "sessionId": "run-1"}
    for row in (MAIN, child):
        await world.call("host", "session.put", row)
    granted = (await world.call("host", "audience.resolve", TURN)).payload
    handle = granted["audience"].pop("handle")
    assert granted["status"] == "granted"
    assert granted["audience"] == {"kind": "owner-private", "agentId": "pro"}
    copy = (await world.call("host", "audience.delegate", {"handle": handle, **child})).payload["audience"]
    assert (copy["kind"], copy["handle"] != handle) == ("owner-private", True)
    for _ in range(2):
        assert (await world.call("host", "audience.release", {"handle": handle})).status == 200
    refused = await world.call("host", "audience.delegate", {"handle": copy["handle"], **child})
    assert (refused.status, refused.error["code"]) == (503, "UNAVAILABLE")
    assert refused.error["message"] == "memory audience was released by its owner"
    assert refused.error["details"]["code"] == "ACCESS_DENIED"


async def test_a_denial_says_its_kind_and_reason(world: Any) -> None:
    key = "agent:pro:chatless"
    await world.call("host", "session.put", {"sessionKey": key, "sessionId": ID})
    denied = (await world.call("host", "audience.resolve", TURN | {"sessionKey": key})).payload
    assert {name: denied[name] for name in ("status", "kind", "reason")} == {
        "status": "denied",
        "kind": "ineligible",
        "reason": f"root session {key} has no durable chat type",
    }


async def test_a_session_of_one_listed_agent_has_no_audience_of_another(world: Any) -> None:
    denied = (await world.call("host", "audience.resolve", TURN | {"agentId": "project-secret"})).payload
    assert (denied["status"], denied["kind"]) == ("denied", "ineligible")


async def test_admitted_audiences_say_what_they_stand_for(world: Any) -> None:
    owner = (await world.call("host", "audience.admit", OWNER)).payload["audience"]
    group = (await world.call("host", "audience.admit", GROUP)).payload["audience"]
    assert owner.pop("handle") != group.pop("handle")
    assert owner == {"kind": "owner-private", "agentId": "pro"}
    assert group == {"kind": "conversation", "agentId": "pro", "sessionKey": "agent:pro:g", "sessionId": ID}


@pytest.mark.parametrize("agent", ["pro", "project-secret"])
async def test_a_handle_of_another_token_can_neither_be_used_nor_ended_nor_told_from_a_made_up_one(
    world: Any, agent: str
) -> None:
    theirs = OWNER | {"agentId": agent, "sessionKey": f"agent:{agent}:main"}
    handle = (await world.call("host", "audience.admit", theirs)).payload["audience"]["handle"]
    answers = []
    for shown in (handle, "made-up"):
        child = {"handle": shown, "sessionKey": "agent:pro:x", "detached": True}
        session = {"kind": "session", "sessionKey": "agent:pro:main", "sandboxed": False}
        opening = {"agentId": "pro", "authority": session | {"audience": {"handle": shown}}}
        calls = {
            "audience.delegate": child, "audience.release": {"handle": shown}, "provider.open": opening
        }  # fmt: skip
        told = [await world.call("host-pro", method, params) for method, params in calls.items()]
        answers.append([(answer.status, answer.frame | {"id": ""}) for answer in told])
    assert answers[0] == answers[1]
    assert [status for status, _ in answers[0]] == [503, 200, 503]
    still = {"handle": handle, "sessionKey": f"agent:{agent}:x", "detached": True}
    assert (await world.call("host", "audience.delegate", still)).status == 200


async def test_a_made_up_handle_is_refused_and_releasing_it_is_no_error(world: Any) -> None:
    answer = await world.call("host", "audience.delegate", {"handle": "x", "sessionKey": "agent:pro:x"})
    assert (answer.status, answer.error["message"]) == (503, "memory audience was not minted by this host")
    assert (await world.call("host", "audience.release", {"handle": "x"})).status == 200


async def test_the_audit_is_for_who_may_see_every_agent(world: Any) -> None:
    for token, status in (("all", 200), ("listed", 200), ("admin-pro", 200), ("host", 200)):
        assert (await world.call(token, "sidecar.audit", {})).status == status, token
    for token, scope in (("pro", "admin"), ("host-pro", "admin"), ("bare", "read")):
        answer = await world.call(token, "sidecar.audit", {})
        assert (answer.status, answer.error["message"]) == (403, f"missing scope: operator.{scope}")
        assert answer.error["details"]["code"] == "MISSING_SCOPE"
    for limit in (0, -1, "5", None, 1.5):
        answer = await world.call("all", "sidecar.audit", {"limit": limit})
        assert answer.error["message"] == "limit must be a positive integer"


async def test_the_audit_names_who_asked_what_and_why_it_was_decided(world: Any) -> None:
    before = (await world.call("all", "sidecar.audit", {})).payload
    await world.call("all", "memory.search", {"query": "a private question", "version": 2, "agentId": "pro"})
    await world.call("pro", "session.put", MAIN)
    await world.call(None, "memory.status", {})
    after = (await world.call("all", "sidecar.audit", {"limit": 2})).payload
    refused, searched = after["decisions"]
    assert {name: searched[name] for name in searched if name != "at"} == {
        "tokenName": "all", "authority": "operator", "agentId": "pro", "method": "search",
        "verdict": "allow", "reason": "operator",
    }  # fmt: skip
    assert (refused["tokenName"], refused["verdict"], refused["reason"]) == (
        "pro", "deny", "unauthorized role: operator",
    )  # fmt: skip
    assert after["allowed"] > before["allowed"]
    for reason in ("unauthorized role: operator", "token-missing"):
        assert after["denied"][reason] == before["denied"].get(reason, 0) + 1
    assert "private question" not in world.log()

"""Every decision is one record that names whom it concerns, and never what was asked (spec §3), over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from chats import REFERENCE, Chat

CLOSED = "memory provider handle is closed"
QUESTION = "lantern quicksilver"
STALE = "memory audience is no longer current"
UNAVAILABLE = "memory audience currency is unavailable; retry the operation"
HIT = {"path": "MEMORY.md", "startLine": 1, "endLine": 1, "score": 1, "snippet": "x", "source": "memory"}
READS: dict[str, tuple[str, dict[str, Any], str]] = {
    "memory.search": ("pro", {"query": QUESTION}, "search"),
    "memory.search, version 2": ("pro", {"query": QUESTION, "version": 2}, "search"),
    "sidecar.search": ("pro", {"query": QUESTION}, "search"),
    "sidecar.explain": ("pro", {"query": QUESTION}, "search"),
    "memory.get": ("pro", {"reference": REFERENCE}, "get"),
    "memory.status": ("pro", {}, "health"),
    "sidecar.notes": ("pro", {}, "notes"),
    "sidecar.refresh": ("pro", {}, "refresh"),
    "manager.search": ("host-pro", {"query": QUESTION}, "manager.search"),
    "manager.readFile": ("host-pro", {"relPath": "MEMORY.md"}, "manager.readFile"),
    "manager.status": ("host-pro", {}, "manager.status"),
    "manager.sync": ("host-pro", {}, "manager.sync"),
    "manager.candidates": ("host-pro", {"kind": "trigger"}, "manager.candidates"),
    "manager.probe": ("host-pro", {}, "manager.probe"),
    "manager.classify": ("host-pro", {"relativePaths": ["MEMORY.md"]}, "manager.classify"),
    "manager.authorize": (
        "host-pro", {"hits": [HIT], "sandboxed": False, "trustedAgentScope": True}, "manager.authorize",
    ),
}  # fmt: skip


async def recorded(world: Any, since: int) -> list[dict[str, Any]]:
    """What was recorded after so many decisions, oldest first."""
    told = (await world.call("all", "sidecar.audit", {"limit": 1000})).payload
    count = told["allowed"] + sum(told["denied"].values()) - since
    return list(reversed(told["decisions"][:count])) if count else []


async def decisions(world: Any) -> int:
    told = (await world.call("all", "sidecar.audit", {"limit": 1})).payload
    return int(told["allowed"] + sum(told["denied"].values()))


@pytest.mark.parametrize("name", READS)
async def test_a_read_is_one_record(world: Any, name: str) -> None:
    token, params, method = READS[name]
    before = await decisions(world)
    answer = await world.call(token, name.partition(",")[0], {"agentId": "pro", **params})
    assert answer.status == 200, answer.frame
    (record,) = await recorded(world, before)
    host = token == "host-pro"
    assert {key: record[key] for key in record if key != "at"} == {
        "tokenName": token, "authority": "host" if host else "operator", "agentId": "pro",
        "method": method, "verdict": "allow", "reason": "host-token" if host else record["reason"],
    }  # fmt: skip
    assert "quicksilver" not in world.log()


async def test_a_refused_call_on_a_lease_names_the_agent_and_the_kind_of_caller(world: Any) -> None:
    chat = Chat(world)
    await chat.put()
    opened = await chat.open(await chat.resolve())
    await chat.put(lifecycleRevision="r2")
    before = await decisions(world)
    await chat.search(opened)
    refused = await recorded(world, before)
    await chat.put(pending=True)
    late = await chat.open(await admitted_of(chat))
    assert late.error["message"] == UNAVAILABLE
    refused += (await recorded(world, before))[-1:]
    assert [
        (item["tokenName"], item["authority"], item["agentId"], item["method"], item["reason"])
        for item in refused
    ] == [
        ("host", "session owner-private", "pro", "provider.search", STALE),
        ("host", "session", "pro", "provider.open", UNAVAILABLE),
    ]


async def admitted_of(chat: Chat) -> Any:
    vouched = {"kind": "owner-private", "agentId": chat.agent, "sessionKey": chat.key}
    return (await chat.call("audience.admit", **vouched)).payload["audience"]


async def test_a_lease_that_the_token_does_not_have_names_nobody_whoever_has_it(world: Any) -> None:
    chat = Chat(world)
    await chat.put()
    lease = (await chat.open(await chat.resolve())).payload["lease"]
    before = await decisions(world)
    answers = []
    for asked in (lease, "made-up"):
        answer = await world.call("host-pro", "provider.health", {"lease": asked})
        answers.append((answer.status, answer.error))
    assert answers[0] == answers[1]
    assert [
        (item["tokenName"], item["authority"], item["agentId"], item["method"], item["reason"])
        for item in await recorded(world, before)
    ] == [("host-pro", "host", "", "provider.health", CLOSED)] * 2


async def test_asking_for_an_agent_that_the_token_does_not_list_is_recorded_without_its_name(
    world: Any,
) -> None:
    before = await decisions(world)
    for agent in ("project-secret", "nobody"):
        answer = await world.call("pro", "memory.get", {"agentId": agent, "reference": REFERENCE})
        assert (answer.status, answer.error["message"]) == (400, "unknown agentId")
    assert [
        (item["tokenName"], item["agentId"], item["method"], item["verdict"], item["reason"])
        for item in await recorded(world, before)
    ] == [("pro", "", "memory.get", "deny", "unknown agentId")] * 2


async def test_who_may_not_see_the_audit_is_in_it(world: Any) -> None:
    before = await decisions(world)
    await world.call("pro", "sidecar.audit", {})
    (record,) = await recorded(world, before)
    assert (record["tokenName"], record["method"], record["reason"]) == (
        "pro", "sidecar.audit", "missing scope: operator.admin",
    )  # fmt: skip


async def test_health_answers_under_a_row_that_is_being_written_and_says_one_word(world: Any) -> None:
    chat = Chat(world)
    await chat.put()
    opened = await chat.open(await chat.resolve())
    asked = {"lease": opened.payload["lease"]}
    assert (await chat.call("provider.health", **asked)).payload["details"]
    for change in ({"pending": True}, {"lifecycleRevision": "r2"}):
        await chat.put(**change)
        answer = (await chat.call("provider.health", **asked)).payload
        assert answer.keys() == {"status", "instance"}

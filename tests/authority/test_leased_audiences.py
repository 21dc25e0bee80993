"""What a session sees through a lease, and in which words it does not (U§6, spec §4.2, §5.4), over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from chats import Chat

NO_AUDIENCE = "this session has no owner-private memory audience"
OTHER_AGENT = "the memory audience belongs to another agent"
SANDBOXED = "sandboxed sessions cannot read stored memories"
HOST = "host operations cannot read stored memories"
STALE = "memory audience is no longer current"
RELEASED = "memory audience was released by its owner"
UNAVAILABLE = "memory audience currency is unavailable; retry the operation"
ELSEWHERE = "memory audience is bound to a different session"
FORGED = "memory provider requires a host-minted memory audience"


@pytest.fixture
async def chat(world: Any) -> Chat:
    made = Chat(world)
    await made.put()
    return made


async def denied(chat: Chat, opened: Any, why: str) -> None:
    """A search says why it has no hits, a read is an error, and health is one word."""
    found = (await chat.search(opened)).payload
    assert found["hits"] == []
    assert found["warning"] == f"memory-sidecar: stored memories were not searched: {why}"
    read = await chat.get(opened)
    assert (read.status, read.error["code"]) == (503, "UNAVAILABLE")
    assert read.error["message"] == f"memory-sidecar: memory access denied: {why}"
    assert read.error["details"]["code"] == "ACCESS_DENIED"
    health = (await chat.call("provider.health", lease=opened.payload["lease"])).payload
    assert health.keys() - {"instance"} == {"status"}


async def test_the_owner_reads_and_sees_the_whole_status(chat: Chat) -> None:
    opened = await chat.open(await chat.resolve())
    assert (await chat.search(opened)).payload["hits"]
    assert (await chat.get(opened)).payload["status"] == "ok"
    assert (await chat.call("provider.health", lease=opened.payload["lease"])).payload["details"]


async def test_who_may_not_is_told_why(chat: Chat, world: Any) -> None:
    group = Chat(world, chat="group")
    await group.put()
    theirs = Chat(world, agent="project-secret")
    await theirs.put()
    await denied(chat, await chat.open(), NO_AUDIENCE)
    await denied(chat, await chat.open(await chat.resolve(owner=False)), NO_AUDIENCE)
    await denied(group, await group.open(await group.resolve()), NO_AUDIENCE)
    await denied(chat, await chat.open(await chat.resolve(), sandboxed=True), SANDBOXED)
    await denied(theirs, await theirs.open(await theirs.resolve(), agent="pro"), OTHER_AGENT)
    operation = await chat.call(
        "provider.open", agentId="pro", authority={"kind": "host", "operation": "status"}
    )
    await denied(chat, operation, HOST)


async def test_the_handle_alone_counts_and_not_what_stands_beside_it(chat: Chat) -> None:
    mine = await chat.resolve(owner=False)
    await denied(chat, await chat.open(mine | {"kind": "owner-private"}), NO_AUDIENCE)
    forged = await chat.open({"kind": "owner-private", "agentId": "pro", "handle": "made-up"})
    assert (forged.status, forged.error["message"]) == (503, FORGED)


async def test_another_session_cannot_open_with_it(chat: Chat, world: Any) -> None:
    other = Chat(world)
    await other.put()
    opened = await other.open(await chat.resolve())
    assert (opened.status, opened.error["message"]) == (503, ELSEWHERE)


async def ended(chat: Chat, opened: Any, words: str) -> None:
    for answer in (await chat.search(opened), await chat.get(opened)):
        assert (answer.status, answer.error["message"]) == (503, words)


async def test_a_reset_in_the_middle_of_a_lease_ends_it_for_good(chat: Chat) -> None:
    audience = await chat.resolve()
    opened = await chat.open(audience)
    await chat.put()
    assert (await chat.search(opened)).payload["hits"]
    await chat.put(lifecycleRevision="r2")
    await ended(chat, opened, STALE)
    await chat.put()
    await ended(chat, opened, STALE)
    again = await chat.open(audience)
    assert (again.status, again.error["message"]) == (503, STALE)


async def test_a_deleted_or_released_audience_ends_its_lease(chat: Chat) -> None:
    audience = await chat.resolve()
    opened = await chat.open(audience)
    await chat.call("audience.release", handle=audience["handle"])
    await ended(chat, opened, RELEASED)
    opened = await chat.open(await chat.resolve())
    await chat.call("session.delete", sessionKey=chat.key)
    await ended(chat, opened, STALE)


async def test_a_row_that_is_being_written_makes_it_unavailable_for_the_moment(chat: Chat) -> None:
    opened = await chat.open(await chat.resolve())
    await chat.put(pending=True)
    answer = await chat.search(opened)
    assert (answer.status, answer.error["message"]) == (503, UNAVAILABLE)
    await chat.put()
    assert (await chat.search(opened)).payload["hits"]


async def admitted(chat: Chat) -> Any:
    vouched = {"kind": "owner-private", "agentId": chat.agent, "sessionKey": chat.key}
    return (await chat.call("audience.admit", **vouched)).payload["audience"]


async def test_an_admitted_audience_is_good_for_one_lease_of_its_session_and_ends_with_it(
    chat: Chat, world: Any
) -> None:
    audience = await admitted(chat)
    first, second = await chat.open(audience), await chat.open(audience)
    assert (second.status, second.error["message"]) == (503, ELSEWHERE)
    other = Chat(world)
    await other.put()
    refused = await other.open(audience)
    assert (refused.status, refused.error["message"]) == (503, ELSEWHERE)
    assert (await chat.search(first)).payload["hits"]
    await chat.call("provider.close", lease=first.payload["lease"])
    late = await chat.open(audience)
    assert (late.status, late.error["message"]) == (503, RELEASED)


ELSE = "ffffffff-0000-4000-8000-000000000000"


async def test_no_audience_opens_under_a_session_id_that_contradicts_the_reported_row(chat: Chat) -> None:
    for audience in (await admitted(chat), await chat.resolve()):
        refused = await chat.open(audience, sessionId=ELSE)
        assert (refused.status, refused.error["message"]) == (503, ELSEWHERE)
        opened = await chat.open(audience, sessionId=chat.row["sessionId"])
        assert (await chat.search(opened)).payload["hits"]
    turn = {"agentId": "pro", "sessionKey": chat.key, "sessionId": ELSE, "senderIsOwner": True}
    assert (await chat.call("audience.resolve", **turn)).payload["kind"] == "unverified"
    given = {"handle": (await chat.resolve())["handle"], "sessionKey": chat.key, "sessionId": ELSE}
    changed = await chat.call("audience.delegate", **given)
    assert changed.error["message"] == (
        f"child session changed during memory audience delegation: {chat.key}"
    )


async def test_a_row_that_contradicts_how_an_unreported_session_opened_ends_its_admitted_audience(
    world: Any,
) -> None:
    chat = Chat(world)
    audience = await admitted(chat)
    opened = await chat.open(audience, sessionId=ELSE)
    assert (await chat.search(opened)).payload["hits"]
    refused = await chat.open(audience, sessionId=chat.row["sessionId"])
    assert (refused.status, refused.error["message"]) == (503, ELSEWHERE)
    await chat.put()
    await ended(chat, opened, STALE)


async def test_an_open_that_fails_for_a_pending_row_may_be_tried_again_with_the_same_audience(
    chat: Chat,
) -> None:
    audience = await admitted(chat)
    await chat.put(pending=True)
    refused = await chat.open(audience)
    assert (refused.status, refused.error["message"]) == (503, UNAVAILABLE)
    await chat.put()
    assert (await chat.search(await chat.open(audience))).payload["hits"]


async def test_a_child_has_what_was_delegated_to_it_until_either_ends(chat: Chat, world: Any) -> None:
    child = Chat(world)
    await child.put()
    audience = await chat.resolve()
    given = {"handle": audience["handle"], "sessionKey": child.key}
    copy = (await chat.call("audience.delegate", **given)).payload["audience"]
    opened = await child.open(copy)
    assert (await child.search(opened)).payload["hits"]
    await child.put(sessionId="reset")
    await ended(child, opened, STALE)
    copy = (await chat.call("audience.delegate", **given)).payload["audience"]
    opened = await child.open(copy)
    await chat.call("audience.release", handle=audience["handle"])
    await ended(child, opened, RELEASED)


async def test_a_refused_audience_is_in_the_audit_without_any_session(chat: Chat, world: Any) -> None:
    audience = await chat.resolve()
    await chat.call("audience.delegate", handle=audience["handle"], sessionKey=f"{chat.key}-none")
    await chat.open({"handle": "made-up"})
    listed = (await world.call("all", "sidecar.audit", {"limit": 2})).payload["decisions"]
    assert [(item["method"], item["verdict"], item["reason"]) for item in listed] == [
        ("provider.open", "deny", FORGED),
        ("audience.delegate", "deny", "memory audience delegation requires an existing child session"),
    ]
    assert chat.key not in world.log()


async def test_a_session_of_an_agent_that_the_token_does_not_list_is_unknown(world: Any) -> None:
    theirs = Chat(world, agent="project-secret")
    await theirs.put()
    authority = {"kind": "session", "sessionKey": theirs.key, "sandboxed": False}
    for shown in (await theirs.resolve(), {"handle": "made-up"}):
        asked = {"agentId": "pro", "authority": authority | {"audience": shown}}
        answer = await world.call("host-pro", "provider.open", asked)
        assert (answer.status, answer.error["message"]) == (400, "unknown agentId")

"""A lease by situation: new, used, closed, expired, foreign, rotated, raced, revoked (spec §4.2, U§6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from lease_stage import (
    AS_OPERATOR,
    HOST,
    OPERATOR,
    OTHER_HOST,
    READ,
    Stage,
    descriptors,
    staged,
)

from sidecar.domain.authority import Conversation, OwnerPrivate, Principal, Session
from sidecar.domain.errors import AccessDenied
from sidecar.domain.provider import Health
from sidecar.service.leases import IDLE_SECONDS

Eventually = Callable[..., Awaitable[float]]
CLOSED = "memory provider handle is closed"
REVOKED = "Memory request authority is no longer active"
AS_SESSION = {"kind": "session", "sessionKey": "agent:main:chat", "sandboxed": False}
CALLS: dict[str, Any] = {
    "search": {"request": {"query": "x"}},
    "get": {"request": {"reference": {"providerId": "records", "id": "r1"}}},
    "candidates": {"request": {"kind": "trigger"}},
    "health": {},
    "refresh": {},
}


async def is_closed(stage: Stage, lease: str, *, token: str = HOST) -> bool:
    """Whether every call on a lease says that it is closed, and closing it still succeeds."""
    for operation, params in CALLS.items():
        error = await stage.error(f"provider.{operation}", {"lease": lease, **params}, token=token)
        assert (error["code"], error["message"]) == ("UNAVAILABLE", CLOSED), operation
        assert error["details"] == {"code": "LEASE_CLOSED", "instance": "this-process"}
    return await stage.call("provider.close", {"lease": lease}, token=token) == {"instance": "this-process"}


async def test_a_new_lease_says_what_it_is_and_answers_until_it_is_closed(stage: Stage) -> None:
    opened = await stage.call("provider.open", {"agentId": "MAIN", "authority": AS_OPERATOR})
    lease = opened.pop("lease")
    assert opened == {
        "providerId": "records",
        "adapter": "native",
        "capabilities": {
            "sources": ["memory"],
            "pagination": False,
            "candidates": [],
            "projectFilter": False,
        },
        "instance": "this-process",
    }
    assert len(lease) >= 32
    assert lease != await stage.open()
    page = await stage.call("provider.search", {"lease": lease, **CALLS["search"]})
    read = await stage.call("provider.get", {"lease": lease, **CALLS["get"]})
    health = await stage.call("provider.health", {"lease": lease})
    assert page["hits"][0]["reference"] == {"providerId": "records", "id": "r1"}
    assert (read["status"], read["text"], health["status"]) == ("ok", "a record", "ready")
    assert {page["instance"], read["instance"], health["instance"]} == {"this-process"}
    await stage.call("provider.close", {"lease": lease})
    assert await is_closed(stage, lease)
    assert stage.provider.closed == 1


async def test_an_unknown_lease_is_a_closed_one(stage: Stage) -> None:
    assert await is_closed(stage, "no-such-lease")
    assert stage.provider.calls == []


async def test_a_lease_idle_for_ten_minutes_has_expired_and_one_in_use_has_not(
    stage: Stage, held: asyncio.Event, eventually: Eventually
) -> None:
    lease, busy = await stage.open(), await stage.open()

    async def hang() -> None:
        await held.wait()

    stage.provider.act = hang
    running = asyncio.create_task(stage.call("provider.health", {"lease": busy}))
    await eventually(lambda: _true(stage.provider.running == 1))
    stage.now += IDLE_SECONDS
    stage.leases.sweep()
    assert len(stage.leases) == 1
    assert await is_closed(stage, lease)
    held.set()
    assert (await running)["status"] == "ready"
    stage.now += IDLE_SECONDS - 1
    await stage.call("provider.health", {"lease": busy})
    stage.now += IDLE_SECONDS
    assert await is_closed(stage, busy)
    stage.leases.sweep()
    await eventually(lambda: _true(stage.provider.closed == 2))


async def test_a_lease_is_closed_to_every_other_token_and_stays_open_to_its_own(stage: Stage) -> None:
    lease = await stage.open()
    assert await is_closed(stage, lease, token=OTHER_HOST)
    assert (await stage.call("provider.health", {"lease": lease}))["status"] == "ready"


async def test_a_rotated_secret_ends_its_leases_even_for_the_same_name(
    stage: Stage, eventually: Eventually
) -> None:
    lease = await stage.open()
    stage.tokens["a-new-secret-0123456789"] = stage.tokens.pop(HOST)
    assert await is_closed(stage, lease, token="a-new-secret-0123456789")
    stage.leases.sweep()
    assert len(stage.leases) == 0
    await eventually(lambda: _true(stage.provider.closed == 1))


@pytest.mark.parametrize("what", ["lease", "token"])
async def test_what_a_call_obtains_while_its_lease_or_token_ends_is_not_released(
    stage: Stage, what: str
) -> None:
    lease = await stage.open()

    async def end() -> None:
        if what == "lease":
            await stage.call("provider.close", {"lease": lease})
        else:
            stage.tokens.pop(HOST)

    stage.provider.act = end
    error = await stage.error("provider.search", {"lease": lease, **CALLS["search"]})
    assert error["message"] == (CLOSED if what == "lease" else REVOKED)
    assert "payload" not in error


async def test_a_revocation_outranks_a_capability_error_and_a_closed_lease_both(stage: Stage) -> None:
    lease = await stage.open(authority=AS_SESSION | {"audience": "h1"})
    asked = {"lease": lease, "request": {"query": "x", "sources": ["sessions"]}}
    stage.audiences.refusal = "memory audience is no longer current"
    error = await stage.error("provider.search", asked)
    assert error["message"] == "memory audience is no longer current"
    assert error["details"]["code"] == "ACCESS_DENIED"
    await stage.call("provider.close", {"lease": lease})
    assert (await stage.error("provider.search", asked))["message"] == CLOSED


async def test_an_audience_is_bound_to_session_and_lease_settled_before_each_check_and_ends_with_the_lease(
    stage: Stage,
) -> None:
    handle = {"handle": "h1", "kind": "conversation", "agentId": "spare"}
    authority = AS_SESSION | {"sessionId": "s-1", "audience": handle}
    lease = await stage.open(authority=authority)
    (bound,) = stage.audiences.bound
    bearer = bound.pop("bearer")
    assert bearer.principal.name == "gateway"
    assert bound == {
        "handle": "h1", "agent_id": "main", "session_key": "agent:main:chat", "session_id": "s-1",
        "lease": lease,
    }  # fmt: skip
    # What stands beside the handle is not trusted: the audience is what was minted under it.
    told = stage.provider.contexts[0].authority
    assert isinstance(told, Session)
    assert told.audience == OwnerPrivate(agent_id="main")
    settled = stage.audiences.settled
    await stage.call("provider.search", {"lease": lease, **CALLS["search"]})
    assert stage.audiences.settled == settled + 2
    await stage.call("provider.close", {"lease": lease})
    assert (stage.audiences.ended, stage.audiences.opened) == ([lease], [True])


@pytest.mark.parametrize(
    "audience",
    ["forged", "", {"kind": "owner-private", "agentId": "main"}, {"handle": 7}, 7, None, ["h1"]],
)
async def test_an_audience_that_this_process_did_not_mint_opens_nothing(stage: Stage, audience: Any) -> None:
    asked = {"agentId": "main", "authority": AS_SESSION | {"audience": audience}}
    error = await stage.error("provider.open", asked)
    assert error["message"] == "memory provider requires a host-minted memory audience"
    assert (stage.provider.opened, len(stage.leases)) == (0, 0)


@pytest.mark.parametrize(
    ("audience", "authority"),
    [
        (OwnerPrivate(agent_id="spare"), AS_SESSION),
        (Conversation(agent_id="main", session_key="agent:spare:x", session_id="s"), AS_SESSION),
        (None, AS_SESSION | {"sessionKey": "agent:spare:chat"}),
        (None, AS_SESSION | {"sessionKey": "Agent:SPARE:chat"}),
        (None, AS_SESSION | {"sessionKey": "agent::chat"}),
        (
            None,
            AS_SESSION
            | {
                "conversationRecall": {
                    "anchorSessionKey": "agent:spare:chat",
                    "scope": "same-agent-private",
                    "corpus": "sessions",
                }
            },
        ),
    ],
)
async def test_an_agent_that_the_token_does_not_list_is_unknown_wherever_it_is_named(
    stage: Stage, audience: Any, authority: dict[str, Any]
) -> None:
    if audience is not None:
        stage.audiences.known["h2"] = audience
        authority = authority | {"audience": "h2"}
    asked = {"agentId": "main", "authority": authority}
    error = await stage.error("provider.open", asked, token=OTHER_HOST)
    assert (error["code"], error["message"]) == ("INVALID_REQUEST", "unknown agentId")
    assert stage.provider.opened == 0
    other = {"agentId": "spare", "authority": AS_OPERATOR}
    assert (await stage.error("provider.open", other, token=OTHER_HOST))["message"] == "unknown agentId"


async def test_leases_are_bounded_by_token_and_in_all_and_room_comes_back() -> None:
    async with staged(most_per_token=2, most=3) as stage:
        first, _ = await stage.open(), await stage.open()
        asked = {"agentId": "main", "authority": AS_OPERATOR}
        status, frame = await stage.post("provider.open", asked)
        assert (status, frame["error"]["details"]["code"]) == (503, "OVERLOADED")
        assert frame["error"]["retryable"] is True
        await stage.open(token=OTHER_HOST)
        assert (await stage.error("provider.open", asked, token=OTHER_HOST))["retryable"] is True
        await stage.call("provider.close", {"lease": first})
        await stage.open()
        stage.now += IDLE_SECONDS
        await stage.open()
        assert len(stage.leases) == 1


async def test_a_host_that_is_cut_off_while_a_provider_opens_leaves_no_open_handle(
    stage: Stage, held: asyncio.Event, eventually: Eventually
) -> None:
    async def hang() -> None:
        await held.wait()

    for act in (hang, None):
        if act is not None:
            stage.provider.on_open = act
        else:

            async def revoke() -> None:
                stage.tokens[HOST] = Principal(name="somebody", role="host", scopes=READ)

            stage.provider.on_open = revoke
        opening = asyncio.create_task(stage.open())
        if act is not None:
            await eventually(lambda: _true(len(stage.provider.contexts) == 1))
            opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await eventually(lambda: _true(stage.provider.opened == stage.provider.closed))
        assert len(stage.leases) == 0
        await eventually(lambda: _true(len(stage.audiences.ended) == len(stage.provider.contexts)))
        assert not any(stage.audiences.opened)


async def test_a_transient_gap_in_the_session_rows_is_told_and_passes(stage: Stage) -> None:
    async def pending() -> None:
        raise AccessDenied("memory audience currency is unavailable; retry the operation")

    async def settled() -> None:
        return

    lease = await stage.open(authority=AS_SESSION | {"audience": "h1"})
    stage.audiences.on_settle = pending
    error = await stage.error("provider.search", {"lease": lease, **CALLS["search"]})
    assert error["message"] == "memory audience currency is unavailable; retry the operation"
    assert stage.provider.calls == []
    stage.audiences.on_settle = settled
    assert await stage.call("provider.search", {"lease": lease, **CALLS["search"]})


async def test_a_cursors_caller_is_the_same_under_a_new_lease_and_another_in_all_else(stage: Stage) -> None:
    async def identity(token: str = HOST, **authority: Any) -> str:
        await stage.open(authority=authority, token=token)
        return stage.provider.contexts[-1].identity

    stage.audiences.known["h2"] = OwnerPrivate(agent_id="main")
    stage.audiences.known["h3"] = OwnerPrivate(agent_id="spare")
    mine = await identity(**AS_SESSION, audience="h1")
    assert mine == await identity(**AS_SESSION, audience="h2")
    others = [
        await identity(OTHER_HOST, **AS_SESSION, audience="h1"),
        await identity(**AS_SESSION, audience="h3"),
        await identity(**AS_SESSION),
        await identity(**AS_SESSION | {"sandboxed": True}),
        await identity(**AS_SESSION, sessionId="s"),
        await identity(**AS_SESSION | {"sessionKey": "agent:main:other"}),
        await identity(**AS_OPERATOR),
        await identity(kind="host", operation="status"),
        await identity(kind="host", operation="refresh"),
    ]
    assert len({mine, *others}) == 1 + len(others)


async def test_an_operator_may_not_call_host_methods(stage: Stage) -> None:
    status, frame = await stage.post("provider.open", {}, token=OPERATOR)
    assert (status, frame["error"]["code"]) == (403, "FORBIDDEN")
    assert frame["error"]["message"] == "unauthorized role: operator"


@pytest.mark.parametrize("rounds", [50, pytest.param(1000, marks=pytest.mark.slow)])
async def test_rounds_of_open_search_and_close_leave_no_task_file_or_lease(
    rounds: int, eventually: Eventually
) -> None:
    async with staged() as stage:
        await stage.open()
        tasks, files = len(asyncio.all_tasks()), descriptors()
        for _ in range(rounds):
            lease = await stage.open(authority=AS_SESSION | {"audience": "h1"})
            await stage.call("provider.search", {"lease": lease, **CALLS["search"]})
            await stage.call("provider.close", {"lease": lease})
        assert (len(stage.leases), stage.provider.opened - stage.provider.closed) == (1, 1)
        assert len(stage.audiences.ended) == rounds
        await eventually(lambda: _true(len(asyncio.all_tasks()) <= tasks and descriptors() <= files))


async def test_a_search_whose_client_hangs_up_is_cancelled_and_holds_its_lease_no_longer(
    stage: Stage, held: asyncio.Event, eventually: Eventually
) -> None:
    async def hang() -> None:
        await held.wait()

    lease = await stage.open()
    tasks, files = len(asyncio.all_tasks()), descriptors()
    stage.provider.act = hang
    for method, params, token in (
        ("provider.search", {"lease": lease, **CALLS["search"]}, HOST),
        ("memory.search", {"version": 2, "query": "x"}, OPERATOR),
    ):
        async with aiohttp.ClientSession() as stage.http:
            calling = asyncio.create_task(stage.post(method, params, token=token))
            await eventually(lambda: _true(stage.provider.running == 1))
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
        await eventually(lambda: _true(stage.provider.running == 0))
    assert stage.provider.cancelled == 2
    # The handle of the operator's call is closed, the lease is idle and can expire.
    await eventually(lambda: _true(stage.provider.opened - stage.provider.closed == 1))
    stage.now += IDLE_SECONDS
    stage.leases.sweep()
    assert len(stage.leases) == 0
    await eventually(lambda: _true(len(asyncio.all_tasks()) <= tasks and descriptors() <= files))


async def _true(holds: bool) -> bool:
    return holds


async def test_health_waits_for_no_row_and_is_one_word_for_whose_audience_does_not_hold(stage: Stage) -> None:
    stage.provider.told = Health(status="degraded", message="why", details={"files": 3})
    lease = await stage.open(authority=AS_SESSION | {"audience": {"handle": "h1"}})
    assert (await stage.call("provider.health", {"lease": lease}))["details"] == {"files": 3}
    stage.audiences.settled = 0
    stage.audiences.refusal = "memory audience currency is unavailable; retry the operation"
    word = {"status": "degraded", "instance": "this-process"}
    assert await stage.call("provider.health", {"lease": lease}) == word
    stage.audiences.refusal = None

    async def lapse() -> None:
        stage.audiences.refusal = "memory audience is no longer current"

    stage.provider.act = lapse
    assert await stage.call("provider.health", {"lease": lease}) == word
    assert stage.audiences.settled == 0

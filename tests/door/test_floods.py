"""Heads and bodies without end, and callers that are gone: each is ended within its bound."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Any

import pytest
from door_sockets import HEALTH, Socket, post

from sidecar.api import body
from sidecar.api.body import MOST_BYTES
from sidecar.api.server import LARGEST_HEADER

ENOUGH = 8 * MOST_BYTES
"""A sender that came so far was not stopped."""


async def pour(caller: Socket, head: bytes, more: bytes) -> tuple[int, tuple[int, str] | None]:
    """Send the head, and more of the same until it is answered or `ENOUGH`; how much went out, the answer.

    None stands for a reset that came before the answer could be read.
    """
    answer = asyncio.create_task(answer_of(caller))
    caller.send(head)
    sent = len(head)
    with contextlib.suppress(ConnectionError):
        while sent < ENOUGH and not answer.done():
            caller.send(more)
            await caller.writer.drain()
            sent += len(more)
            # Whoever pours must see the answer as it comes, which takes a turn of the loop.
            await asyncio.sleep(0)
    return sent, await answer


async def answer_of(caller: Socket) -> tuple[int, str] | None:
    """Status and code of an answer; None where there was none."""
    try:
        status, _, told = await caller.answer()
    except (ConnectionError, asyncio.IncompleteReadError):
        return None
    return status, (told.get("error") or told)["code"]


@pytest.mark.parametrize(
    ("head", "more", "most"),
    [
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"X-Filler: yyyyyyyy\r\n" * 64, 64),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Endless: ", b"y" * 1024, 64),
        (b"GET /", b"y" * 1024, 64),
    ],
    ids=["headers-without-end", "a-header-without-end", "a-target-without-end"],
)
async def test_a_head_without_end_is_refused_after_some_kilobytes_and_counted_once(
    doorway: Any, head: bytes, more: bytes, most: int
) -> None:
    door = await doorway()
    caller = await Socket.open(door.port)
    sent, answer = await pour(caller, head, more)
    assert sent < most * LARGEST_HEADER
    assert answer in ((400, "INVALID_REQUEST"), None)
    await door.refused("malformed", 1)
    other = await Socket.open(door.port)
    other.send(HEALTH)
    assert (await other.answer())[0] == 200
    for connection in (caller, other):
        connection.close()


async def test_a_chunked_body_without_end_is_refused_at_the_bound(doorway: Any) -> None:
    door = await doorway()
    caller = await Socket.open(door.port)
    head = post(door.token, "/rpc/test.wait", b"", "Transfer-Encoding: chunked")
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    sent, answer = await pour(caller, head.replace(b"Content-Length: 0\r\n", b""), chunk)
    assert sent < ENOUGH
    assert answer in ((413, "INVALID_REQUEST"), None)
    await door.refused("size", 1)
    caller.close()


@pytest.mark.parametrize("drips", [True, False], ids=["a-byte-at-a-time", "shorter-than-its-length"])
async def test_a_body_that_does_not_arrive_is_refused_in_its_time(
    doorway: Any, monkeypatch: pytest.MonkeyPatch, drips: bool
) -> None:
    monkeypatch.setattr(body, "READ_SECONDS", 0.3)
    door = await doorway()
    caller = await Socket.open(door.port)
    caller.send(post(door.token, "/rpc/test.wait", b"{", length=1000))
    over = asyncio.Event()

    async def drip() -> None:
        while drips and not over.is_set():
            caller.send(b" ")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), 0.02)

    dripping = asyncio.create_task(drip())
    assert await answer_of(caller) == (408, "INVALID_REQUEST")
    over.set()
    await dripping
    await door.refused("slow-body", 1)
    caller.close()


async def test_a_body_longer_than_its_length_is_one_answer_and_then_no_request(doorway: Any) -> None:
    door = await doorway()
    door.let_go.set()
    caller = await Socket.open(door.port)
    caller.send(post(door.token, "/rpc/test.wait", b'{"a":1}', length=2))
    assert (await caller.answer())[0] == 400
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        assert (await caller.answer())[0] == 400
    assert await caller.ended() == b""
    caller.close()


async def test_a_caller_that_closes_its_half_counts_as_gone_and_its_work_is_given_up(doorway: Any) -> None:
    """A caller who left and one who only says no more look alike until something is written."""
    door = await doorway()
    caller = await Socket.open(door.port)
    caller.send(post(door.token, "/rpc/test.wait", b"{}"))
    await door.in_work(1)
    caller.writer.write_eof()
    await door.in_work(0)
    assert await caller.ended() == b""
    caller.close()


async def test_callers_that_vanish_in_the_middle_leave_nothing_in_work_and_no_room_taken(
    doorway: Any, eventually: Any
) -> None:
    door = await doorway(over_tcp=8)
    for _ in range(4):
        callers = [await Socket.open(door.port) for _ in range(8)]
        for caller in callers:
            caller.send(post(door.token, "/rpc/test.wait", b"{}"))
        await door.in_work(8)
        for caller in callers:
            raw = caller.writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            caller.close()  # a reset, as from a machine that lost its memory of us
        await door.in_work(0)

    async def served() -> bool:
        caller = await Socket.open(door.port)
        caller.send(HEALTH)
        try:
            return (await caller.answer())[0] == 200
        except ConnectionError:
            return False
        finally:
            caller.close()

    await eventually(served)

"""Crowds, drips and silence at the door: nobody is kept out by those who ask nothing."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

from door_sockets import HEALTH, Socket, post

BUSY = "The server is busy. Please try again in a moment."
GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"hello\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nBad\x00Name: 1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nLong: " + b"x" * 40_000 + b"\r\n\r\n",
    b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(2000)) + b"\r\n",
]


async def test_what_is_not_http_is_answered_in_the_error_shape_and_counted(doorway: Any) -> None:
    door = await doorway()
    for number, garbage in enumerate(GARBAGE):
        caller = await Socket.open(door.port)
        caller.send(garbage)
        status, headers, body = await caller.answer()
        assert (status, body["code"]) == (400, "INVALID_REQUEST"), garbage[:60]
        assert headers["content-type"].startswith("application/json")
        assert body["message"] in ("malformed HTTP request", "the request line or a header is too long")
        assert await caller.ended() == b""
        assert door.counters.refusals["malformed"] == number + 1
        caller.close()


async def test_a_broken_chunk_in_a_body_is_the_callers_mistake(doorway: Any) -> None:
    door = await doorway()
    caller = await Socket.open(door.port)
    head = post(door.token, "/rpc/test.wait", b"", "Transfer-Encoding: chunked")
    caller.send(head.replace(b"Content-Length: 0\r\n", b"") + b"5\r\n{}\r\nnonsense\r\n\r\n")
    status, _, body = await caller.answer()
    assert (status, (body.get("error") or body)["code"]) == (400, "INVALID_REQUEST")
    caller.close()


async def test_silent_connections_beyond_the_bound_give_way_and_health_answers_at_once(doorway: Any) -> None:
    door = await doorway(over_tcp=40)
    silent = [await Socket.open(door.port) for _ in range(200)]
    caller = await Socket.open(door.port)
    caller.send(HEALTH)
    assert (await caller.answer())[0] == 200
    await door.refused("idle", 200 + 1 - 40)
    assert await silent[0].ended() == b""
    for connection in (*silent, caller):
        connection.close()


async def test_a_request_in_work_is_never_cut_for_a_newcomer_who_is_told_to_come_back(doorway: Any) -> None:
    door = await doorway(over_tcp=3)
    workers = [await Socket.open(door.port) for _ in range(3)]
    for worker in workers:
        worker.send(post(door.token, "/rpc/test.wait", b"{}"))
    await door.in_work(3)
    newcomer = await Socket.open(door.port)
    status, headers, body = await newcomer.answer()
    assert (status, headers["retry-after"], body) == (
        503,
        "1",
        {
            "code": "UNAVAILABLE",
            "message": BUSY,
            "details": {"code": "OVERLOADED"},
            "retryable": True,
            "retryAfterMs": 1000,
        },
    )
    assert await newcomer.ended() == b""
    door.let_go.set()
    for worker in workers:
        assert (await worker.answer())[0] == 200
    for connection in (*workers, newcomer):
        connection.close()


async def test_a_connection_that_used_a_token_outlives_those_that_never_did(doorway: Any) -> None:
    door = await doorway(over_tcp=5)
    known = await Socket.open(door.port)
    door.let_go.set()
    known.send(post(door.token, "/rpc/test.wait", b"{}"))
    assert (await known.answer())[0] == 200
    crowd = [await Socket.open(door.port) for _ in range(30)]
    await door.refused("idle", 26)
    known.send(post(door.token, "/rpc/test.wait", b"{}"))
    assert (await known.answer())[0] == 200
    for connection in (*crowd, known):
        connection.close()


async def test_a_head_that_drips_is_ended_in_time_and_silence_before_the_first_request_too(
    doorway: Any,
) -> None:
    door = await doorway(head_seconds=0.3)
    silent, dripping = await Socket.open(door.port), await Socket.open(door.port)

    async def drip() -> None:
        for byte in HEALTH[:-1]:
            dripping.send(bytes([byte]))
            await asyncio.sleep(0.02)

    dripper = asyncio.create_task(drip())
    status, _, body = await dripping.answer()
    assert (status, body["code"]) == (408, "INVALID_REQUEST")
    assert await silent.ended() == b""
    assert door.counters.refusals["slow-head"] == 1
    dripper.cancel()
    await asyncio.gather(dripper, return_exceptions=True)
    silent.close()
    dripping.close()


async def test_a_reader_that_takes_no_answer_is_cut_off(doorway: Any) -> None:
    door = await doorway(send_seconds=0.3)
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", door.port))
    await asyncio.get_running_loop().sock_sendall(plain, post(door.token, "/rpc/test.large", b"{}"))
    await door.refused("slow-reader", 1)
    plain.close()


async def test_a_call_that_a_stop_cannot_wait_for_is_told_to_come_back(doorway: Any) -> None:
    door = await doorway()
    early, late = await Socket.open(door.port), await Socket.open(door.port)
    early.send(post(door.token, "/rpc/test.wait", b"{}"))
    await door.in_work(1)
    door.dispatcher.wind_down(0.05)
    late.send(post(door.token, "/rpc/test.wait", b"{}"))
    for connection in (early, late):
        status, _, body = await connection.answer()
        assert status == 503
        assert (body["error"]["retryable"], body["error"]["retryAfterMs"]) == (True, 2000)
        connection.close()
    assert door.dispatcher.in_work == 0


async def test_calls_beyond_the_bound_are_told_to_come_back_while_health_stays_fast(doorway: Any) -> None:
    door = await doorway(most_in_work=2)
    workers = [await Socket.open(door.port) for _ in range(2)]
    for worker in workers:
        worker.send(post(door.token, "/rpc/test.wait", b"{}"))
    await door.in_work(2)
    late = await Socket.open(door.port)
    frame = {"type": "req", "id": "late", "method": "test.wait"}
    late.send(post(door.token, "/rpc", json.dumps(frame).encode()))
    status, headers, body = await late.answer()
    assert (status, headers["retry-after"], body["id"]) == (503, "1", "late")
    assert body["error"]["details"]["code"] == "OVERLOADED"
    assert (body["error"]["retryable"], body["error"]["retryAfterMs"]) == (True, 1000)
    assert door.counters.refusals["overloaded"] == 1
    late.send(HEALTH)
    assert (await late.answer())[0] == 200
    assert door.let_go.is_set() is False
    door.let_go.set()
    for worker in workers:
        assert (await worker.answer())[0] == 200
    late.send(post(door.token, "/rpc/test.wait", b"{}"))
    assert (await late.answer())[0] == 200
    for connection in (*workers, late):
        connection.close()


async def test_a_stop_answers_what_was_accepted_even_where_the_body_is_still_arriving(
    doorway: Any, eventually: Any
) -> None:
    door = await doorway()
    body = json.dumps({"pad": "x" * 1000}).encode()
    waiting, sending = await Socket.open(door.port), await Socket.open(door.port)
    waiting.send(post(door.token, "/rpc/test.wait", body))
    await door.in_work(1)
    sending.send(post(door.token, "/rpc/test.wait", b"", "Expect: 100-continue", length=len(body)))
    assert (await sending.answer())[0] == 100
    sending.send(body[:100])
    stopping = asyncio.create_task(door.server.stop())

    async def closed() -> bool:
        try:
            (await Socket.open(door.port)).close()
        except ConnectionRefusedError:
            return True
        return False

    await eventually(closed)
    sending.send(body[100:])
    await door.in_work(2)
    door.let_go.set()
    for caller in (waiting, sending):
        status, headers, frame = await caller.answer()
        assert (status, frame["payload"]) == (200, {"done": True})
        assert headers["connection"] == "close"
        assert await caller.ended() == b""
        caller.close()
    await asyncio.wait_for(stopping, 20)


async def test_a_caller_that_is_refused_is_never_asked_for_its_body(doorway: Any) -> None:
    door = await doorway()
    caller = await Socket.open(door.port)
    caller.send(post("wrong", "/rpc/test.wait", b"", "Expect: 100-continue", length=100))
    assert (await caller.answer())[0] == 401
    caller.close()


async def test_bodies_that_never_end_are_held_within_bounds(doorway: Any, eventually: Any) -> None:
    door = await doorway()
    door.let_go.set()
    hoarders = [await Socket.open(door.port) for _ in range(64)]
    for hoarder in hoarders:
        hoarder.send(post(door.token, "/rpc/test.wait", b"x" * (2**20 - 1), length=2**20))
    probe = await Socket.open(door.port)

    async def full() -> bool:
        probe.send(post(door.token, "/rpc/test.wait", json.dumps({"pad": "x" * 200}).encode()))
        status, _, body = await probe.answer()
        assert status == 200 or body["error"]["details"]["code"] == "OVERLOADED"
        return bool(status == 503)

    await eventually(full)
    for hoarder in hoarders:
        hoarder.close()

    async def empty() -> bool:
        return not await full()

    await eventually(empty)
    probe.close()


async def test_who_comes_in_while_the_service_stops_is_not_left_hanging(doorway: Any) -> None:
    door = await doorway()
    callers = [await Socket.open(door.port) for _ in range(5)]
    stopping = asyncio.create_task(door.server.stop())
    # The kernel takes these in although the loop has not: the listener closes with the task's first step.
    late = [socket.create_connection(("127.0.0.1", door.port), timeout=2) for _ in range(5)]
    await stopping
    for caller in callers:
        assert await caller.ended() == b""
        caller.close()
    for caller in late:
        assert not await asyncio.to_thread(_left_open, caller)
        caller.close()


def _left_open(caller: socket.socket) -> bool:
    """Whether nothing ends a connection within its time-out."""
    try:
        while caller.recv(4096):
            pass
    except ConnectionError:
        return False
    except TimeoutError:
        return True
    return False

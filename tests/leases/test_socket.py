"""`GET /ws`: who may come in, many calls at once, and whatever a client sends is answered (spec §4)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType, WSServerHandshakeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lease_stage import HOST, OPERATOR, READ, Stage, ask, descriptors, staged

from sidecar.api.websocket import SocketLimits
from sidecar.domain.authority import Principal

Eventually = Callable[..., Awaitable[float]]
Socket = aiohttp.ClientWebSocketResponse
BUSY = "The server is busy. Please try again in a moment."
REVOKED = "Memory request authority is no longer active"
SEARCH = {"version": 2, "query": "x"}


def request(id_: str, method: str = "memory.search", params: object = SEARCH, **more: Any) -> dict[str, Any]:
    return {"type": "req", "id": id_, "method": method, "params": params, **more}


async def closed_with(socket: Socket) -> int | None:
    message = await socket.receive(timeout=20)
    assert message.type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.CLOSING), message
    return socket.close_code


async def works(socket: Socket, id_: str) -> bool:
    frame = await ask(socket, "memory.status", {}, id_=id_)
    return bool(frame["id"] == id_ and frame["ok"])


async def _true(holds: bool) -> bool:
    return holds


async def test_connect_by_token_says_who_one_is_and_what_one_may_call(stage: Stage) -> None:
    async with stage.socket(None) as socket:
        frame = await ask(socket, "connect", {"auth": {"token": OPERATOR}})
        payload = frame["payload"]
        assert (payload["role"], payload["scopes"]) == ("operator", ["operator.read"])
        assert {"memory.search", "memory.get", "memory.status", "rpc.cancel"} <= set(payload["methods"])
        assert not [name for name in payload["methods"] if name.startswith("provider.")]
        await ask(socket, "memory.status", {}, id_="2")
        assert stage.provider.contexts[-1].authority.connection_id == payload["connId"]  # type: ignore[union-attr]
    async with stage.socket(HOST) as socket:
        again = (await ask(socket, "connect", {}))["payload"]
        assert again["role"] == "host"
        assert {"provider.open", "provider.close"} <= set(again["methods"])
        assert again["connId"] != payload["connId"]
        other = await ask(socket, "connect", {"auth": {"token": OPERATOR}}, id_="2")
        assert other["error"]["details"]["code"] == "AUTH_TOKEN_MISMATCH"
        assert await works(socket, "3")


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("connect", {"auth": {"token": "wrong-secret-0123456789"}}, "AUTH_TOKEN_MISMATCH"),
        ("connect", {}, "AUTH_TOKEN_MISSING"),
        ("connect", {"auth": HOST}, "AUTH_TOKEN_MISSING"),
        ("memory.search", SEARCH, "AUTH_TOKEN_MISSING"),
        ("rpc.cancel", {"id": "1"}, "AUTH_TOKEN_MISSING"),
    ],
)
async def test_without_a_good_connect_first_the_socket_is_refused_and_closed(
    stage: Stage, method: str, params: object, code: str
) -> None:
    async with stage.socket(None) as socket:
        frame = await ask(socket, method, params)
        assert (frame["error"]["code"], frame["error"]["details"]["code"]) == ("INVALID_REQUEST", code)
        assert await closed_with(socket) == 1008
    assert stage.provider.calls == []


async def test_a_wrong_token_in_the_header_a_foreign_host_or_origin_is_refused_before_the_upgrade(
    stage: Stage,
) -> None:
    for headers, status in (
        ({"Authorization": "Bearer wrong-secret-0123456789"}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null", "Authorization": f"Bearer {OPERATOR}"}, 403),
    ):
        with pytest.raises(WSServerHandshakeError) as caught:
            await stage.http.ws_connect(f"{stage.url}/ws", headers=headers)
        assert caught.value.status == status


async def test_what_is_no_upgrade_is_told_so(stage: Stage) -> None:
    async with stage.http.get(f"{stage.url}/ws") as response:
        assert (response.status, (await response.json())["code"]) == (400, "INVALID_REQUEST")
    async with stage.http.post(f"{stage.url}/ws") as response:
        assert response.status == 401


async def test_who_does_not_connect_in_time_is_shown_out(eventually: Eventually) -> None:
    async with staged(limits=SocketLimits(connect_seconds=0.1)) as stage, stage.socket(None) as socket:
        assert await closed_with(socket) == 1008
        await eventually(lambda: _true(len(stage.sockets) == 0))


async def test_sockets_before_connect_and_in_all_are_bounded_and_room_comes_back(
    eventually: Eventually,
) -> None:
    async with staged(limits=SocketLimits(most_unproven=2, most_sockets=3)) as stage:
        waiting = [await stage.http.ws_connect(f"{stage.url}/ws") for _ in range(2)]
        async with stage.http.get(
            f"{stage.url}/ws",
            headers={"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                     "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="},
        ) as refused:  # fmt: skip
            body = await refused.json()
            assert (refused.status, body["message"], body["retryable"]) == (503, BUSY, True)
            assert "Retry-After" in refused.headers
        async with stage.socket(HOST) as proven:
            assert await works(proven, "1")
            with pytest.raises(WSServerHandshakeError):
                await stage.http.ws_connect(
                    f"{stage.url}/ws", headers={"Authorization": f"Bearer {OPERATOR}"}
                )
        assert (await ask(waiting[0], "connect", {"auth": {"token": HOST}}))["ok"]
        for socket in waiting:
            await socket.close()
        await eventually(lambda: _true(len(stage.sockets) == 0))
        async with stage.socket(None) as socket:
            assert (await ask(socket, "connect", {"auth": {"token": HOST}}))["ok"]


async def test_a_large_frame_before_connect_is_refused_and_closed(stage: Stage) -> None:
    async with stage.socket(None) as socket:
        params = {"auth": {"token": HOST}, "pad": "x" * 4096}
        frame = await ask(socket, "connect", params)
        assert frame["error"]["message"] == "invalid request frame: over 4096 bytes"
        assert await closed_with(socket) == 1009


async def test_calls_run_at_once_and_are_answered_as_they_finish(
    stage: Stage, held: asyncio.Event, eventually: Eventually
) -> None:
    async with stage.socket() as socket:

        async def hang() -> None:
            await held.wait()

        free, stage.provider.act = stage.provider.act, hang
        await socket.send_json(request("slow"))
        await eventually(lambda: _true(stage.provider.running == 1))
        stage.provider.act = free
        assert await works(socket, "quick")
        held.set()
        assert (await socket.receive_json(timeout=20))["id"] == "slow"


async def test_the_65th_call_in_flight_is_told_to_come_again_and_the_64_are_answered(
    stage: Stage, held: asyncio.Event, eventually: Eventually
) -> None:
    async def hang() -> None:
        await held.wait()

    stage.provider.act = hang
    async with stage.socket() as socket:
        for number in range(65):
            await socket.send_json(request(str(number)))
        refused = await socket.receive_json(timeout=20)
        assert refused["id"] == "64"
        assert refused["error"]["code"] == "UNAVAILABLE"
        assert (refused["error"]["message"], refused["error"]["retryable"]) == (BUSY, True)
        assert refused["error"]["details"]["code"] == "OVERLOADED"
        await eventually(lambda: _true(stage.provider.running == 64))
        held.set()
        answered = [await socket.receive_json(timeout=20) for _ in range(64)]
        assert {frame["id"] for frame in answered} == {str(number) for number in range(64)}
        assert all(frame["ok"] for frame in answered)
        assert await works(socket, "after")


async def test_cancel_ends_one_call_and_no_other(
    stage: Stage, held: asyncio.Event, eventually: Eventually
) -> None:
    async def hang() -> None:
        await held.wait()

    stage.provider.act = hang
    async with stage.socket() as socket:
        await socket.send_json(request("a"))
        await socket.send_json(request("b"))
        await eventually(lambda: _true(stage.provider.running == 2))
        await socket.send_json(request("c", "rpc.cancel", {"id": "a"}))
        frames = {frame["id"]: frame for frame in [await socket.receive_json(timeout=20) for _ in range(2)]}
        assert frames["c"]["payload"] == {"cancelled": True}
        assert (frames["a"]["error"]["code"], frames["a"]["error"]["message"]) == ("UNAVAILABLE", REVOKED)
        assert (stage.provider.cancelled, stage.provider.running) == (1, 1)
        for id_, asked in (("d", "a"), ("e", "never")):
            again = await ask(socket, "rpc.cancel", {"id": asked}, id_=id_)
            assert again["payload"] == {"cancelled": False}
        wrong = await ask(socket, "rpc.cancel", {}, id_="f")
        assert wrong["error"]["message"] == "id must be a non-empty string"
        held.set()
        assert (await socket.receive_json(timeout=20))["id"] == "b"
        assert stage.provider.opened == stage.provider.closed == 2


async def test_a_call_cancelled_in_the_same_breath_still_has_one_answer(stage: Stage) -> None:
    async with stage.socket() as socket:
        for number in range(50):
            await socket.send_json(request(f"a{number}"))
            await socket.send_json(request(f"c{number}", "rpc.cancel", {"id": f"a{number}"}))
            answers = {(await socket.receive_json(timeout=20))["id"] for _ in range(2)}
            assert answers == {f"a{number}", f"c{number}"}


async def test_an_id_is_good_for_one_request_on_a_socket(stage: Stage, held: asyncio.Event) -> None:
    async def hang() -> None:
        await held.wait()

    stage.provider.act = hang
    async with stage.socket() as socket:
        await socket.send_json(request("a"))
        for _ in range(2):
            frame = await ask(socket, "memory.search", SEARCH, id_="a")
            assert frame["id"] == "a"
            assert frame["error"]["code"] == "INVALID_REQUEST"
            assert "id was already used" in frame["error"]["message"]
            held.set()
            if stage.provider.act is hang:
                assert (await socket.receive_json(timeout=20))["ok"]
                stage.provider.act = _nothing
        assert await works(socket, "b")
    assert len(stage.provider.calls) == 2


async def _nothing() -> None:
    return


MALFORMED: list[str | bytes] = [
    "", "nonsense", "[]", "null", "{}", '{"type":"req"}', '{"type":"req","id":"","method":"m"}',
    '{"type":"event","event":"x"}', json.dumps(request("x", more=1)), '{"a":' * 5000 + "1" + "}" * 5000,
    '{"type":"req","id":"x","method":"memory.search","params":{"query":NaN}}',
    '{"type":"req","id":"x","method":"memory.search","params":{"query":"a","minScore":1e999}}',
    r'{"type":"req","id":"x","method":"\ud800","params":{}}', b"\x00\xff", b'{"type":"req"}',
    "x" * (1024 * 1024 + 1),
]  # fmt: skip


async def test_malformed_binary_and_oversized_frames_are_answered_and_survived(stage: Stage) -> None:
    async with stage.socket() as socket:
        for number, junk in enumerate(MALFORMED):
            await (socket.send_bytes(junk) if isinstance(junk, bytes) else socket.send_str(junk))
            frame = await socket.receive_json(timeout=20)
            assert (frame["ok"], frame["error"]["code"]) == (False, "INVALID_REQUEST"), junk[:80]
            assert frame["id"] in ("invalid", "x")
            assert await works(socket, f"w{number}")
        await socket.send_frame(b'{"type":"req","id":"\xff"}', WSMsgType.TEXT)
        assert (await socket.receive_json(timeout=20))["error"]["code"] == "INVALID_REQUEST"
        assert await works(socket, "last")
    async with stage.socket(None) as socket:
        for junk in MALFORMED[:8]:
            await socket.send_str(str(junk))
            assert (await socket.receive_json(timeout=20))["error"]["code"] == "INVALID_REQUEST"
        assert (await ask(socket, "connect", {"auth": {"token": HOST}}))["ok"]


async def test_a_message_without_end_closes_its_socket_and_no_other(stage: Stage) -> None:
    async with stage.socket() as socket, stage.socket() as other:
        await socket.send_str("x" * (3 * 1024 * 1024))
        assert await closed_with(socket) == 1009
        assert await works(other, "1")


async def test_a_client_that_goes_away_leaves_no_call_task_or_file(
    stage: Stage, held: asyncio.Event, eventually: Eventually
) -> None:
    async def hang() -> None:
        await held.wait()

    await stage.call("memory.status", {})
    tasks, files = len(asyncio.all_tasks()), descriptors()
    stage.provider.act = hang
    for abrupt in (True, False):
        async with stage.socket() as socket:
            for number in range(8):
                await socket.send_json(request(str(number)))
            await eventually(lambda: _true(stage.provider.running == 8))
            if abrupt:
                transport = socket._response.connection.transport  # type: ignore[union-attr]
                transport.abort()
        await eventually(lambda: _true(stage.provider.running == 0 and len(stage.sockets) == 0))
    await eventually(lambda: _true(stage.provider.opened == stage.provider.closed))
    await eventually(lambda: _true(len(asyncio.all_tasks()) <= tasks and descriptors() <= files))


async def test_a_rotated_secret_closes_its_sockets_and_discards_what_they_were_obtaining(
    stage: Stage, held: asyncio.Event, eventually: Eventually
) -> None:
    async def hang() -> None:
        await held.wait()

    async with stage.socket(HOST) as socket, stage.socket(OPERATOR) as other:
        stage.tokens[HOST] = Principal(name="gateway", role="operator", scopes=READ)
        frame = await ask(socket, "memory.search", SEARCH)
        assert frame["error"]["message"] == REVOKED
        stage.provider.act = hang
        await socket.send_json(request("2"))
        await stage.sockets.end_revoked()
        assert await closed_with(socket) == 1008
        held.set()
        assert await works(other, "1")
        await eventually(lambda: _true(len(stage.sockets) == 1 and stage.provider.running == 0))


async def test_a_server_that_stops_answers_what_it_has_taken_in_and_then_says_goodbye(
    stage: Stage, held: asyncio.Event, eventually: Eventually
) -> None:
    async def hang() -> None:
        await held.wait()

    stage.provider.act = hang
    async with stage.socket() as socket, stage.socket() as idle, stage.socket(None) as waiting:
        await socket.send_json(request("a"))
        await eventually(lambda: _true(stage.provider.running == 1))
        stopping = asyncio.create_task(stage.server.stop())
        assert await closed_with(idle) == 1001
        assert await closed_with(waiting) == 1001
        late = await ask(socket, "memory.search", SEARCH, id_="b")
        assert late["error"]["message"] == "gateway closing before request dispatch"
        assert late["error"]["retryable"] is True
        held.set()
        frame = await socket.receive_json(timeout=20)
        assert (frame["id"], frame["ok"]) == ("a", True)
        assert await closed_with(socket) == 1001
        await stopping
    assert len(stage.sockets) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(
    ["memory.search", "memory.get", "memory.status", "provider.open", "provider.search", "provider.get",
     "provider.candidates", "provider.close", "rpc.cancel", "connect", "nonsense", ""]
)  # fmt: skip
FRAMES = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["req", "res", 1]) | JSON,
            "id": st.text(max_size=4) | JSON,
            "method": METHODS | JSON,
            "params": st.dictionaries(
                st.sampled_from(
                    [
                        "query",
                        "version",
                        "lease",
                        "request",
                        "reference",
                        "authority",
                        "agentId",
                        "auth",
                        "id",
                    ]
                ),
                JSON,
                max_size=4,
            )
            | JSON,
            "traceparent": JSON,
        },
    ).map(lambda frame: json.dumps(frame).encode()),
    st.binary(max_size=60),
    JSON.map(lambda value: json.dumps(value).encode()),
)


async def _fuzzed(stage: Stage, messages: list[tuple[bytes, bool]]) -> None:
    """Each message has one answer, in the shape of the contract, and the socket still works after them."""
    async with stage.socket() as socket:
        for content, as_text in messages:
            await socket.send_frame(content, WSMsgType.TEXT if as_text else WSMsgType.BINARY)
        for _ in messages:
            frame = await socket.receive_json(timeout=20)
            assert frame["type"] == "res"
            if not frame["ok"]:
                assert frame["error"]["code"] in ("INVALID_REQUEST", "UNAVAILABLE", "FORBIDDEN")
                assert "its log says why" not in frame["error"]["message"]
        assert await works(socket, "the-last-one")


MESSAGES = st.lists(st.tuples(FRAMES, st.booleans() | st.just(True)), min_size=1, max_size=12)


@pytest.mark.parametrize("examples", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_whatever_is_sent_has_one_answer_each_and_the_socket_lives_on(examples: int) -> None:
    loop = asyncio.new_event_loop()
    entered = staged()
    stage = loop.run_until_complete(entered.__aenter__())

    @given(messages=MESSAGES)
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    def run(messages: list[tuple[bytes, bool]]) -> None:
        loop.run_until_complete(_fuzzed(stage, messages))

    try:
        run()
    finally:
        loop.run_until_complete(entered.__aexit__(None, None, None))
        loop.close()

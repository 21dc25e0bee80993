"""A host beside the real service: leases and sockets over real notes, rotation, cancellation, the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType

pytestmark = pytest.mark.slow

Eventually = Callable[..., Awaitable[float]]
AS_OPERATOR = {"kind": "operator", "scopes": ["operator.read"]}


async def host(service: Any, method: str, params: object) -> Any:
    """The payload of a call that the host makes and that must succeed."""
    status, frame = await service.post(f"/rpc/{method}", params, token=service.host_token)
    assert status == 200, frame
    return frame["payload"]


def descriptors(service: Any) -> int:
    return len(os.listdir(f"/proc/{service.process.pid}/fd"))  # noqa: PTH208


async def test_a_lease_finds_and_reads_what_the_operators_methods_do(example: Any) -> None:
    opened = await host(example, "provider.open", {"agentId": "main", "authority": AS_OPERATOR})
    lease = opened["lease"]
    assert opened["providerId"] == "memory-sidecar"
    page = await host(example, "provider.search", {"lease": lease, "request": {"query": "boiler"}})
    assert page["instance"] == opened["instance"]
    assert page["hits"] == (await example.search("boiler"))["hits"]
    asked = {"reference": page["hits"][0]["reference"]}
    read = await host(example, "provider.get", {"lease": lease, "request": asked})
    assert read["text"] == (await example.call("memory.get", asked))["text"]
    health = await host(example, "provider.health", {"lease": lease})
    assert health["details"]
    assert await host(example, "provider.close", {"lease": lease}) == {"instance": opened["instance"]}


DENIED: list[dict[str, Any]] = [
    {"kind": "operator", "scopes": []},
    {"kind": "host", "operation": "status"},
    {"kind": "session", "sessionKey": "agent:main:chat", "sandboxed": False},
    {"kind": "session", "sessionKey": "agent:main:chat", "sandboxed": True},
]


async def test_whom_the_policy_denies_gets_no_note_by_a_lease_and_health_without_details(
    example: Any,
) -> None:
    known = (await example.search("boiler"))["hits"][0]["reference"]
    for authority in DENIED:
        lease = (await host(example, "provider.open", {"agentId": "main", "authority": authority}))["lease"]
        page = await host(example, "provider.search", {"lease": lease, "request": {"query": "boiler"}})
        assert page["hits"] == []
        assert page["warning"].startswith("memory-sidecar: stored memories were not searched: ")
        asked = {"lease": lease, "request": {"reference": known}}
        status, frame = await example.post("/rpc/provider.get", asked, token=example.host_token)
        assert (status, frame["error"]["details"]["code"]) == (503, "ACCESS_DENIED")
        health = await host(example, "provider.health", {"lease": lease})
        assert set(health) == {"status", "instance"}


async def test_the_end_of_the_service_answers_sockets_and_closes_them(example: Any) -> None:
    async with aiohttp.ClientSession() as session:
        socket = await session.ws_connect(f"{example.url}/ws", headers=example.headers())
        idle = await session.ws_connect(f"{example.url}/ws")
        frame = {"type": "req", "method": "memory.search", "params": {"version": 2, "query": "boiler"}}
        for number in range(20):
            await socket.send_json(frame | {"id": str(number)})
        first = await socket.receive_json(timeout=20)
        example.process.terminate()
        answered = [first]
        while (message := await socket.receive(timeout=20)).type is WSMsgType.TEXT:
            answered.append(message.json())
        assert {item["id"] for item in answered} == {str(number) for number in range(20)}
        assert all(item["ok"] or item["error"]["retryable"] for item in answered)
        assert socket.close_code == 1001
        assert (await idle.receive(timeout=20)).type is WSMsgType.CLOSE


@pytest.mark.slow
async def test_a_secret_rotated_on_disk_ends_its_sockets_leases_and_audiences_without_a_restart(
    example: Any,
) -> None:
    lease = (await host(example, "provider.open", {"agentId": "main", "authority": AS_OPERATOR}))["lease"]
    vouched = {"kind": "owner-private", "agentId": "main", "sessionKey": "agent:main:main"}
    audience = (await host(example, "audience.admit", vouched))["audience"]
    async with aiohttp.ClientSession() as session:
        socket = await session.ws_connect(f"{example.url}/ws", headers=example.headers(example.host_token))
        other = await session.ws_connect(f"{example.url}/ws", headers=example.headers())
        path = example.state / "host.token"
        path.write_text("a-new-secret-of-the-host-0123456789\n")
        closed = await socket.receive(timeout=20)
        assert (closed.type, closed.data) == (WSMsgType.CLOSE, 1008)
        example.host_token = path.read_text().strip()
        status, frame = await example.post("/rpc/provider.health", {"lease": lease}, token=example.host_token)
        assert (status, frame["error"]["message"]) == (503, "memory provider handle is closed")
        authority = {"kind": "session", "sessionKey": "agent:main:main", "sandboxed": False}
        opening = {"agentId": "main", "authority": authority | {"audience": audience}}
        status, frame = await example.post("/rpc/provider.open", opening, token=example.host_token)
        assert frame["error"]["message"] == "memory provider requires a host-minted memory audience"
        await other.send_json({"type": "req", "id": "1", "method": "memory.status"})
        assert (await other.receive_json(timeout=20))["ok"]


class Rough:
    """A host with poor manners: it opens and closes much, and hangs up in the middle."""

    def __init__(self, service: Any) -> None:
        self._url = service.url
        self._headers = {**service.headers(service.host_token), "Content-Type": "application/json"}

    async def rounds(self, count: int) -> None:
        """Open, search and close."""
        async with aiohttp.ClientSession() as session:
            for _ in range(count):
                opened = {"agentId": "main", "authority": AS_OPERATOR}
                lease = (await self._call(session, "provider.open", opened))["lease"]
                asked = {"lease": lease, "request": {"query": "boiler"}}
                assert (await self._call(session, "provider.search", asked))["hits"]
                await self._call(session, "provider.close", {"lease": lease})

    async def cut_off(self, number: int) -> None:
        """Hang up somewhere between a search and its answer."""
        async with aiohttp.ClientSession() as session:
            asked = {"version": 2, "query": f"boiler {number}"}
            calling = asyncio.create_task(self._call(session, "memory.search", asked))
            await asyncio.sleep(0.0005 * (number % 8))
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)

    async def cut_off_on_a_socket(self, number: int) -> None:
        """Eight searches on a socket, one of them cancelled; every other time nobody waits for them."""
        async with aiohttp.ClientSession() as session:
            socket = await session.ws_connect(f"{self._url}/ws", headers=self._headers)
            search = {"type": "req", "method": "memory.search", "params": {"version": 2, "query": "boiler"}}
            for id_ in range(8):
                await socket.send_json(search | {"id": str(id_)})
            await socket.send_json({"type": "req", "id": "c", "method": "rpc.cancel", "params": {"id": "7"}})
            if number % 2:
                answers = [await socket.receive_json(timeout=20) for _ in range(9)]
                assert len({answer["id"] for answer in answers}) == 9

    async def _call(self, session: aiohttp.ClientSession, method: str, params: object) -> Any:
        async with session.post(f"{self._url}/rpc/{method}", json=params, headers=self._headers) as response:
            frame = await response.json()
            assert frame["ok"], frame
            return frame["payload"]


@pytest.mark.slow
async def test_a_thousand_rounds_and_hundreds_of_searches_cut_off_leave_no_file_open(
    example: Any, eventually: Eventually
) -> None:
    rough = Rough(example)
    await rough.rounds(20)
    before = descriptors(example)
    await rough.rounds(1000)
    for number in range(300):
        await rough.cut_off(number)
    for number in range(50):
        await rough.cut_off_on_a_socket(number)

    async def settled() -> bool:
        return descriptors(example) <= before

    await eventually(settled)
    assert (await example.search("boiler"))["hits"]

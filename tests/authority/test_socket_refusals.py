"""Who is not let in by a socket is counted like everybody else at the door (spec §3)."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

CONNECT = {"type": "req", "id": "1", "method": "connect"}


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (CONNECT, "token-missing"),
        (CONNECT | {"params": {"auth": {"token": "nobody-0123456789abcdef"}}}, "token-mismatch"),
    ],
)
async def test_a_socket_without_the_right_token_is_counted(world: Any, first: Any, reason: str) -> None:
    async def counted() -> int:
        denied = (await world.call("all", "sidecar.audit", {})).payload["denied"]
        return int(denied.get(reason, 0))

    before = await counted()
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{world.service.url}/ws") as socket,
    ):
        await socket.send_json(first)
        answer = await socket.receive_json(timeout=20)
        assert answer["error"]["details"]["code"].startswith("AUTH_TOKEN_")
    assert await counted() == before + 1

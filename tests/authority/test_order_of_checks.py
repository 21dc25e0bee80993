"""The first fault of a request decides the answer, in the order of spec §3."""

from __future__ import annotations

import asyncio
import http.client
import json
from typing import Any

ROW = {"sessionKey": "agent:pro:ladder", "sessionId": "one"}
TOO_LARGE = b'{"pad": "' + b"x" * (1024 * 1024) + b'"}'


def frame(method: str, params: object) -> bytes:
    return json.dumps({"type": "req", "id": "1", "method": method, "params": params}).encode()


def ask(port: int, route: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST", route, body, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        error = answer if "code" in answer else answer.get("error", {"message": ""})
        return response.status, error["message"]
    finally:
        connection.close()


async def test_repairing_one_fault_after_the_other_meets_every_check_in_order(world: Any) -> None:
    from_token = {name: f"Bearer {secret}" for name, secret in world.secrets.items()}
    route, body = "/nowhere", TOO_LARGE
    headers = {"Host": "evil.example", "Origin": "https://evil.example", "Content-Type": "text/plain"}

    async def answer() -> tuple[int, str]:
        return await asyncio.to_thread(ask, world.service.port, route, body, headers)

    assert await answer() == (403, "this Host is not accepted")
    headers["Host"] = "localhost"
    assert await answer() == (403, "this Origin is not accepted")
    del headers["Origin"]
    assert await answer() == (401, "a bearer token is required in the Authorization header")
    headers["Authorization"] = "Bearer nobody-0123456789abcdef"
    assert await answer() == (401, "the token does not match")
    headers["Authorization"] = from_token["bare"]
    assert await answer() == (404, "no such route")
    route = "/rpc"
    assert await answer() == (413, "the body is over 1048576 bytes")
    body = b"{}"
    assert await answer() == (415, "the body must be declared as application/json")
    headers["Content-Type"] = "application/json"
    status, message = await answer()
    assert (status, message.partition(":")[0]) == (400, "invalid request frame")
    body = frame("no.such.method", None)
    assert await answer() == (400, "unknown method: no.such.method")
    body = frame("session.put", None)
    assert await answer() == (403, "unauthorized role: operator")
    headers["Authorization"] = from_token["host-bare"]
    assert await answer() == (403, "missing scope: operator.read")
    headers["Authorization"] = from_token["host-pro"]
    status, message = await answer()
    assert (status, message.partition(" ")[0]) == (400, "sessionKey")
    body = frame("session.put", ROW | {"sessionKey": "agent:project-secret:ladder"})
    assert await answer() == (400, "unknown agentId")
    body = frame("session.put", ROW)
    assert await answer() == (200, "")

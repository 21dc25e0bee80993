"""The protocol over HTTP: loopback, Host and Origin first, then the operator token (spec §3)."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

pytestmark = pytest.mark.slow
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture(scope="module")
def address(served: Any) -> Iterator[str]:
    process, url = served.http()
    yield url
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_with_the_token_searches_and_reads(served: Any, address: str, mode: str) -> None:
    async with served.http_client(address, served.token("operator"), mode) as client:
        found = await client.call_tool("memory_search", {"query": "garage opener"})
        assert found.structured_content["results"][0]["citation"].startswith("MEMORY.md:")
        read = await client.call_tool("memory_get", {"id": "memory/2026-03-04.md"})
        assert "Halden" in read.structured_content["text"]
        note = await client.read_resource("memory-sidecar://notes/MEMORY.md")
        assert "blue tin" in note.contents[0].text


@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [
        (None, {}, 401),
        ("x" * 43, {}, 401),
        ("host", {}, 401),
        ("operator", {"Host": "evil.example"}, 421),
        (None, {"Host": "evil.example"}, 421),
        ("operator", {"Origin": "https://evil.example"}, 403),
        ("operator", {"Origin": "null"}, 403),
        ("operator", {}, 200),
    ],
)
async def test_others_are_refused_in_order(
    served: Any, address: str, token: str | None, headers: dict[str, str], status: int
) -> None:
    sent = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **headers}
    if token is not None:
        secret = served.token(token) if token in ("operator", "host") else token
        sent["Authorization"] = f"Bearer {secret}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(address, data=json.dumps(LIST), headers=sent) as response,
    ):
        assert response.status == status
        text = await response.text()
    assert ("memory_search" in text) == (status == 200)


async def test_no_route_answers_without_the_token(address: str) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("/", "/mcp", "/docs", "/.well-known/oauth-protected-resource"):
            async with session.get(address.removesuffix("/mcp") + path) as response:
                assert response.status == 401


async def test_a_taken_port_is_said(served: Any, address: str) -> None:
    port = address.removesuffix("/mcp").rpartition(":")[2]
    done = served.launcher.run("mcp", "--http", "--port", port, *served.arguments)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


def test_a_port_belongs_to_http(served: Any) -> None:
    done = served.launcher.run("mcp", "--port", "1", *served.arguments)
    assert done.returncode == 2
    assert "--port goes with --http" in done.stderr

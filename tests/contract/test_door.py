"""Trust at the door (spec §3): Host, Origin, token, route, size and type, in that order."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
from typing import Any

import pytest

BODY = json.dumps({"query": "boiler"}).encode()


def ask(
    service: Any,
    method: str = "POST",
    route: str = "/rpc/memory.search",
    *,
    body: bytes | None = BODY,
    headers: dict[str, str] | None = None,
    drop: tuple[str, ...] = (),
) -> tuple[int, Any, dict[str, str]]:
    """One raw request; gives status, decoded body and headers."""
    sent = {"Content-Type": "application/json", **service.headers(), **(headers or {})}
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
    try:
        connection.request(
            method, route, body, {key: value for key, value in sent.items() if key not in drop}
        )
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None, dict(response.headers)
    finally:
        connection.close()


async def test_no_token_is_401_missing_and_a_wrong_one_401_mismatch_before_the_route(
    shared_example: Any,
) -> None:
    for route in ("/rpc", "/rpc/memory.search", "/readyz", "/metrics", "/nowhere", "/openapi.json"):
        for method in ("GET", "POST"):
            status, body, _ = await asyncio.to_thread(
                ask, shared_example, method, route, drop=("Authorization",)
            )
            assert (status, body["code"]) == (401, "INVALID_REQUEST"), route
            assert body["details"]["code"] == "AUTH_TOKEN_MISSING"
            wrong = {"Authorization": "Bearer " + "x" * 43}
            status, body, _ = await asyncio.to_thread(ask, shared_example, method, route, headers=wrong)
            assert (status, body["details"]["code"]) == (401, "AUTH_TOKEN_MISMATCH"), route


async def test_a_token_in_the_query_string_or_as_basic_is_no_token(shared_example: Any) -> None:
    route = f"/rpc/memory.search?token={shared_example.operator_token}"
    status, body, _ = await asyncio.to_thread(ask, shared_example, "POST", route, drop=("Authorization",))
    assert (status, body["details"]["code"]) == (401, "AUTH_TOKEN_MISSING")
    basic = {"Authorization": f"Basic {shared_example.operator_token}"}
    status, body, _ = await asyncio.to_thread(ask, shared_example, headers=basic)
    assert (status, body["details"]["code"]) == (401, "AUTH_TOKEN_MISSING")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "",
        "a@localhost",
        "[::",
    ],
)
async def test_a_foreign_host_is_403_before_the_token(shared_example: Any, host: str) -> None:
    status, body, _ = await asyncio.to_thread(
        ask, shared_example, headers={"Host": host}, drop=("Authorization",)
    )
    assert (status, body["code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.8.9.1:99", "[::1]:8737"])
async def test_loopback_hosts_are_accepted(shared_example: Any, host: str) -> None:
    assert (await asyncio.to_thread(ask, shared_example, headers={"Host": host}))[0] == 200


@pytest.mark.parametrize(
    ("named", "accepted"),
    [
        ("http://evil.example", False),
        ("HTTP://EVIL.EXAMPLE", False),
        ("http://localhost.evil.example:{port}", False),
        ("http://localhost@evil.example", False),
        ("http://localhost:{port}", True),
        ("http://127.0.0.1:{port}", True),
    ],
)
async def test_a_target_that_names_a_host_itself_is_held_to_the_rule_of_the_host_header_and_so_is_the_header(
    shared_example: Any, named: str, accepted: bool
) -> None:
    route = f"{named.format(port=shared_example.port)}/rpc/memory.search"
    status, body, _ = await asyncio.to_thread(ask, shared_example, route=route)
    assert (status, accepted or body["message"]) == (
        (200, True) if accepted else (403, "this Host is not accepted")
    )
    status, _, _ = await asyncio.to_thread(ask, shared_example, route=route, headers={"Host": "evil.example"})
    assert status == 403


@pytest.mark.parametrize(
    "origin", ["null", "https://evil.example", "http://127.0.0.1:1", "http://localhost.evil"]
)
async def test_a_foreign_origin_is_403_without_cors_headers_even_for_health(
    shared_example: Any, origin: str
) -> None:
    for method, route in (("POST", "/rpc"), ("OPTIONS", "/rpc"), ("GET", "/healthz"), ("GET", "/nowhere")):
        status, body, headers = await asyncio.to_thread(
            ask, shared_example, method, route, headers={"Origin": origin}
        )
        assert (status, body["code"]) == (403, "FORBIDDEN")
        assert not [name for name in headers if name.lower().startswith("access-control")]


async def test_the_services_own_origin_is_accepted(shared_example: Any) -> None:
    assert (await asyncio.to_thread(ask, shared_example, headers={"Origin": shared_example.url}))[0] == 200


async def test_health_answers_without_token_and_for_any_host_and_tells_nothing(shared_example: Any) -> None:
    status, body, _ = await asyncio.to_thread(
        ask,
        shared_example,
        "GET",
        "/healthz",
        body=None,
        headers={"Host": "10.1.2.3:8737"},
        drop=("Authorization",),
    )
    assert (status, body) == (200, {"status": "live"})


async def test_unknown_routes_are_404_and_wrong_methods_405(shared_example: Any) -> None:
    assert (await asyncio.to_thread(ask, shared_example, "POST", "/nowhere"))[0] == 404
    status, body, headers = await asyncio.to_thread(ask, shared_example, "GET", "/rpc")
    assert (status, body["code"], headers["Allow"]) == (405, "INVALID_REQUEST", "POST")


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", ""],
)
async def test_a_body_that_is_not_declared_as_json_is_415(shared_example: Any, content_type: str) -> None:
    status, _, _ = await asyncio.to_thread(ask, shared_example, headers={"Content-Type": content_type})
    assert status == 415


async def test_compressed_bodies_are_415_and_never_unfolded(shared_example: Any) -> None:
    bomb = gzip.compress(b"[" * 50_000_000)
    status, _, _ = await asyncio.to_thread(
        ask, shared_example, body=bomb, headers={"Content-Encoding": "gzip"}
    )
    assert status == 415


async def test_a_body_just_under_one_mebibyte_works_and_one_over_is_413(shared_example: Any) -> None:
    frame = json.dumps({"query": "boiler", "pad": ""}).encode()
    fits = frame[:-2] + b"x" * (1024 * 1024 - len(frame)) + b'"}'
    assert len(fits) == 1024 * 1024
    assert (await asyncio.to_thread(ask, shared_example, body=fits))[0] == 200
    assert (await asyncio.to_thread(ask, shared_example, body=fits + b" "))[0] == 413


async def test_an_endless_chunked_body_is_cut_off_with_413_while_others_are_served(
    shared_example: Any,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", shared_example.port)
    head = (
        f"POST /rpc HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {shared_example.operator_token}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    writer.write(head.encode())
    for _ in range(40):
        writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
    status_line = await asyncio.wait_for(reader.readline(), 20)
    assert b" 413 " in status_line
    assert (await shared_example.search("boiler"))["hits"]
    writer.close()


async def test_no_refusal_carries_note_text_or_a_path(shared_example: Any) -> None:
    for headers in ({"Host": "evil.example"}, {"Origin": "null"}, {"Authorization": "Bearer nope"}):
        _, body, _ = await asyncio.to_thread(ask, shared_example, headers=headers)
        text = json.dumps(body)
        assert "Halden" not in text
        assert str(shared_example.state) not in text

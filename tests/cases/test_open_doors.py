"""A local service is no open one: pages, networks and bodies without end (BR-70, BR-72, BR-76)."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import aiohttp
import pytest

ROUTE = "/rpc/memory.search"
SECRET_TEXT = "garage opener"
QUESTION = json.dumps({"version": 2, "query": SECRET_TEXT}).encode()
JSON = {"Content-Type": "application/json"}
EVIL = {"Origin": "https://evil.example"}
PREFLIGHT = {
    **EVIL,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization",
}


async def ask(
    service: Any, method: str, route: str, headers: dict[str, str], body: bytes | None = None
) -> tuple[int, dict[str, str], str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            method, service.url + route, headers=headers, data=body and io.BytesIO(body)
        ) as response,
    ):
        return response.status, dict(response.headers), await response.text()


@pytest.mark.parametrize(
    ("method", "headers", "with_token", "status"),
    [
        ("POST", {**JSON, **EVIL}, True, 403),
        ("OPTIONS", PREFLIGHT, False, 403),
        ("POST", {"Content-Type": "text/plain"}, True, 415),
        ("POST", JSON, False, 401),
        ("POST", {**JSON, "Authorization": "Bearer " + "w" * 43}, False, 401),
        ("POST", JSON, True, 200),
    ],
    ids=["foreign-origin", "preflight", "text-plain", "no-token", "wrong-token", "right-token"],
)
async def test_no_web_page_and_no_stranger_reads_a_note(
    shared_example: Any, method: str, headers: dict[str, str], with_token: bool, status: int
) -> None:
    """BR-70."""
    sent = {**headers, **(shared_example.headers() if with_token else {})}
    got, answered, text = await ask(shared_example, method, ROUTE, sent, QUESTION)
    assert got == status
    assert not any(name.lower().startswith("access-control") for name in answered)
    assert (SECRET_TEXT in text) == (status == 200)


async def test_a_token_in_the_address_is_none(shared_example: Any) -> None:
    """BR-70."""
    route = f"{ROUTE}?token={shared_example.operator_token}&access_token={shared_example.operator_token}"
    status, _, text = await ask(shared_example, "POST", route, JSON, QUESTION)
    assert status == 401
    assert SECRET_TEXT not in text


@pytest.mark.parametrize("token", [None, "", "   "], ids=["no-token", "empty", "blank"])
def test_open_to_the_network_without_a_good_token_it_does_not_start(
    launcher: Any, workspace: Path, token: str | None
) -> None:
    """BR-72."""
    given = {} if token is None else {"MEMORY_SIDECAR_OPERATOR_TOKEN": token}
    flags = ("--workspace", str(workspace), "--state-dir", str(launcher.directory / "state"))
    done = launcher.run("serve", *flags, "--host", "0.0.0.0", "--port", "0", environment=given)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1
    assert "token" in done.stderr.lower()


def resident_megabytes(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.parametrize(
    ("headers", "body", "statuses"),
    [
        (JSON, b'{"version":2,"query":"' + b"x" * 50_000_000 + b'"}', {413}),
        ({"Content-Type": "multipart/form-data"}, QUESTION, {415}),
        (JSON, b"[" * 100_000 + b"]" * 100_000, {400}),
        (JSON, b'{"version":2,"query":"\xff\xfe"}', {400}),
        ({**JSON, "Content-Encoding": "gzip"}, gzip.compress(b" " * 50_000_000), {415}),
        (JSON, b'{"version":2,"query":"' + b"x" * 1_000_000 + b'"}', {200}),
    ],
    ids=["fifty-megabytes", "multipart", "nested", "not-utf-8", "gzip-bomb", "just-under"],
)
async def test_odd_bodies_are_refused_in_time_while_others_are_served(
    shared_example: Any, headers: dict[str, str], body: bytes, statuses: set[int]
) -> None:
    """BR-76; bodies without end, drips and wrong lengths are in tests/door/test_floods.py."""

    async def odd() -> int:
        try:
            status, _, _ = await ask(
                shared_example, "POST", ROUTE, {**headers, **shared_example.headers()}, body
            )
        except aiohttp.ClientConnectionError:
            return 413  # it was answered and closed while we still wrote, which some clients never see
        return status

    before = resident_megabytes(shared_example.process.pid)
    got, hits = await asyncio.gather(odd(), shared_example.search(SECRET_TEXT))
    assert got in statuses
    assert hits["hits"]
    assert resident_megabytes(shared_example.process.pid) < before + 20

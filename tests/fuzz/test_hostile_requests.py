"""Hostile requests never bring out an undeclared answer, and the harness that says so can fail.

The full size: `python -m sidecar.benchmark fuzz examples/workspace --requests 1000000 --seed 1`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sidecar.benchmark.fuzz import Target, bombard, fault_of
from sidecar.benchmark.fuzz_requests import Requests

EXAMPLE = Path(__file__).parents[2] / "examples" / "workspace"


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (500, b"{}", "status 500"),
        (502, b"{}", "status 502"),
        (400, b"Bad Request", "status 400 without JSON"),
        (400, b'{"message": "x"}', "status 400 without the error shape"),
        (400, b'{"code": "OTHER", "message": "x"}', "status 400 without the error shape"),
        (503, b'{"code": "UNAVAILABLE", "message": "x"}', "503 without a declared code"),
        (
            503,
            b'{"code":"UNAVAILABLE","message":"x","details":{"code":"PROVIDER_FAILED"}}',
            "the service failed",
        ),
        (200, b'{"type":"res","ok":false}', "200 without ok"),
        (400, b'{"code":"INVALID_REQUEST","message":"in /home/someone"}', "the answer tells of the machine"),
        (400, b'{"code":"INVALID_REQUEST","message":"x"}', None),
        (503, b'{"error":{"code":"UNAVAILABLE","message":"x","details":{"code":"FOREIGN_REFERENCE"}}}', None),
        (200, b'{"type":"res","ok":true}', None),
    ],
)
def test_a_wrong_answer_is_told_from_a_declared_one(status: int, body: bytes, fault: str | None) -> None:
    assert fault_of(status, body, (b"/home/",)) == fault


def test_the_same_seed_gives_the_same_requests() -> None:
    one, other = (Requests(Random("7"), token="t" * 20) for _ in range(2))  # noqa: S311
    assert [one.next() for _ in range(200)] == [other.next() for _ in range(200)]


async def test_a_server_that_drops_connections_or_answers_anything_is_found_out() -> None:
    answers = [b"", b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(answers[len(answers) % 3])
        answers.append(b"")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        report = await bombard(Target(host="127.0.0.1", port=port, token="t" * 20), requests=200, seed=1)
    assert any("no answer" in finding for finding in report.findings)
    assert any("status 500" in finding for finding in report.findings)
    assert report.requests < 200


@pytest.mark.slow
def test_thirty_thousand_hostile_requests_get_declared_answers_from_one_process(launcher: Any) -> None:
    done = launcher.run(
        "fuzz", str(EXAMPLE), "--requests", "30000", "--seed", "1", module="sidecar.benchmark", timeout=170
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "30000 requests" in done.stdout
    assert "wrong 0, the same process lives" in done.stdout

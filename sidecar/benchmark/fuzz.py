"""Hostile requests against a service, many in flight, and what must hold of every answer (spec §4).

Every whole request is answered: never a 500, a 503 only as a declared `UNAVAILABLE`, errors in the error
shape, and nothing of the machine in any of it. The connection lives on unless the answer says otherwise.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec

from sidecar.benchmark.fuzz_requests import Hostile, Requests
from sidecar.domain.errors import ProviderFailed

IN_FLIGHT = 8
PATIENCE_SECONDS = 20.0
UNSURE_SECONDS = 0.3
MOST_FINDINGS = 20
_CODES = ("INVALID_REQUEST", "FORBIDDEN", "UNAVAILABLE")


class Report(msgspec.Struct, kw_only=True):
    """What came of it: counts by status, and what was wrong with which request."""

    requests: int = 0
    statuses: Counter[int] = msgspec.field(default_factory=Counter)
    unanswered: int = 0
    findings: list[str] = msgspec.field(default_factory=list)
    over: bool = False


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The service under fire, and what no answer of it may hold (host paths, for example)."""

    host: str
    port: int
    token: str
    secrets: tuple[bytes, ...] = ()


async def bombard(target: Target, *, requests: int, seed: int, report: Report | None = None) -> Report:
    """Send so many requests over a few connections; the report has at most `MOST_FINDINGS` findings.

    A `report` of the caller's shows how far it is; setting its `over` ends it early.
    """
    report = Report() if report is None else report
    shares = [requests // IN_FLIGHT + (number < requests % IN_FLIGHT) for number in range(IN_FLIGHT)]
    async with asyncio.TaskGroup() as group:
        for number, share in enumerate(shares):
            random = Random(f"{seed}:{number}")  # noqa: S311 - repeatable, nothing is secret here
            group.create_task(_Gunner(target, random, report).fire(share))
    return report


class _Gunner:
    """One connection after another, one request at a time."""

    def __init__(self, target: Target, random: Random, report: Report) -> None:
        self._target = target
        self._report = report
        self._requests = Requests(random, token=target.token)
        self._before = b""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def fire(self, share: int) -> None:
        for _ in range(share):
            if self._report.over or len(self._report.findings) >= MOST_FINDINGS:
                break
            await self._shoot(self._requests.next())
        self._hang_up()

    async def _shoot(self, hostile: Hostile) -> None:
        self._report.requests += 1
        fault = await self._exchange(hostile)
        if fault is None and self._streams is not None and not hostile.whole:
            self._hang_up()  # what is left of it could be taken for the next request
        if fault is not None:
            shown, before = (
                data.replace(self._target.token.encode(), b"TOKEN")[:600]
                for data in (hostile.data, self._before)
            )
            self._report.findings.append(f"{hostile.kind}: {fault}: {shown!r} after {before!r}")
            self._hang_up()
        self._before = hostile.data

    async def _exchange(self, hostile: Hostile) -> str | None:
        """Send it; gives what is wrong with the answer, or None."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS if hostile.whole else UNSURE_SECONDS):
                if self._streams is None:
                    self._streams = await asyncio.open_connection(self._target.host, self._target.port)
                reader, writer = self._streams
                writer.write(hostile.data)
                status, headers, body = await read_answer(reader, bodiless=hostile.head)
        except (TimeoutError, OSError, EOFError, ValueError) as error:
            self._hang_up()
            if hostile.whole:
                return f"no answer ({type(error).__name__})"
            self._report.unanswered += 1
            return None
        self._report.statuses[status] += 1
        if "close" in headers.get(b"connection", b"").decode("latin-1").lower():
            self._hang_up()
        return fault_of(status, body, self._target.secrets, bodiless=hostile.head)

    def _hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def read_answer(
    reader: asyncio.StreamReader, *, bodiless: bool = False
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Status, headers (lower case) and body of the next final answer; `EOFError` when there is none."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        start, *lines = head[:-4].split(b"\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        status = int(start.split()[1])
        if status >= 200:
            break
    length = 0 if bodiless else int(headers.get(b"content-length", b"0"))
    return status, headers, await reader.readexactly(length)


def fault_of(status: int, body: bytes, secrets: Sequence[bytes], *, bodiless: bool = False) -> str | None:
    """What is wrong with an answer, or None."""
    if status >= 500 and status != 503:
        return f"status {status}"
    if any(secret in body for secret in secrets) or b"Traceback" in body:
        return "the answer tells of the machine"
    if bodiless or (status == 200 and not body.startswith(b'{"type"')):
        return None
    try:
        answer: Any = json.loads(body)
    except ValueError:
        return f"status {status} without JSON"
    if status == 200:
        return None if answer.get("ok") is True else "200 without ok"
    error = answer.get("error", answer) if isinstance(answer, dict) else None
    if not isinstance(error, dict) or error.get("code") not in _CODES or not error.get("message"):
        return f"status {status} without the error shape"
    if status == 503:
        return _fault_of_unavailable(error)
    return None


def _fault_of_unavailable(error: dict[str, Any]) -> str | None:
    code = error.get("details", {}).get("code")
    if error["code"] != "UNAVAILABLE" or not code:
        return "503 without a declared code"
    # In a service that nothing is wrong with, a failed provider is an error that nobody foresaw.
    return "the service failed" if code == ProviderFailed.details_code else None

"""A stop takes five seconds at most, whatever is computed meanwhile, and whoever asked is told (spec §2)."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

# The five seconds of the promise, and one for a machine that does something else as well.
STOP_SECONDS = 6.0
# Minutes of work for a Markdown parser: every line may end each of the quotes around it.
QUOTES = ">" * 10 + " a\n" + "a\n" * 1_000_000
ONE_LINE = "some words of an endless line " * 800_000


@pytest.fixture
def busy(workspace: Path, write: Any) -> Path:
    """A workspace that takes minutes to index: one line of 24 MB, and 2 MB of quotes in quotes."""
    write(workspace, {"MEMORY.md": "- the small zebu\n", "memory/a.md": ONE_LINE, "memory/b.md": QUOTES})
    return workspace


async def in_work(service: Any) -> bool:
    async with (
        aiohttp.ClientSession() as session,
        session.get(service.url + "/metrics", headers=service.headers()) as response,
    ):
        return "memory_sidecar_calls_in_work 1.0" in await response.text()


async def stopped(service: Any) -> float:
    began = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(service.process.wait) == 0
    return time.monotonic() - began


@pytest.mark.slow
async def test_a_stop_during_a_rebuild_takes_five_seconds_tells_who_asked_and_loses_nothing(
    launcher: Any, busy: Path, eventually: Any
) -> None:
    service = launcher.serve(busy)
    asked = asyncio.create_task(service.error("sidecar.refresh", {"rebuild": True}))
    await eventually(lambda: in_work(service))
    assert await stopped(service) < STOP_SECONDS
    status, error = await asked
    assert (status, error["code"], error["retryable"]) == (503, "UNAVAILABLE", True)
    assert error["retryAfterMs"] > 0
    again = launcher.serve(busy)

    async def found() -> bool:
        return any("zebu" in text for text in await again.excerpts("zebu"))

    await eventually(found)
    assert await stopped(again) < STOP_SECONDS


@pytest.mark.slow
async def test_callers_who_leave_take_their_computing_with_them(
    launcher: Any, busy: Path, eventually: Any
) -> None:
    service = launcher.serve(busy)
    for _ in range(8):  # as many as there are threads, or twice as many
        asked = asyncio.create_task(service.post("/rpc/sidecar.refresh", {"rebuild": True}))
        await eventually(lambda: in_work(service))
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    began = time.monotonic()
    await service.search("zebu")
    assert time.monotonic() - began < STOP_SECONDS
    assert await stopped(service) < STOP_SECONDS

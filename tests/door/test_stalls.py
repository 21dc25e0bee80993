"""The stall monitor sees the event loop stand still."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from sidecar.runtime.stalls import StallMonitor


async def test_a_loop_that_stands_still_is_counted_and_the_longest_time_kept(eventually: Any) -> None:
    monitor = StallMonitor()
    watching = asyncio.create_task(monitor.run())
    await asyncio.sleep(0)
    before = monitor.count
    time.sleep(0.3)  # noqa: ASYNC251 - the stall itself

    async def seen() -> bool:
        return monitor.count > before and monitor.longest >= 0.2

    await eventually(seen)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


def test_a_loop_in_time_is_not_counted() -> None:
    monitor = StallMonitor()
    monitor.note(0.049)
    assert (monitor.count, monitor.longest) == (0, 0.049)
    monitor.note(0.051)
    assert (monitor.count, monitor.longest) == (1, 0.051)

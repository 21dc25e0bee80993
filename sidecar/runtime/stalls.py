"""How long the event loop stands still: a task that asks to be woken and looks how late it was."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

STALL_SECONDS = 0.05
EVERY_SECONDS = 0.02


class StallMonitor:
    """Counts stalls over `STALL_SECONDS`; one that is less than `EVERY_SECONDS` longer may be missed."""

    def __init__(self) -> None:
        self.count = 0
        self.longest = 0.0

    async def run(self) -> None:
        """Watch until cancelled."""
        clock: Callable[[], float] = asyncio.get_running_loop().time
        while True:
            asked = clock()
            await asyncio.sleep(EVERY_SECONDS)
            self.note(clock() - asked - EVERY_SECONDS)

    def note(self, seconds: float) -> None:
        """The loop was so much too late."""
        self.longest = max(self.longest, seconds)
        if seconds > STALL_SECONDS:
            self.count += 1
            log.info("the event loop stood still", extra={"milliseconds": round(seconds * 1000)})

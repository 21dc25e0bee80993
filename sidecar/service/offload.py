"""Blocking work off the event loop: one bounded thread pool for the whole process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sidecar.domain.halting import Checkpoint, Halt

T = TypeVar("T")


class Offload:
    """Runs blocking functions in threads. Each service hop costs one switch, so a use case makes one."""

    def __init__(self, threads: int | None = None) -> None:
        self._pool = ThreadPoolExecutor(
            max_workers=threads or max(4, 2 * (os.cpu_count() or 1)), thread_name_prefix="sidecar"
        )

    async def run(self, function: Callable[[], T]) -> T:
        """The function's result; a cancelled caller no longer waits for it."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    async def run_long(self, function: Callable[[Checkpoint], T]) -> T:
        """As `run`, for what may take seconds: it is told when its caller is cancelled, and gives up."""
        work = Halt()
        try:
            return await self.run(lambda: function(work.check))
        finally:
            work.halt()

    def close(self) -> None:
        """Wait for what runs and end the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

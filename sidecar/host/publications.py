"""Waiting for rows that are being written (U§6): bounded, woken by every change of a row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SETTLE_SECONDS = 2.0


class Publications:
    """Wakes those who wait whenever rows have changed."""

    def __init__(self, *, settle_seconds: float = SETTLE_SECONDS) -> None:
        self._seconds = settle_seconds
        self._waiting: set[asyncio.Future[None]] = set()

    def announce(self) -> None:
        """Rows have changed."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def settled(self, pending: Callable[[], bool]) -> bool:
        """Wait until nothing is pending, at most the bound; whether it is so. The caller checks again."""
        try:
            async with asyncio.timeout(self._seconds):
                while pending():
                    await self._change()
        except TimeoutError:
            return False
        return True

    async def _change(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)

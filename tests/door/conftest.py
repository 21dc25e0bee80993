"""The door alone: the real application and server in this process, over a method that waits to be let go."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from sidecar.api.app import build_app
from sidecar.api.counters import Counters
from sidecar.api.dispatch import Call, Dispatcher, Method, Payload
from sidecar.api.door import Door
from sidecar.api.server import Bounds, Server
from sidecar.domain.authority import Principal

sys.path.insert(0, str(Path(__file__).parent))  # for door_sockets

TOKEN = "door-0123456789abcdef"


class Doorway:
    """A listening server whose one method waits for `let_go`, or gives a large answer at once."""

    def __init__(self, *, bounds: Bounds, most_in_work: int, eventually: Any) -> None:
        self._eventually = eventually
        self.token = TOKEN
        self.counters = Counters()
        self.let_go = asyncio.Event()
        self.dispatcher = Dispatcher(
            {"test.wait": Method(handler=self._wait), "test.large": Method(handler=self._large)},
            counters=self.counters,
            most_in_work=most_in_work,
        )
        principal = Principal(name="door", role="operator", scopes=("operator.read",))
        door = Door(
            match=lambda presented: principal if presented == TOKEN else None,
            allowed_hosts=(),
            allowed_origins=(),
            counters=self.counters,
        )
        app = build_app(door=door, dispatcher=self.dispatcher, readiness=lambda _principal: (True, {}))
        self.server = Server(app, bounds=bounds)
        self.port = 0

    async def _wait(self, _call: Call) -> Payload:
        await self.let_go.wait()
        return {"done": True}

    async def _large(self, _call: Call) -> Payload:
        return {"text": "x" * 32_000_000}

    async def in_work(self, number: int) -> None:
        """Wait until so many calls are in work."""

        async def reached() -> bool:
            return self.dispatcher.in_work == number

        await self._eventually(reached)

    async def refused(self, reason: str, number: int) -> None:
        """Wait until so many refusals of a kind are counted."""

        async def reached() -> bool:
            return self.counters.refusals[reason] == number

        await self._eventually(reached)


@pytest.fixture
async def doorway(eventually: Any) -> AsyncIterator[Callable[..., Any]]:
    """Opens doorways with bounds of the test's choice."""
    async with AsyncExitStack() as stack:

        async def open_one(*, most_in_work: int = 128, **bounds: Any) -> Doorway:
            made = Doorway(bounds=Bounds(**bounds), most_in_work=most_in_work, eventually=eventually)
            stack.push_async_callback(made.server.stop)
            stack.callback(made.let_go.set)
            made.port = await made.server.start(host="127.0.0.1", port=0, socket_path=None)
            return made

        yield open_one

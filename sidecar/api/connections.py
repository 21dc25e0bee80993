"""Connections within bounds: how many, how long without a request, and how they end.

A connection whose request the door has admitted is never cut for another; all others are, the longest silent
first, when there is no room. So idle or dripping clients cannot keep anyone out, `/healthz` included.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http import HttpProcessingError
from aiohttp.http_exceptions import LineTooLong

from sidecar.api.answers import error_response, raw_response
from sidecar.api.counters import Counters
from sidecar.api.dispatch import BUSY, BUSY_RETRY_MS
from sidecar.domain.errors import InvalidRequest, Overloaded, ProviderFailed, RequestTooSlow
from sidecar.wire import frames

SWEEP_SECONDS = 1.0


class Connection(web.RequestHandler):
    """One connection: answers in our error shape, and knows what it is waiting for."""

    __slots__ = ("_answered", "_ending", "_room", "admitted", "head_since", "known", "silent_since")

    def __init__(self, manager: web.Server, *, room: Connections, **options: Any) -> None:
        super().__init__(manager, **options)
        self._room = room
        self._ending = False
        self._answered = 0
        self.admitted = False
        """Whether the request in work came in with a token."""
        self.known = False
        """Whether any request of this connection did."""
        self.silent_since = 0.0
        self.head_since: float | None = None
        """When the first byte of a request came whose head is not complete."""

    @property
    def upgraded(self) -> bool:
        """Whether it has become a WebSocket."""
        return self._payload_parser is not None

    @property
    def busy(self) -> bool:
        """Whether a request that was read is not yet answered."""
        return self._request_count > self._answered

    def admit(self) -> None:
        """The door has accepted its request's token."""
        self.admitted = self.known = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Come in, or be told that there is no room."""
        self.silent_since = self._loop.time()
        if self._room.enter(self):
            super().connection_made(transport)
        elif isinstance(transport, asyncio.WriteTransport):
            self.transport = transport  # type: ignore[assignment]
            transport.write(raw_response(Overloaded(BUSY, retry_after_ms=BUSY_RETRY_MS)))
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Make room."""
        super().connection_lost(exc)
        self._room.leave(self)

    def data_received(self, data: bytes) -> None:
        """Note when a request began to arrive, for one that never ends."""
        if self.head_since is None and not self.busy:
            self.head_since = self._loop.time()
        super().data_received(data)
        if self.busy:
            self.head_since = None

    def close(self) -> None:
        """End after the request in work, whose body may still be arriving, is answered."""
        if self.busy and not self.upgraded:
            self._ending = True
        else:
            super().close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - quotes the caller's bytes
    ) -> web.StreamResponse:
        """What HTTP itself refuses, in our shape; always the connection's last answer."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        if status >= 500 and not isinstance(exc, HttpProcessingError):
            self.log_exception("unexpected error", exc_info=exc)
            response = error_response(ProviderFailed(frames.INTERNAL))
        else:
            self._room.counters.refused("malformed")
            said = "the request line or a header is too long" if isinstance(exc, LineTooLong) else MALFORMED
            response = error_response(InvalidRequest(said))
        response.force_close()
        response.headers[hdrs.CONNECTION] = "close"  # what cannot be read counts as HTTP/1.0, without a word
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer, in a bounded time: a reader that takes nothing is cut off."""
        if isinstance(resp, web.HTTPException):
            resp = error_response(InvalidRequest(resp.reason))
        if self._ending:
            resp.force_close()
        try:
            async with asyncio.timeout(self._room.send_seconds):
                return await super().finish_response(request, resp, start_time)
        except TimeoutError:
            self._room.counters.refused("slow-reader")
            if self.transport is not None:
                self.transport.abort()
            return resp, True
        finally:
            self._answered += 1
            self.admitted = False
            self.silent_since = self._loop.time()
            self._loop.call_soon(self._room.settle)

    def time_out(self) -> None:
        """A head that does not come to its end is told so; silence is simply ended."""
        if self.head_since is not None and self.transport is not None:
            self._room.counters.refused("slow-head")
            self.transport.write(raw_response(RequestTooSlow("the request did not arrive in time")))
        self.force_close()


def keep(request: web.BaseRequest) -> None:
    """The request came with a token: its connection is not cut for another while it is in work."""
    if isinstance(request.protocol, Connection):
        request.protocol.admit()


MALFORMED = "malformed HTTP request"


class Connections:
    """The room of one listener: `most` connections, and the task that ends those that send no request."""

    def __init__(
        self,
        *,
        most: int,
        counters: Counters,
        head_seconds: float,
        send_seconds: float,
    ) -> None:
        self._most = most
        self._head_seconds = head_seconds
        self._inside: set[Connection] = set()
        self._sweeper: asyncio.Task[None] | None = None
        self._settled: asyncio.Event | None = None
        self._ended = False
        self.counters = counters
        self.send_seconds = send_seconds

    def __len__(self) -> int:
        return len(self._inside)

    def start(self) -> None:
        """Begin to look after them."""
        self._sweeper = asyncio.create_task(self._sweep(), name="connections")

    async def stop(self) -> None:
        """Let nobody in any more, and cut off who is still there."""
        self._ended = True
        for connection in self._inside:
            if connection.transport is not None:
                connection.transport.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)

    def enter(self, connection: Connection) -> bool:
        """Take it in, at the cost of the longest silent one that no token stands behind; False if none.

        One that the kernel took in before the end, and the loop after it, finds no room either.
        """
        if self._ended:
            return False
        if len(self._inside) >= self._most:
            idle = [other for other in self._inside if not other.admitted]
            if not idle:
                self.counters.refused("connections")
                return False
            victim = min(idle, key=lambda other: (other.known, other.busy, other.silent_since))
            self._inside.discard(victim)
            self.counters.refused("idle")
            victim.force_close()
        self._inside.add(connection)
        return True

    def leave(self, connection: Connection) -> None:
        """It is gone."""
        self._inside.discard(connection)
        self.settle()

    async def drain(self, seconds: float) -> None:
        """Wait until every request in work is answered, at most so long."""
        self._settled = asyncio.Event()
        self.settle()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._settled.wait()

    def settle(self) -> None:
        """Tell a waiting `drain` when nothing is in work any more."""
        if self._settled is not None and not any(c.busy and not c.upgraded for c in self._inside):
            self._settled.set()

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, self._head_seconds / 4))
            late = loop.time() - self._head_seconds
            for connection in list(self._inside):
                if connection.busy:
                    continue
                began = connection.head_since
                if began is None and not connection.known:
                    began = connection.silent_since
                if began is not None and began < late:
                    connection.time_out()

"""Listening: one application on a TCP port and on a Unix socket, and a graceful end (spec §2)."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from aiohttp import web

from sidecar.api.app import COUNTERS
from sidecar.api.connections import Connection, Connections

SHUTDOWN_SECONDS = 3.0
"""For what is in flight: the rest of the five seconds (spec §2) is for what has to be written."""
KEEPALIVE_SECONDS = 75.0
LARGEST_HEADER = 16 * 1024
BACKLOG = 256


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Of each listener: its connections, seconds for the head of a request, and for taking an answer.

    The owner's command line comes by the Unix socket and has a room of its own, so that a crowd at the port
    cannot keep it out.
    """

    over_tcp: int = 512
    over_unix: int = 64
    head_seconds: float = 10.0
    send_seconds: float = 30.0


class Server:
    """Owns the runner and its two listeners. What is in flight at stop gets `SHUTDOWN_SECONDS` together.

    `wind_down` is awaited at stop, when nobody new can come in and what is connected can still be read.
    """

    def __init__(
        self,
        app: web.Application,
        *,
        bounds: Bounds | None = None,
        wind_down: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        bounds = bounds or Bounds()
        self._wind_down = wind_down
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,
            handle_signals=False,
            # What is still in work after `_drain` is cut off.
            shutdown_timeout=0.1,
        )
        self._over_tcp, self._over_unix = (
            Connections(
                most=most,
                counters=app[COUNTERS],
                head_seconds=bounds.head_seconds,
                send_seconds=bounds.send_seconds,
            )
            for most in (bounds.over_tcp, bounds.over_unix)
        )
        self._listeners: list[asyncio.Server] = []
        self._drained_by = 0.0
        app.on_shutdown.append(self._drain)

    async def start(self, *, host: str, port: int, socket_path: Path | None) -> int:
        """Listen on TCP and, where given, on a Unix socket of mode 0600; gives the TCP port."""
        await self._runner.setup()
        listener = _listen_tcp(host, port)
        await self._listen(listener, self._over_tcp)
        if socket_path is not None:
            await self._listen(_listen_unix(socket_path), self._over_unix)
        return int(listener.getsockname()[1])

    async def stop(self) -> None:
        """Stop accepting, let requests finish within the bound, close everything."""
        self._drained_by = asyncio.get_running_loop().time() + SHUTDOWN_SECONDS
        for listener in self._listeners:
            listener.close()
        if self._wind_down is not None:
            await self._wind_down()
        await self._runner.cleanup()
        for room in (self._over_tcp, self._over_unix):
            await room.stop()

    async def _listen(self, listener: socket.socket, room: Connections) -> None:
        loop = asyncio.get_running_loop()
        manager = self._runner.server
        if manager is None:
            raise RuntimeError("the runner is not set up")

        def connection() -> Connection:
            return Connection(
                manager,
                room=room,
                loop=loop,
                access_log=None,
                keepalive_timeout=KEEPALIVE_SECONDS,
                auto_decompress=False,
                max_field_size=LARGEST_HEADER,
                max_line_size=LARGEST_HEADER,
            )

        room.start()
        self._listeners.append(await loop.create_server(connection, sock=listener, backlog=BACKLOG))

    async def _drain(self, _app: web.Application) -> None:
        left = max(0.1, self._drained_by - asyncio.get_running_loop().time())
        await asyncio.gather(self._over_tcp.drain(left), self._over_unix.drain(left))


def _listen_tcp(host: str, port: int) -> socket.socket:
    family, kind, proto, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, proto)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def _listen_unix(path: Path) -> socket.socket:
    """A listening socket of mode 0600. The caller holds the state directory's lock, so a leftover is ours."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous = os.umask(0o177)
    try:
        listener.bind(str(path))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(previous)
    listener.setblocking(False)
    return listener

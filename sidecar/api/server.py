"""Listening: one application on a TCP port and on a Unix socket, and a graceful end (spec §2)."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

SHUTDOWN_SECONDS = 5.0
KEEPALIVE_SECONDS = 75.0
LARGEST_HEADER = 16 * 1024


class Server:
    """Owns the runner and its two sites. Requests in flight get `SHUTDOWN_SECONDS` to finish at stop.

    `wind_down` is awaited at stop, when nobody new can come in and what is connected can still be read:
    sockets say goodbye there.
    """

    def __init__(
        self, app: web.Application, *, wind_down: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._wind_down = wind_down
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,
            handle_signals=False,
            keepalive_timeout=KEEPALIVE_SECONDS,
            shutdown_timeout=SHUTDOWN_SECONDS,
            auto_decompress=False,
            max_field_size=LARGEST_HEADER,
            max_line_size=LARGEST_HEADER,
        )

    async def start(self, *, host: str, port: int, socket_path: Path | None) -> int:
        """Listen on TCP and, where given, on a Unix socket of mode 0600; gives the TCP port."""
        await self._runner.setup()
        listener = _listen_tcp(host, port)
        await web.SockSite(self._runner, listener).start()
        if socket_path is not None:
            await web.SockSite(self._runner, _listen_unix(socket_path)).start()
        return int(listener.getsockname()[1])

    async def stop(self) -> None:
        """Stop accepting, let requests finish within the bound, close everything."""
        for site in self._runner.sites:
            await site.stop()
        if self._wind_down is not None:
            await self._wind_down()
        await self._runner.cleanup()


def _listen_tcp(host: str, port: int) -> socket.socket:
    family, kind, proto, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, proto)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(256)
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
        listener.listen(256)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(previous)
    listener.setblocking(False)
    return listener

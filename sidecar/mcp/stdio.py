"""The protocol over standard input and output, until the input ends or the process is told to stop."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, cast

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server

log = logging.getLogger(__name__)

LONGEST_MESSAGE = 1 << 20


class Lines:
    """The lines of a pipe, read without a thread, so that reading ends when it is cancelled.

    Lines over a mebibyte are left out: what remains of them is no message, which the client is told.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:
                log.warning("a message was too long")
                continue
            if not line:
                return
            yield line.decode("utf-8", "replace")


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client; what else is printed meanwhile goes to stderr."""
    async with stdio_server(stdin=await _stdin()) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _stdin() -> anyio.AsyncFile[str] | None:
    """Our reader where input is a pipe, socket or terminal; None, the library's own, for a plain file."""
    reader = asyncio.StreamReader(limit=LONGEST_MESSAGE)
    with suppress(ValueError):
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
        )
        # Iterating is all that the transport does with it.
        return cast(anyio.AsyncFile[str], Lines(reader))
    return None

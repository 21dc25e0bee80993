"""Raw sockets: what a client sees that keeps to no library's idea of HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

PATIENCE = 20.0


class Socket:
    """One TCP connection to a service."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int) -> Socket:
        return cls(*await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), PATIENCE))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, dict[str, str], Any]:
        """Status, headers (lower case) and decoded body of the next answer."""
        return await asyncio.wait_for(self._answer(), PATIENCE)

    async def _answer(self) -> tuple[int, dict[str, str], Any]:
        start = await self.reader.readline()
        if not start:
            raise ConnectionResetError("no answer")
        headers = {}
        while line := (await self.reader.readline()).strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        status = int(start.split()[1])
        body = b"" if status == 100 else await self.reader.readexactly(int(headers["content-length"]))
        return status, headers, json.loads(body) if body else None

    async def ended(self) -> bytes:
        """Wait until the service ends the connection; gives what came before."""
        try:
            return await asyncio.wait_for(self.reader.read(), PATIENCE)
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self.writer.close()


def post(token: str, route: str, body: bytes, *extra: str, length: int | None = None) -> bytes:
    """A POST with a JSON body, of which `length` may say more than there is."""
    lines = [
        f"POST {route} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(body) if length is None else length}",
        *extra,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

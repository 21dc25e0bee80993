"""Reading a request body within its bounds: JSON by declaration, plain, small and in time (spec §3)."""

from __future__ import annotations

import asyncio

from aiohttp import HttpVersion11, hdrs, web

from sidecar.api.dispatch import BUSY, BUSY_RETRY_MS
from sidecar.domain.errors import BodyTooLarge, BodyTooSlow, InvalidRequest, Overloaded, UnsupportedMedia

MOST_BYTES = 1024 * 1024
READ_SECONDS = 15.0
MOST_ARRIVING = 64 * MOST_BYTES


class Arriving:
    """How many bytes of bodies are held while their rest is on the way, over all connections."""

    def __init__(self, most: int = MOST_ARRIVING) -> None:
        self._most = most
        self.held = 0

    def hold(self, size: int) -> None:
        """Raise `Overloaded` when there is no room for so many more."""
        if self.held + size > self._most:
            raise Overloaded(BUSY, retry_after_ms=BUSY_RETRY_MS)
        self.held += size


async def wait_with_body(_request: web.Request) -> None:
    """A caller that waits for `100 Continue` is answered by `read_json_body`, once the door let it in."""


async def read_json_body(request: web.Request, arriving: Arriving) -> bytes:
    """The body's bytes; raises `BodyTooLarge`, `BodyTooSlow`, `UnsupportedMedia`, `Overloaded`.

    A declared length over the bound is refused before a byte is read. Compressed bodies are refused, so
    that no small body can unfold into a large one.
    """
    if (request.content_length or 0) > MOST_BYTES:
        raise BodyTooLarge(f"the body is over {MOST_BYTES} bytes")
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise UnsupportedMedia("compressed bodies are not accepted")
    if request.content_type != "application/json" or (request.charset or "utf-8").lower() != "utf-8":
        raise UnsupportedMedia("the body must be declared as application/json")
    if request.version >= HttpVersion11 and request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for chunk in request.content.iter_any():
                if size + len(chunk) > MOST_BYTES:
                    raise BodyTooLarge(f"the body is over {MOST_BYTES} bytes")
                arriving.hold(len(chunk))
                size += len(chunk)
                chunks.append(chunk)
    except TimeoutError as error:
        raise BodyTooSlow(f"the body did not arrive within {READ_SECONDS:.0f} seconds") from error
    except web.RequestPayloadError as error:
        raise InvalidRequest("malformed HTTP body") from error
    finally:
        arriving.held -= size
    return b"".join(chunks)

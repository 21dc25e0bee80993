"""Reading a request body within its bounds: JSON by declaration, plain, small and in time (spec §3)."""

from __future__ import annotations

import asyncio

from aiohttp import hdrs, web

from sidecar.domain.errors import BodyTooLarge, BodyTooSlow, UnsupportedMedia

MOST_BYTES = 1024 * 1024
READ_SECONDS = 15.0


async def read_json_body(request: web.Request) -> bytes:
    """The body's bytes; raises `BodyTooLarge`, `BodyTooSlow` or `UnsupportedMedia`.

    A declared length over the bound is refused before a byte is read. Compressed bodies are refused, so
    that no small body can unfold into a large one.
    """
    if (request.content_length or 0) > MOST_BYTES:
        raise BodyTooLarge(f"the body is over {MOST_BYTES} bytes")
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise UnsupportedMedia("compressed bodies are not accepted")
    if request.content_type != "application/json" or (request.charset or "utf-8").lower() != "utf-8":
        raise UnsupportedMedia("the body must be declared as application/json")
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for chunk in request.content.iter_any():
                size += len(chunk)
                if size > MOST_BYTES:
                    raise BodyTooLarge(f"the body is over {MOST_BYTES} bytes")
                chunks.append(chunk)
    except TimeoutError as error:
        raise BodyTooSlow(f"the body did not arrive within {READ_SECONDS:.0f} seconds") from error
    return b"".join(chunks)

"""Errors as HTTP: one mapping for what handlers raise and for what never reaches one (spec §4)."""

from __future__ import annotations

import logging
from http import HTTPStatus

from aiohttp import hdrs, web

from sidecar.domain.errors import BodyTooLarge, SidecarError
from sidecar.wire import frames

log = logging.getLogger(__name__)

JSON = "application/json"


def error_response(error: SidecarError, body: bytes | None = None) -> web.Response:
    """The HTTP form of an error: its own object, or the given frame around it."""
    if not error.on_wire:
        log.error("request failed", exc_info=error)
    response = web.Response(
        status=error.status,
        body=frames.encode_json(frames.error_object(error)) if body is None else body,
        content_type=JSON,
    )
    if error.retry_after_ms is not None:
        response.headers[hdrs.RETRY_AFTER] = _retry_after(error.retry_after_ms)
    if isinstance(error, BodyTooLarge):
        response.force_close()  # the rest of the body is not worth reading
    return response


def raw_response(error: SidecarError) -> bytes:
    """The same as bytes, for a connection that is closed without having a request."""
    body = frames.encode_json(frames.error_object(error))
    lines = [
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}",
        f"Content-Type: {JSON}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if error.retry_after_ms is not None:
        lines.append(f"Retry-After: {_retry_after(error.retry_after_ms)}")
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _retry_after(milliseconds: int) -> str:
    return str(max(1, -(-milliseconds // 1000)))

"""Who calls, and until when the call is worth answering: one context for each request (U§3, U§6)."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from sidecar.domain.authority import Bearer, CallerContext, Operator
from sidecar.domain.errors import CallerRevoked


def operator_context(
    bearer: Bearer, *, connection_id: str, is_connected: Callable[[], bool]
) -> CallerContext:
    """The operator behind a connection: current while it is connected and its token stands."""

    def assert_current() -> None:
        if not is_connected() or not bearer.holds():
            raise CallerRevoked

    return CallerContext(
        authority=Operator(scopes=bearer.principal.scopes, connection_id=connection_id),
        assert_current=assert_current,
        identity=bearer.principal.name,
        token_name=bearer.principal.name,
    )


def http_context(request: web.Request, bearer: Bearer) -> CallerContext:
    """The operator behind one HTTP request."""

    def is_connected() -> bool:
        transport = request.transport
        return transport is not None and not transport.is_closing()

    return operator_context(
        bearer, connection_id=f"http-{id(request.transport):x}", is_connected=is_connected
    )

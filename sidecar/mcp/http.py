"""The protocol over streamable HTTP, on loopback alone: Host and Origin, then the token, then the route."""

from __future__ import annotations

import asyncio
import hmac
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ADDRESS = "127.0.0.1"
ROUTE = "/mcp"
LARGEST_BODY = 1 << 20
MOST_CONNECTIONS = 64
STOP_SECONDS = 5


class Gate:
    """Refuses a request before anything else looks at it, unless it is ours (spec §3, order of checks).

    `secret` gives the token of now, so that a rotated one holds without a restart.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        security: TransportSecuritySettings,
        secret: Callable[[], Awaitable[str]],
        ready: Callable[[], None],
    ) -> None:
        self._app = app
        self._ready = ready
        self._security = TransportSecurityMiddleware(security)
        self._secret = secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, lambda message: self._started(message, send))
            return
        if scope["type"] == "http":
            request = Request(scope)
            refused = await self._security.validate_request(request)
            if refused is None and not await self._admits(request.headers.get("authorization", "")):
                refused = JSONResponse(
                    {"error": "a bearer token is required: memory-sidecar token"},
                    status_code=401,
                    headers={"WWW-Authenticate": "Bearer"},
                )
            if refused is not None:
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _started(self, message: Message, send: Send) -> None:
        await send(message)
        if message["type"] == "lifespan.startup.complete":
            self._ready()

    async def _admits(self, header: str) -> bool:
        scheme, _, presented = header.partition(" ")
        wanted = await self._secret()
        matches = hmac.compare_digest(presented.strip().encode(), wanted.encode())
        return scheme.lower() == "bearer" and matches


def listening_socket(port: int) -> socket.socket:
    """A socket on loopback; raises `OSError` when the port is taken. 0 picks a free one."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((ADDRESS, port))
    except OSError:
        bound.close()
        raise
    return bound


async def serve_http(
    server: Server[Any],
    *,
    bound: socket.socket,
    secret: Callable[[], Awaitable[str]],
    ready: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is told the address once requests are answered."""
    port = bound.getsockname()[1]
    names = [f"{name}:{port}" for name in (ADDRESS, "localhost")]
    security = TransportSecuritySettings(
        allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
    )
    app = server.streamable_http_app(
        streamable_http_path=ROUTE,
        # No sessions: nothing is kept between requests, so nothing has to be bounded or expires.
        stateless_http=True,
        json_response=True,
        max_request_body_size=LARGEST_BODY,
        transport_security=security,
    )
    address = f"http://{ADDRESS}:{port}{ROUTE}"
    config = uvicorn.Config(
        Gate(app, security=security, secret=secret, ready=lambda: ready(address)),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    bound.listen()
    web = uvicorn.Server(config)
    serving = asyncio.current_task()

    def stop() -> None:
        # The web server stops by itself and then hands the signal on; before it runs nobody else would.
        if serving is not None and not web.should_exit:
            serving.cancel()

    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop)
    await web.serve(sockets=[bound])

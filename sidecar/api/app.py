"""The aiohttp application: middleware in the door's order, the routes, and one mapping of errors."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import hdrs, web

from sidecar.api.body import read_json_body
from sidecar.api.dispatch import Call, Dispatcher
from sidecar.api.door import HEALTH_PATH, PRINCIPAL, Door
from sidecar.domain.authority import CallerContext, Operator, Principal
from sidecar.domain.errors import (
    AccessDenied,
    BodyTooLarge,
    InvalidRequest,
    MethodNotAllowed,
    ProviderFailed,
    RouteNotFound,
    SidecarError,
)
from sidecar.wire import frames

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Readiness = Callable[[Principal], tuple[bool, dict[str, object]]]
_JSON = "application/json"
REVOKED = "Memory request authority is no longer active"


def build_app(*, door: Door, dispatcher: Dispatcher, readiness: Readiness) -> web.Application:
    """The application that both the TCP port and the Unix socket serve."""
    routes = _Routes(door=door, dispatcher=dispatcher, readiness=readiness)

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        door.admit(request)
        return await handler(request)

    app = web.Application(middlewares=[_errors, admit])
    app.router.add_get(HEALTH_PATH, routes.healthz)
    app.router.add_get("/readyz", routes.readyz)
    app.router.add_post("/rpc", routes.rpc)
    app.router.add_post("/rpc/{method}", routes.rpc_method)
    return app


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Whatever is raised becomes one JSON error; nothing of a stack trace leaves the process (spec §4)."""
    try:
        return await handler(request)
    except SidecarError as error:
        return error_response(error)
    except web.HTTPNotFound:
        return error_response(RouteNotFound("no such route"))
    except web.HTTPMethodNotAllowed as error:
        response = error_response(MethodNotAllowed("this route does not take that HTTP method"))
        response.headers[hdrs.ALLOW] = ", ".join(sorted(error.allowed_methods))
        return response
    except web.HTTPRequestEntityTooLarge:
        return error_response(BodyTooLarge("the body is too large"))
    except web.HTTPException as error:
        return error_response(InvalidRequest(HTTPStatus(error.status).phrase))
    except Exception:  # the last line of defence: log it whole, answer with one sentence
        log.exception("unexpected error")
        return error_response(ProviderFailed(frames.INTERNAL))


def error_response(error: SidecarError, body: bytes | None = None) -> web.Response:
    """The HTTP form of an error: its own object, or the given frame around it."""
    if not error.on_wire:
        log.error("request failed", exc_info=error)
    response = web.Response(
        status=error.status,
        body=frames.encode_json(frames.error_object(error)) if body is None else body,
        content_type=_JSON,
    )
    if error.retry_after_ms is not None:
        response.headers[hdrs.RETRY_AFTER] = str(max(1, -(-error.retry_after_ms // 1000)))
    if isinstance(error, BodyTooLarge):
        response.force_close()  # the rest of the body is not worth reading
    return response


class _Routes:
    def __init__(self, *, door: Door, dispatcher: Dispatcher, readiness: Readiness) -> None:
        self._door = door
        self._dispatcher = dispatcher
        self._readiness = readiness

    async def healthz(self, _request: web.Request) -> web.Response:
        return _json({"status": "live"})

    async def readyz(self, request: web.Request) -> web.Response:
        ready, counts = self._readiness(request[PRINCIPAL])
        return _json({"status": "ready" if ready else "starting", **counts}, 200 if ready else 503)

    async def rpc(self, request: web.Request) -> web.Response:
        frame_id = frames.INVALID_ID
        try:
            frame = frames.decode_request(await read_json_body(request))
            frame_id = frame.id
            return await self._answer(request, frame)
        except frames.BadFrame as error:
            return error_response(error, frames.failure(error.id, error))
        except SidecarError as error:
            return error_response(error, frames.failure(frame_id, error))

    async def rpc_method(self, request: web.Request) -> web.Response:
        frame_id = str(uuid.uuid4())
        try:
            body = await read_json_body(request)
            params = frames.params_of(frames.decode_json(body) if body.strip() else None)
            frame = frames.RequestFrame(id=frame_id, method=request.match_info["method"], params=params)
            return await self._answer(request, frame)
        except SidecarError as error:
            return error_response(error, frames.failure(frame_id, error))

    async def _answer(self, request: web.Request, frame: frames.RequestFrame) -> web.Response:
        principal = request[PRINCIPAL]
        call = Call(params=frame.params, principal=principal, context=self._context(request, principal))
        payload = await self._dispatcher.call(frame.method, call)
        return web.Response(body=frames.response(frame.id, payload), content_type=_JSON)

    def _context(self, request: web.Request, principal: Principal) -> CallerContext:
        def assert_current() -> None:
            transport = request.transport
            if transport is None or transport.is_closing() or not self._door.still_admits(request):
                raise AccessDenied(REVOKED)

        connection = f"http-{id(request.transport):x}"
        return CallerContext(
            authority=Operator(scopes=principal.scopes, connection_id=connection),
            assert_current=assert_current,
            identity=principal.name,
            token_name=principal.name,
        )


def _json(payload: dict[str, object], status: int = 200) -> web.Response:
    return web.Response(status=status, body=frames.encode_json(payload), content_type=_JSON)

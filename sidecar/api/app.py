"""The aiohttp application: middleware in the door's order, the routes, and one mapping of errors."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import hdrs, web

from sidecar.api.body import read_json_body
from sidecar.api.contexts import http_context
from sidecar.api.dispatch import Call, Dispatcher
from sidecar.api.door import BEARER, HEALTH_PATH, PRINCIPAL, SOCKET_PATH, Door
from sidecar.api.websocket import Sockets
from sidecar.domain.authority import Principal
from sidecar.domain.errors import (
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


def build_app(
    *, door: Door, dispatcher: Dispatcher, readiness: Readiness, sockets: Sockets | None = None
) -> web.Application:
    """The application that both listeners serve; with `/ws` where there are sockets."""
    routes = _Routes(dispatcher=dispatcher, readiness=readiness)

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        door.admit(request)
        return await handler(request)

    app = web.Application(middlewares=[_errors, admit])
    app.router.add_get(HEALTH_PATH, routes.healthz)
    app.router.add_get("/readyz", routes.readyz)
    app.router.add_post("/rpc", routes.rpc)
    app.router.add_post("/rpc/{method}", routes.rpc_method)
    if sockets is not None:
        app.router.add_get(SOCKET_PATH, sockets.handle, allow_head=False)
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
    def __init__(self, *, dispatcher: Dispatcher, readiness: Readiness) -> None:
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
        bearer = request[BEARER]
        call = Call(params=frame.params, bearer=bearer, context=http_context(request, bearer))
        payload = await self._dispatcher.call(frame.method, call)
        return web.Response(body=frames.response(frame.id, payload), content_type=_JSON)


def _json(payload: dict[str, object], status: int = 200) -> web.Response:
    return web.Response(status=status, body=frames.encode_json(payload), content_type=_JSON)

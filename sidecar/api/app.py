"""The aiohttp application: middleware in the door's order, the routes, and one mapping of errors."""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import hdrs, web

from sidecar import __version__
from sidecar.api.answers import JSON, error_response
from sidecar.api.assets import ASSET_ROUTE, PAGE_PATH, Assets
from sidecar.api.body import Arriving, read_json_body, wait_with_body
from sidecar.api.connections import keep
from sidecar.api.contexts import http_context
from sidecar.api.counters import Counters
from sidecar.api.dispatch import Call, Dispatcher
from sidecar.api.door import BEARER, HEALTH_PATH, PRINCIPAL, SOCKET_PATH, Door
from sidecar.api.metrics import CONTENT_TYPE, Exposition, Figures
from sidecar.api.websocket import Sockets
from sidecar.domain.authority import Principal
from sidecar.domain.errors import (
    BodyTooLarge,
    BodyTooSlow,
    Forbidden,
    InvalidRequest,
    MethodNotAllowed,
    Overloaded,
    ProviderFailed,
    RouteNotFound,
    SidecarError,
    UnsupportedMedia,
)
from sidecar.domain.requests import begin_request
from sidecar.policy.access import ADMIN_SCOPE
from sidecar.policy.roster import sees_every_agent
from sidecar.wire import frames
from sidecar.wire.openapi import document

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Readiness = Callable[[Principal], tuple[bool, dict[str, object]]]
REQUEST_ID = "X-Request-Id"
COUNTERS = web.AppKey("counters", Counters)
_REASONS: dict[type[SidecarError], str] = {
    RouteNotFound: "path",
    MethodNotAllowed: "method",
    BodyTooLarge: "size",
    BodyTooSlow: "slow-body",
    UnsupportedMedia: "type",
    Overloaded: "overloaded",
}


def build_app(
    *,
    door: Door,
    dispatcher: Dispatcher,
    readiness: Readiness,
    sockets: Sockets | None = None,
    figures: Callable[[], Figures] | None = None,
) -> web.Application:
    """The application that both listeners serve.

    With `/ws` where there are sockets, and `/metrics` where there are figures to show.
    """
    routes = _Routes(dispatcher=dispatcher, readiness=readiness)

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        door.admit(request)
        if PRINCIPAL in request:
            keep(request)
        return await handler(request)

    app = web.Application(middlewares=[_named, _errors, admit])
    app[COUNTERS] = door.counters
    assets = Assets()
    app.router.add_get(PAGE_PATH, assets.page)
    app.router.add_get(ASSET_ROUTE, assets.asset)
    app.router.add_get(HEALTH_PATH, routes.healthz)
    app.router.add_get("/readyz", routes.readyz)
    app.router.add_get("/openapi.json", routes.openapi)
    if figures is not None:
        app.router.add_get("/metrics", _metrics_route(door, figures))
    app.router.add_post("/rpc", routes.rpc, expect_handler=wait_with_body)
    app.router.add_post("/rpc/{method}", routes.rpc_method, expect_handler=wait_with_body)
    if sockets is not None:
        app.router.add_get(SOCKET_PATH, sockets.handle, allow_head=False)
    return app


def _metrics_route(door: Door, figures: Callable[[], Figures]) -> Handler:
    exposition = Exposition(door.counters)

    async def metrics(request: web.Request) -> web.Response:
        now = figures()
        principal = request[PRINCIPAL]
        if not (sees_every_agent(principal, tuple(now.agents)) or ADMIN_SCOPE in principal.scopes):
            refusal = Forbidden("this needs a token for every agent, or the scope operator.admin")
            door.denied(principal, "metrics", refusal.message)
            raise refusal
        return web.Response(body=exposition.render(now), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})

    return metrics


@web.middleware
async def _named(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every request has a name, which its answer and its log lines carry."""
    name = secrets.token_hex(6)
    begin_request(name)
    response = await handler(request)
    if not response.prepared:
        response.headers[REQUEST_ID] = name
    return response


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Whatever is raised becomes one JSON error; nothing of a stack trace leaves the process (spec §4)."""
    try:
        return await handler(request)
    except SidecarError as error:
        return _refusal(request, error)
    except web.HTTPNotFound:
        return _refusal(request, RouteNotFound("no such route"))
    except web.HTTPMethodNotAllowed as error:
        response = _refusal(request, MethodNotAllowed("this route does not take that HTTP method"))
        response.headers[hdrs.ALLOW] = ", ".join(sorted(error.allowed_methods))
        return response
    except web.HTTPRequestEntityTooLarge:
        return _refusal(request, BodyTooLarge("the body is too large"))
    except web.HTTPException as error:
        return _refusal(request, InvalidRequest(HTTPStatus(error.status).phrase))
    except Exception:  # the last line of defence: log it whole, answer with one sentence
        log.exception("unexpected error")
        return error_response(ProviderFailed(frames.INTERNAL))


def _refusal(request: web.Request, error: SidecarError, body: bytes | None = None) -> web.Response:
    """An error's response. Those of the door are counted; who was refused by name is counted there."""
    reason = _REASONS.get(type(error))
    if reason is not None:
        request.app[COUNTERS].refused(reason)
    return error_response(error, body)


class _Routes:
    def __init__(self, *, dispatcher: Dispatcher, readiness: Readiness) -> None:
        self._dispatcher = dispatcher
        self._readiness = readiness
        self._arriving = Arriving()
        self._document = b""

    async def healthz(self, _request: web.Request) -> web.Response:
        return _json({"status": "live"})

    async def readyz(self, request: web.Request) -> web.Response:
        ready, counts = self._readiness(request[PRINCIPAL])
        return _json({"status": "ready" if ready else "starting", **counts}, 200 if ready else 503)

    async def openapi(self, request: web.Request) -> web.Response:
        """The OpenAPI document, made when it is first asked for."""
        if not self._document:
            served = [resource.canonical for resource in request.app.router.resources()]
            made = document(version=__version__, methods=self._dispatcher.names, routes=served)
            self._document = frames.encode_json(made)
        return web.Response(body=self._document, content_type=JSON)

    async def rpc(self, request: web.Request) -> web.Response:
        frame_id = frames.INVALID_ID
        try:
            frame = frames.decode_request(await read_json_body(request, self._arriving))
            frame_id = frame.id
            return await self._answer(request, frame)
        except frames.BadFrame as error:
            return _refusal(request, error, frames.failure(error.id, error))
        except SidecarError as error:
            return _refusal(request, error, frames.failure(frame_id, error))

    async def rpc_method(self, request: web.Request) -> web.Response:
        frame_id = str(uuid.uuid4())
        try:
            params = frames.bare_params(await read_json_body(request, self._arriving))
            frame = frames.RequestFrame(id=frame_id, method=request.match_info["method"], params=params)
            return await self._answer(request, frame)
        except SidecarError as error:
            return _refusal(request, error, frames.failure(frame_id, error))

    async def _answer(self, request: web.Request, frame: frames.RequestFrame) -> web.Response:
        bearer = request[BEARER]
        call = Call(params=frame.params, bearer=bearer, context=http_context(request, bearer))
        payload = await self._dispatcher.call(frame.method, call)
        return web.Response(body=frames.response(frame.id, payload), content_type=JSON)


def _json(payload: dict[str, object], status: int = 200) -> web.Response:
    return web.Response(status=status, body=frames.encode_json(payload), content_type=JSON)

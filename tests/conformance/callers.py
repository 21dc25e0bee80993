"""Ways to call a provider as a host would. All of them give the JSON of the wire, or raise `Refused`.

A caller opens a view for an authority; `None` is what a caller of that kind is by itself (an operator).
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

import aiohttp

from sidecar.domain.authority import Authority, CallerContext, HostOperation, Operator, Session
from sidecar.domain.errors import AccessDenied, SidecarError
from sidecar.domain.memory import GetRequest, Reference, SearchRequest
from sidecar.domain.provider import CandidateRequest
from sidecar.service.binding import BoundHandle, open_bound
from sidecar.wire import encode, frames

Json = dict[str, Any]
OPERATOR = Operator(scopes=("operator.read",))
BRIDGE = Path(__file__).parents[2] / "adapters" / "openclaw" / "test" / "bridge.js"


class Refused(Exception):
    """An error object of the wire."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.details_code = (error.get("details") or {}).get("code")


class View(Protocol):
    """One caller's open view of the provider."""

    async def search(self, **request: Any) -> Json: ...

    async def get(self, reference: Mapping[str, Any], **bounds: int) -> Json: ...

    async def health(self) -> Json: ...

    async def close(self) -> None: ...


class Running:
    """A service in this process with one agent, and everything that a caller needs of it."""

    def __init__(self, *, url: str, state: Path, agent: Any) -> None:
        self.url = url
        self.agent = agent
        self.socket = state / "sidecar.sock"
        self.plugin_host: PluginHost | None = None
        self.operator_token = (state / "operator.token").read_text().strip()
        self.host_token = (state / "host.token").read_text().strip()

    async def call(self, method: str, params: Mapping[str, Any], token: str) -> Json:
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"{self.url}/rpc/{method}",
                data=json.dumps(params).encode(),
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            ) as response,
        ):
            frame = await response.json()
        if not frame["ok"]:
            raise Refused(frame["error"])
        payload: Json = frame["payload"]
        return payload


class BindingCaller:
    """In this process, through the one binding: every authority, every operation, and revocation."""

    name = "binding"
    can: ClassVar = frozenset({"authority", "keys", "candidates", "close", "revoke"})

    def __init__(self, running: Running) -> None:
        self._running = running
        self._current = True

    def revoke(self) -> None:
        self._current = False

    async def open(self, authority: Authority = OPERATOR) -> BindingView:
        def assert_current() -> None:
            if not self._current:
                raise AccessDenied("revoked")

        context = CallerContext(authority=authority, assert_current=assert_current, identity="suite")
        try:
            agent = self._running.agent
            handle = await open_bound(agent.provider, "main", context, "cli", gate=agent.gate)
        except SidecarError as error:
            raise Refused(frames.error_object(error)) from error
        return BindingView(handle)


class BindingView:
    def __init__(self, handle: BoundHandle) -> None:
        self.handle = handle

    async def search(self, **request: Any) -> Json:
        asked = SearchRequest(
            query=request["query"],
            max_results=request.get("maxResults", 20),
            min_score=request.get("minScore"),
            cursor=request.get("cursor"),
            sources=_tuple(request.get("sources")),
            active_project_keys=_tuple(request.get("activeProjectKeys")),
            lexical_only=request.get("lexicalOnly", False),
        )
        return encode.page(await _told(self.handle.search(asked)))

    async def candidates(self, **request: Any) -> Json:
        asked = CandidateRequest(
            kind=request["kind"],
            limit=request.get("limit"),
            active_project_keys=_tuple(request.get("activeProjectKeys")),
        )
        return encode.page(await _told(self.handle.candidates(asked)))

    async def get(self, reference: Mapping[str, Any], **bounds: int) -> Json:
        named = Reference(
            provider_id=reference["providerId"],
            id=reference["id"],
            revision=reference.get("revision"),
            fragment=reference.get("fragment"),
        )
        asked = GetRequest(reference=named, from_line=bounds.get("from_"), line_count=bounds.get("lines"))
        return encode.read(await _told(self.handle.get(asked)))

    async def health(self) -> Json:
        return encode.health(await _told(self.handle.health()))

    async def close(self) -> None:
        await self.handle.close()


class OperatorCaller:
    """`memory.*` over HTTP, which opens and closes for each call."""

    name = "memory"
    can: ClassVar = frozenset({"envelope"})

    def __init__(self, running: Running) -> None:
        self._running = running

    async def open(self) -> OperatorView:
        return OperatorView(self._running)


class OperatorView:
    def __init__(self, running: Running) -> None:
        self._running = running

    async def search(self, **request: Any) -> Json:
        return await self._call("memory.search", {"version": 2, **request})

    async def get(self, reference: Mapping[str, Any], **bounds: int) -> Json:
        return await self._call("memory.get", {"reference": dict(reference), **_bounds(bounds)})

    async def health(self) -> Json:
        return await self._call("memory.status", {})

    async def close(self) -> None:
        """Nothing stays open between calls."""

    async def _call(self, method: str, params: Mapping[str, Any]) -> Json:
        answer = await self._running.call(method, params, self._running.operator_token)
        own = {"version": 2, "agentId": "main", "providerId": self._running.agent.provider.provider_id}
        assert {name: answer.pop(name) for name in own} == own
        return answer


class HostCaller:
    """`provider.*` over HTTP: what a gateway plugin does (spec §4.2)."""

    name = "provider"
    can: ClassVar = frozenset({"authority", "keys", "candidates", "close", "lease"})

    def __init__(self, running: Running) -> None:
        self._running = running

    async def open(self, authority: Authority = OPERATOR) -> HostView:
        params = {"agentId": "main", "purpose": "cli", "authority": _authority(authority)}
        opened = await self._running.call("provider.open", params, self._running.host_token)
        return HostView(self._running, opened)


class HostView:
    def __init__(self, running: Running, opened: Json) -> None:
        self._running = running
        self.opened = opened

    async def search(self, **request: Any) -> Json:
        return await self._call("search", request=request)

    async def candidates(self, **request: Any) -> Json:
        return await self._call("candidates", request=request)

    async def get(self, reference: Mapping[str, Any], **bounds: int) -> Json:
        return await self._call("get", request={"reference": dict(reference), **_bounds(bounds)})

    async def health(self) -> Json:
        return await self._call("health")

    async def refresh(self) -> Json:
        return await self._call("refresh")

    async def close(self) -> None:
        await self._call("close")

    async def _call(self, name: str, **params: Any) -> Json:
        params["lease"] = self.opened["lease"]
        answer = await self._running.call(f"provider.{name}", params, self._running.host_token)
        assert answer.pop("instance") == self.opened["instance"]
        return answer


class PluginHost:
    """A process in which a stub of a gateway has loaded the gateway's plugin; one JSON object a line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._count = 0

    @classmethod
    async def start(cls, running: Running) -> PluginHost:
        node = shutil.which("node")
        assert node is not None, "the gateway's plugin needs Node"
        config = {"socketPath": str(running.socket)}
        given = {"pluginId": running.agent.provider.provider_id, "config": config}
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        return cls(await asyncio.create_subprocess_exec(node, str(BRIDGE), json.dumps(given), **pipes))

    async def ask(self, op: str, **given: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._count += 1
        self._process.stdin.write(json.dumps({"id": self._count, "op": op, **given}).encode() + b"\n")
        await self._process.stdin.drain()
        answer = json.loads(await asyncio.wait_for(self._process.stdout.readline(), 20))
        assert answer["id"] == self._count
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    async def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


class PluginCaller:
    """The gateway's plugin, in a host that binds what it opens (U§4)."""

    name = "plugin"
    can: ClassVar = frozenset({"authority", "keys", "candidates", "close"})

    def __init__(self, running: Running) -> None:
        self._running = running

    async def open(self, authority: Authority = OPERATOR) -> PluginView:
        if self._running.plugin_host is None:
            self._running.plugin_host = await PluginHost.start(self._running)
        host = self._running.plugin_host
        opened = await host.ask("open", authority=_authority(authority))
        return PluginView(host, opened["view"])


class PluginView:
    def __init__(self, host: PluginHost, view: int) -> None:
        self._host = host
        self._view = view

    async def search(self, **request: Any) -> Json:
        return await self._call("search", request)

    async def candidates(self, **request: Any) -> Json:
        return await self._call("candidates", request)

    async def get(self, reference: Mapping[str, Any], **bounds: int) -> Json:
        return await self._call("get", {"reference": dict(reference), **_bounds(bounds)})

    async def health(self) -> Json:
        return await self._call("health")

    async def close(self) -> None:
        await self._call("close")

    async def _call(self, method: str, request: Any = None) -> Json:
        answer: Json = await self._host.ask("call", view=self._view, method=method, request=request)
        return answer


CALLERS: tuple[Any, ...] = (BindingCaller, OperatorCaller, HostCaller, PluginCaller)


def _authority(authority: Authority) -> Json:
    match authority:
        case Operator(scopes=scopes):
            return {"kind": "operator", "scopes": list(scopes)}
        case Session(session_key=key, sandboxed=sandboxed):
            return {"kind": "session", "sessionKey": key, "sandboxed": sandboxed}
        case HostOperation(operation=operation):
            return {"kind": "host", "operation": operation}


def _bounds(bounds: Mapping[str, int]) -> Json:
    return {name.rstrip("_"): value for name, value in bounds.items()}


def _tuple(value: Any) -> Any:
    return None if value is None else tuple(value)


async def _told(call: Any) -> Any:
    try:
        return await call
    except SidecarError as error:
        raise Refused(frames.error_object(error)) from error

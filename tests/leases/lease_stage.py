"""A real server in the test's own loop over a provider of the test's own, and how a host talks to it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from sidecar.api.app import build_app
from sidecar.api.dispatch import Dispatcher
from sidecar.api.door import Door
from sidecar.api.host_methods import ProviderMethods
from sidecar.api.memory_methods import MemoryMethods
from sidecar.api.server import Server
from sidecar.api.websocket import SocketLimits, Sockets
from sidecar.domain.authority import Audience, CallerContext, OwnerPrivate, Principal
from sidecar.domain.errors import AccessDenied, AudienceRefused
from sidecar.domain.memory import (
    Citation,
    Found,
    GetRequest,
    Hit,
    LineRange,
    Page,
    ReadResult,
    Reference,
    SearchRequest,
)
from sidecar.domain.provider import CandidateRequest, Capabilities, Health
from sidecar.domain.sessions import NOT_MINTED, AudienceBinding
from sidecar.service.binding import Deadlines
from sidecar.service.leases import Leases

HOST, OTHER_HOST, OPERATOR = "host-secret-0123456789", "other-secret-0123456789", "operator-secret-0123456789"
READ = ("operator.read",)
AS_OPERATOR = {"kind": "operator", "scopes": ["operator.read"]}
OWN = Reference(provider_id="records", id="r1")
Act = Callable[[], Awaitable[None]]


async def nothing() -> None:
    """Provider code that does nothing on its way."""


def hit(**changed: Any) -> Hit:
    fields: dict[str, Any] = {
        "reference": OWN, "excerpt": "a record", "path": "r1", "lines": LineRange(1, 1), "score": 1.0,
        "source": "memory",
    }  # fmt: skip
    return Hit(**fields | changed)


class Provider:
    """Records only; it counts what reaches it, and does to a call what the test tells it to."""

    provider_id = "records"

    def __init__(self, **capabilities: Any) -> None:
        declared: dict[str, Any] = {
            "sources": ("memory",), "pagination": False, "candidates": (), "project_filter": False,
        }  # fmt: skip
        self.capabilities = Capabilities(**declared | capabilities)
        self.calls: list[str] = []
        self.contexts: list[CallerContext] = []
        self.opened = self.closed = self.cancelled = 0
        self.running = 0
        self.act: Act = nothing
        self.on_open: Act = nothing
        self.on_close: Act = nothing
        self.page: Any = Page(hits=(hit(),))
        self.read: Any = Found(reference=OWN, text="a record", citations=(Citation(label="r1"),))
        self.told: Any = Health(status="ready")

    async def open(self, _agent_id: str, context: CallerContext, _purpose: str) -> Any:
        self.contexts.append(context)
        await self.on_open()
        self.opened += 1
        return Handle(self) if not self.capabilities.candidates else CandidateHandle(self)


class Handle:
    """An open handle of the provider."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.capabilities = provider.capabilities

    async def search(self, _request: SearchRequest) -> Page:
        await self._called("search")
        page: Page = self.provider.page
        return page

    async def get(self, _request: GetRequest) -> ReadResult:
        await self._called("get")
        read: ReadResult = self.provider.read
        return read

    async def health(self) -> Health:
        await self._called("health")
        told: Health = self.provider.told
        return told

    async def close(self) -> None:
        self.provider.closed += 1
        await self.provider.on_close()

    async def _called(self, name: str) -> None:
        provider = self.provider
        provider.calls.append(name)
        provider.running += 1
        try:
            await provider.act()
        except asyncio.CancelledError:
            provider.cancelled += 1
            raise
        finally:
            provider.running -= 1


class CandidateHandle(Handle):
    """One that declares candidates and can refresh."""

    async def candidates(self, _request: CandidateRequest) -> Page:
        await self._called("candidates")
        page: Page = self.provider.page
        return page

    async def refresh(self) -> None:
        await self._called("refresh")


class Served:
    """What the methods need of an agent."""

    manager = None
    gate = None

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    async def refresh(self, *, rebuild: bool, purge: bool) -> dict[str, object]:
        return {"rebuild": rebuild, "purge": purge}


class Minted:
    """The audiences of a host that minted what the test says."""

    def __init__(self) -> None:
        self.known: dict[str, Audience] = {"h1": OwnerPrivate(agent_id="main")}
        self.bound: list[dict[str, Any]] = []
        self.ended: list[str] = []
        self.opened: list[bool] = []
        self.refusal: str | None = None
        self.settled = 0
        self.on_settle: Act = nothing

    def bind(self, handle: str, **whom: Any) -> AudienceBinding:
        if handle not in self.known:
            raise AccessDenied(NOT_MINTED)
        self.bound.append({"handle": handle, **whom})
        return Bound(self, self.known[handle])

    def released(self, lease: str, *, opened: bool = True) -> None:
        self.ended.append(lease)
        self.opened.append(opened)


class Bound:
    """One binding of a minted audience."""

    def __init__(self, minted: Minted, audience: Audience) -> None:
        self._minted = minted
        self.audience = audience

    def assert_current(self) -> None:
        if self._minted.refusal is not None:
            raise AudienceRefused(self._minted.refusal)

    async def settle(self) -> None:
        self._minted.settled += 1
        await self._minted.on_settle()


class Stage:
    """The service around one provider: agents `main` and `spare`, three tokens, a clock that stands still."""

    def __init__(
        self, provider: Provider, *, deadline: float = 20.0, limits: SocketLimits | None = None, **bounds: int
    ) -> None:
        self.provider = provider
        self.agents = {"main": Served(provider), "spare": Served(Provider())}
        self.audiences = Minted()
        self.now = 1000.0
        self.tokens = {
            HOST: Principal(name="gateway", role="host", scopes=READ),
            OTHER_HOST: Principal(name="other", role="host", scopes=READ, agents=("main",)),
            OPERATOR: Principal(name="person", role="operator", scopes=READ),
        }
        deadlines = Deadlines(call=deadline)
        self.leases = Leases(audiences=self.audiences, deadlines=deadlines, clock=lambda: self.now, **bounds)
        dispatcher = Dispatcher(
            MemoryMethods(self.agents, "main", deadlines=deadlines).table()
            | ProviderMethods(self.agents, self.leases).table(),
            instance="this-process",
        )
        door = Door(match=lambda secret: self.tokens.get(secret), allowed_hosts=(), allowed_origins=())
        self.sockets = Sockets(door=door, dispatcher=dispatcher, limits=limits or SocketLimits())
        self.server = Server(
            build_app(door=door, dispatcher=dispatcher, readiness=lambda _: (True, {}), sockets=self.sockets),
            wind_down=self.sockets.wind_down,
        )
        self.url = ""
        self.http: aiohttp.ClientSession

    async def post(self, method: str, params: object, *, token: str = HOST) -> tuple[int, Any]:
        """Status and frame of `POST /rpc/{method}`."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        async with self.http.post(
            f"{self.url}/rpc/{method}", data=json.dumps(params).encode(), headers=headers
        ) as response:
            return response.status, await response.json()

    async def call(self, method: str, params: object, *, token: str = HOST) -> Any:
        """The payload of a call that must succeed."""
        status, frame = await self.post(method, params, token=token)
        assert status == 200, frame
        return frame["payload"]

    async def error(self, method: str, params: object, *, token: str = HOST) -> Any:
        """The error of a call that must fail."""
        _, frame = await self.post(method, params, token=token)
        assert frame["ok"] is False, frame
        return frame["error"]

    async def open(self, *, token: str = HOST, **params: Any) -> str:
        """A lease on `main`, for an operator unless told otherwise."""
        asked = {"agentId": "main", "authority": AS_OPERATOR} | params
        lease: str = (await self.call("provider.open", asked, token=token))["lease"]
        return lease

    @asynccontextmanager
    async def socket(self, token: str | None = HOST) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A socket that is authorised by its header, or by nothing yet."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self.http.ws_connect(f"{self.url}/ws", headers=headers, max_msg_size=0) as socket:
            yield socket


async def ask(socket: aiohttp.ClientWebSocketResponse, method: str, params: object, *, id_: str = "1") -> Any:
    """One request and its answer on a socket that has nothing else in flight."""
    await socket.send_json({"type": "req", "id": id_, "method": method, "params": params})
    return await socket.receive_json(timeout=20)


@asynccontextmanager
async def staged(provider: Provider | None = None, **options: Any) -> AsyncIterator[Stage]:
    """A running stage."""
    stage = Stage(provider or Provider(), **options)
    port = await stage.server.start(host="127.0.0.1", port=0, socket_path=None)
    stage.url = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession() as stage.http:
        try:
            yield stage
        finally:
            await stage.server.stop()
            await stage.leases.aclose()


def descriptors(pid: int | None = None) -> int:
    """How many files a process has open."""
    return len(os.listdir(f"/proc/{pid or os.getpid()}/fd"))  # noqa: PTH208

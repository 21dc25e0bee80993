"""Stands between an import and a store: keeps one write from arriving, or from being answered."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import aiohttp
from aiohttp import web

REMEMBER = "/v1/memory/remember"


class Relay:
    """Passes every request on. The `nth` write is held before it is sent on, or before its answer is, until
    `release`; then its connection ends without a word."""

    def __init__(self, store: Any, *, held: Literal["request", "answer"], nth: int) -> None:
        self.token = store.token
        self.reached = asyncio.Event()
        self.release = asyncio.Event()
        self.over = asyncio.Event()
        self.looked = asyncio.Event()
        """Somebody listed what the store holds while the write was held."""
        self._store = store
        self._held = held
        self._nth = nth
        self._writes = 0
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    @property
    def url(self) -> str:
        assert self._runner is not None
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def __aenter__(self) -> Relay:
        self._session = aiohttp.ClientSession()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        assert self._session is not None
        self.release.set()
        await self._runner.cleanup()
        await self._session.close()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.path == REMEMBER:
            self._writes += 1
            if self._writes == self._nth:
                return await self._hold(request, body)
        elif request.path.endswith("/list") and self.reached.is_set():
            answer = await self._send(request, body)
            self.looked.set()
            return answer
        return await self._send(request, body)

    async def _hold(self, request: web.Request, body: bytes) -> web.StreamResponse:
        if self._held == "answer":
            answer = await self._send(request, body)
            assert answer.status == 200
        self.reached.set()
        await self.release.wait()
        if self._held == "request":
            answer = await self._send(request, body)
            assert answer.status == 200
        self.over.set()
        if request.transport is not None:
            request.transport.close()
        return web.Response()

    async def _send(self, request: web.Request, body: bytes) -> web.Response:
        assert self._session is not None
        kept = ("Authorization", "Content-Type")
        async with self._session.request(
            request.method,
            self._store.url + request.path_qs,
            data=body,
            headers={name: request.headers[name] for name in kept if name in request.headers},
        ) as response:
            return web.Response(
                status=response.status, body=await response.read(), content_type=response.content_type
            )

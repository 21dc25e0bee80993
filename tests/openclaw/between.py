"""Stands between the gateway and a real sidecar and keeps single methods from being answered."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import aiohttp
from aiohttp import web


class Between:
    """Passes every request on, but for those whose method is in `broken`: their connection just ends."""

    def __init__(self, path: Path, sidecar: Path) -> None:
        self.path = path
        self.broken: frozenset[str] = frozenset()
        self.asked: list[str] = []
        self._sidecar = sidecar
        self._loop = asyncio.new_event_loop()
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None
        self._thread = threading.Thread(target=self._loop.run_forever)

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(20)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> None:
        self._session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=str(self._sidecar)))
        app = web.Application()
        app.router.add_post("/rpc/{method}", self._pass_on)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self.path)).start()

    async def _close(self) -> None:
        assert self._runner is not None
        assert self._session is not None
        await self._runner.cleanup()
        await self._session.close()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        self.asked.append(method)
        if method in self.broken:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        assert self._session is not None
        async with self._session.post(
            f"http://localhost{request.path}",
            data=await request.read(),
            headers={name: request.headers[name] for name in ("Authorization", "Content-Type")},
        ) as response:
            return web.Response(
                status=response.status, body=await response.read(), content_type="application/json"
            )

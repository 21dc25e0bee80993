"""The least that an HTTP service can do: read a body, answer 6 KB. A floor of the speed benchmark."""

from __future__ import annotations

import asyncio
import sys

import uvloop
from aiohttp import web

ANSWER = b"x" * 6000


async def serve() -> None:
    """Serve on a free port of loopback, which is printed, until the process is ended."""

    async def handler(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=ANSWER, content_type="application/json")

    app = web.Application()
    app.router.add_post("/", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve())

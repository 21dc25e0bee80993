"""An OpenAI-compatible embedding endpoint over the bundled model: its vectors mean what the texts say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from aiohttp import web

from sidecar.embedding.local import LocalEmbedder

PROBE = "memory"
Fault = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse | None]]


class Endpoint:
    """Answers `POST /v1/embeddings`. `fault` may answer in its place; `texts` counts what it embedded."""

    def __init__(self) -> None:
        self.model: str | None = "tiny"
        self.dimensions = 64
        self.turned = False
        self.fault: Fault | None = None
        self.texts: Counter[str] = Counter()
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def embedded(self) -> Counter[str]:
        """How often each text was embedded, probes left out."""
        return Counter({text: count for text, count in self.texts.items() if text != PROBE})

    async def start(self) -> None:
        """Listen, on the port of last time if there was one."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/embeddings", self._answer)
        app.router.add_post("/elsewhere", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Go away; connections are refused from now on."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def vectors(self, texts: list[str]) -> list[list[float]]:
        """What it gives for texts: not of length 1."""
        matrix = model(self.dimensions).embed(texts) * 3
        matrix[:, 0] += (abs(matrix).sum(axis=1) == 0).astype(matrix.dtype)
        return [(row[::-1] if self.turned else row).tolist() for row in matrix]

    def body(self, texts: list[str]) -> dict[str, Any]:
        """A right answer."""
        data = [
            {"object": "embedding", "index": index, "embedding": vector}
            for index, vector in enumerate(self.vectors(texts))
        ]
        named = {"model": self.model} if self.model is not None else {}
        return {"object": "list", "data": data, **named, "usage": {"prompt_tokens": 1, "total_tokens": 1}}

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = json.loads(await request.read())
        self.asked.append(asked)
        self.headers.append(dict(request.headers))
        if self.fault is not None:
            answer = await self.fault(request, asked)
            if answer is not None:
                return answer
        self.texts.update(asked["input"])
        return web.json_response(self.body(asked["input"]))


@cache
def model(dimensions: int) -> LocalEmbedder:
    """The bundled model, loaded once for all tests."""
    return LocalEmbedder(dimensions=dimensions)


def status(code: int, *, body: object = None, **headers: str) -> Fault:
    """A fault that answers with a status."""

    async def fault(_request: web.Request, _asked: dict[str, Any]) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(body or {"error": {"message": "sk-secret-key"}}, status=code, headers=named)

    return fault


def raw(content: bytes) -> Fault:
    """A fault that answers 200 with these bytes."""

    async def fault(_request: web.Request, _asked: dict[str, Any]) -> web.StreamResponse:
        return web.Response(body=content, content_type="application/json")

    return fault

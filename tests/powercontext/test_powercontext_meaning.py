"""Search by meaning on the real server, with an embedding service of our own on loopback (slow suite)."""

from __future__ import annotations

import hashlib
import math
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from sidecar.domain.memory import SearchRequest

pytestmark = pytest.mark.slow

DIMENSIONS = 32
SAME = {"physician": "doctor", "automobile": "car"}
KEY = "openclaw:agent:main"


def vector(text: str) -> list[float]:
    """A unit vector of the words of a text, where a word and its synonym are one."""
    values = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()):
        digest = hashlib.sha256(SAME.get(word, word).encode()).digest()
        for place in range(DIMENSIONS):
            values[place] += digest[place] - 127.5
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    return [value / length for value in values]


class Embeddings:
    """`POST /v1/embeddings` that can be told to fail."""

    failing = False

    async def answer(self, request: web.Request) -> web.Response:
        if self.failing:
            return web.json_response({"error": {"message": "down"}}, status=500)
        body = await request.json()
        inputs = [body["input"]] if isinstance(body["input"], str) else body["input"]
        data = [
            {"object": "embedding", "index": index, "embedding": vector(text)}
            for index, text in enumerate(inputs)
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return web.json_response({"object": "list", "model": body["model"], "data": data, "usage": usage})


@pytest.fixture
async def embeddings() -> AsyncIterator[Any]:
    service = Embeddings()
    app = web.Application()
    app.router.add_post("/v1/embeddings", service.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield service, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    await runner.cleanup()


@pytest.fixture
async def hybrid(embeddings: Any, tmp_path: Path) -> AsyncIterator[Any]:
    """A real server with vectors; needs an interpreter whose sqlite3 loads extensions."""
    import asyncio

    from real_server import RealServer, command

    python = Path(command()).with_name("python")
    able = "import sqlite3, sys; sys.exit(not hasattr(sqlite3.Connection, 'enable_load_extension'))"
    if subprocess.run([python, "-c", able], check=False).returncode != 0:
        pytest.skip("the server's interpreter cannot load the vector extension of SQLite")
    prefix = "POWERCONTEXT_SERVER_INFERENCE_EMBEDDING_"
    environment = {
        f"{prefix}MODEL": "openai:test-embedding",
        f"{prefix}BASE_URL": embeddings[1],
        f"{prefix}PROFILE_ID": "test",
        f"{prefix}DIMENSION": str(DIMENSIONS),
        f"{prefix}TIMEOUT_SECONDS": "20",
        "OPENAI_API_KEY": "none-is-needed-here",
    }
    server = RealServer(tmp_path, **environment)
    try:
        await asyncio.to_thread(server.start)
        yield server
    finally:
        await asyncio.to_thread(server.stop)


async def test_meaning_is_scored_by_the_cosine_and_its_loss_is_told_and_heals(
    hybrid: Any, embeddings: Any, open_handle: Any
) -> None:
    from agent_memory import AgentMemory

    async with aiohttp.ClientSession() as session:
        memory = AgentMemory(hybrid.url, hybrid.token, session)
        await memory.remember(KEY, "physician appointment Tuesday")
        await memory.remember(KEY, "winter tyres garage")
    handle = await open_handle(hybrid, search_timeout_seconds=20, timeout_seconds=20)
    health = await handle.health()
    assert (health.status, health.details["searchMode"]) == ("ready", "hybrid")
    query = "doctor appointment Tuesday"
    page = await handle.search(SearchRequest(query=query))
    assert (page.coverage, page.warning) == ("complete", None)
    best = page.hits[0]
    assert best.excerpt == "physician appointment Tuesday"
    # Two words of three in common would be 0.667: the third is there by its meaning.
    assert best.score == best.parts.vector
    assert 0.7 < best.score <= 1
    assert best.parts.text == pytest.approx(2 / 3)
    for minimum, count in ((best.score - 0.001, 1), (best.score + 0.001, 0)):
        strict = await handle.search(SearchRequest(query=query, min_score=minimum))
        assert len(strict.hits) == count
    words = await handle.search(SearchRequest(query=query, lexical_only=True))
    assert [hit.score for hit in words.hits] == pytest.approx([2 / 3])
    embeddings[0].failing = True
    degraded = await handle.search(SearchRequest(query=query))
    assert [hit.excerpt for hit in degraded.hits] == ["physician appointment Tuesday"]
    assert (degraded.coverage, degraded.warning) == ("partial", "degraded: vector unavailable")
    assert (await handle.health()).status == "degraded"
    embeddings[0].failing = False
    healed = await handle.search(SearchRequest(query=query))
    assert (healed.coverage, healed.hits[0].score) == ("complete", pytest.approx(best.score))
    assert (await handle.health()).status == "ready"

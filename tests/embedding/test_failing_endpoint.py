"""What a failing endpoint costs while it fails, and that it heals without a restart (spec §7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from embedding_endpoint import Endpoint, raw, status
from filled_agents import Start, opened, whole, write_all
from index_builders import found_by_words

from sidecar.domain.errors import EmbeddingFailed
from sidecar.embedding.circuit import Circuit

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (status(500), "is failing (500)"),
        (status(401), "does not accept the API key (401)"),
        (status(429, Retry_After="0.3"), "is asked too often (429)"),
        (raw(b"<html>"), "gave a web page instead of JSON"),
        (raw(b'{"data": []}'), "gave 0 vectors"),
        (raw(b'{"data": [{"embedding": [NaN]}]}'), "gave numbers that are not finite"),
    ],
)
async def test_a_failing_endpoint_costs_meaning_alone_and_heals_without_a_restart(
    endpoint: Endpoint, start: Start, eventually: Any, fault: Any, reason: str
) -> None:
    endpoint.fault = fault
    agent = await start()
    await write_all(agent)
    await opened(agent, eventually)
    assert reason in agent.embeddings.gaps()[0]
    assert found_by_words(agent.index.view(), "banana") == {("fruit.md", 1)}
    details = agent.embeddings.details()
    assert (details["searchMode"], details["pending"]) == ("fts-only", 3)
    assert reason in str(details["reason"])
    endpoint.fault = None
    await whole(agent, eventually)
    assert await agent.nearest("boats") == "sea.md"


async def test_a_used_up_quota_is_asked_rarely(endpoint: Endpoint, start: Start, eventually: Any) -> None:
    """BR-47."""
    endpoint.fault = status(429, body={"error": {"code": "insufficient_quota"}})
    agent = await start(circuit=Circuit())
    await agent.write("a.md", *[f"word number {n}" for n in range(30)])
    await opened(agent, eventually)
    for _ in range(5):
        meaning = await agent.embeddings.of_query(agent.index.view(), "word", [])
        assert "quota is used up" in str(meaning.gaps)
        await agent.write("b.md", "more")
    assert len(endpoint.asked) == 1
    assert agent.guard.circuit.due_in > 20


async def test_a_search_does_not_ask_an_endpoint_that_is_known_to_fail(
    endpoint: Endpoint, start: Start, eventually: Any
) -> None:
    agent = await start()
    await write_all(agent)
    await whole(agent, eventually)
    agent.guard.circuit = Circuit()
    endpoint.fault = status(403)
    view = agent.index.view()
    assert (await agent.embeddings.of_query(view, "boats", [])).gaps
    asked = len(endpoint.asked)
    for _ in range(50):
        assert (await agent.embeddings.of_query(view, "boats", [])).vector is None
    assert len(endpoint.asked) == asked


async def test_a_search_waits_for_its_vector_only_briefly(
    endpoint: Endpoint, start: Start, eventually: Any
) -> None:
    agent = await start(query_seconds=0.1)
    await write_all(agent)
    await whole(agent, eventually)

    async def hang(_request: web.Request, _asked: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    endpoint.fault = hang
    async with asyncio.timeout(2):
        meaning = await agent.embeddings.of_query(agent.index.view(), "boats", [])
    assert meaning.vector is None
    assert "gave no vector for a query within 0.1 s" in str(meaning.gaps)


async def test_a_failing_endpoint_refuses_the_query_where_that_is_asked_for(
    endpoint: Endpoint, start: Start, eventually: Any
) -> None:
    agent = await start(on_failure="error")
    await write_all(agent)
    await whole(agent, eventually)
    assert await agent.nearest("boats") == "sea.md"
    await endpoint.stop()
    for _ in range(3):
        with pytest.raises(EmbeddingFailed, match=r"the (connection to the )?embedding endpoint"):
            await agent.nearest("boats")
    await endpoint.start()
    await whole(agent, eventually)
    assert await agent.nearest("boats") == "sea.md"


async def test_a_text_that_the_endpoint_cannot_embed_holds_up_no_other(
    endpoint: Endpoint, start: Start, eventually: Any
) -> None:
    async def poison(_request: web.Request, asked: dict[str, Any]) -> web.StreamResponse | None:
        poisoned = any("poison" in text for text in asked["input"])
        return await status(500)(_request, asked) if poisoned else None

    endpoint.fault = poison
    agent = await start()
    lines = [f"a good thing {n}" for n in range(6)]
    await agent.write("a.md", *lines[:3], "the poison of a frog", *lines[3:])
    await whole(agent, eventually)
    details = agent.embeddings.details()
    assert (details["pending"], details["refused"]) == (1, 1)
    assert "is failing (500)" in str(details["refusal"])
    assert endpoint.embedded == dict.fromkeys(lines, 1)


async def test_a_note_that_goes_while_it_is_embedded_does_not_come_back(
    endpoint: Endpoint, start: Start, eventually: Any
) -> None:
    agent = await start()
    await whole(agent, eventually)
    go = asyncio.Event()

    async def slow(_request: web.Request, _asked: dict[str, Any]) -> None:
        await go.wait()

    endpoint.fault = slow
    asked = len(endpoint.asked)
    await agent.write("gone.md", "a volcano")

    async def asking() -> bool:
        return len(endpoint.asked) > asked

    await eventually(asking)
    await agent.index.apply(removals=["gone.md"])
    await agent.write("kept.md", "a forest")
    go.set()
    await whole(agent, eventually)
    view = agent.index.view()
    assert set(view.paths) == {"kept.md"}
    assert view.vectors is not None
    assert view.vectors.count == 1

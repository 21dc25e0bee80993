"""Vectors of an endpoint come behind the words, each text once, whatever fails meanwhile (spec §7)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from embedding_endpoint import PROBE, Endpoint, status
from filled_agents import NOTES, Agent, Start, opened, probe_vector, whole, write_all
from index_builders import found_by_words, open_index

from sidecar.embedding.contract import EmbeddingIdentity

pytestmark = pytest.mark.slow


async def test_every_text_is_embedded_once_and_found_by_meaning(
    endpoint: Endpoint, start: Start, eventually: Any
) -> None:
    agent = await start()
    await write_all(agent)
    await agent.write("copy.md", NOTES["car.md"])
    await whole(agent, eventually)
    assert await agent.nearest("bananas and other fruit") == "fruit.md"
    assert await agent.nearest("boats") == "sea.md"
    queries = {"bananas and other fruit", "boats"}
    assert {t: n for t, n in endpoint.embedded.items() if t not in queries} == dict.fromkeys(
        NOTES.values(), 1
    )
    details = agent.embeddings.details()
    assert details == {
        "provider": "openai-compatible", "model": "tiny", "dimensions": 64,
        "searchMode": "hybrid", "pending": 0, "circuit": "closed",
    }  # fmt: skip


async def test_words_do_not_wait_for_a_slow_endpoint(
    endpoint: Endpoint, start: Start, eventually: Any
) -> None:
    go = asyncio.Event()

    async def slow(_request: web.Request, _asked: dict[str, Any]) -> None:
        await go.wait()

    endpoint.fault = slow
    agent = await start()
    await write_all(agent)
    assert found_by_words(agent.index.view(), "banana") == {("fruit.md", 1)}
    assert agent.embeddings.gaps() == ("3 passages cannot be found by meaning yet",)
    assert agent.embeddings.details()["pending"] == 3
    assert not endpoint.embedded
    go.set()
    await whole(agent, eventually)
    assert await agent.nearest("fruit") == "fruit.md"


async def test_a_restart_in_the_middle_embeds_only_what_is_missing(
    endpoint: Endpoint, start: Start, eventually: Any
) -> None:
    lines = [f"the subject number {n}" for n in range(100)]
    answered = 0

    async def stuck_after_one(_request: web.Request, asked: dict[str, Any]) -> None:
        nonlocal answered
        if asked["input"] != [PROBE]:
            answered += 1
            if answered > 1:
                await asyncio.Event().wait()

    endpoint.fault = stuck_after_one
    first = await start()
    await first.write("a.md", *lines)

    async def part_is_there() -> bool:
        return first.index.model is not None and 0 < first.index.waiting() < 100

    await eventually(part_is_there)
    missing = first.index.waiting()
    await first.stop()
    before = endpoint.embedded.total()
    assert before == 100 - missing
    endpoint.fault = None
    second = await start()
    await whole(second, eventually)
    assert endpoint.embedded == dict.fromkeys(lines, 1)
    await second.stop()
    third = await start()
    await whole(third, eventually)
    assert endpoint.embedded.total() == 100


@pytest.mark.parametrize("change", ["name", "dimensions"])
async def test_a_model_that_changes_under_us_is_noticed_by_a_query_and_every_vector_is_made_anew(
    endpoint: Endpoint, start: Start, eventually: Any, change: str
) -> None:
    agent = await start()
    await write_all(agent)
    await whole(agent, eventually)
    if change == "name":
        endpoint.model = "tiny-v2"
    else:
        endpoint.dimensions = 128
    meaning = await agent.embeddings.of_query(agent.index.view(), "boats", [])
    assert meaning.vector is None
    assert meaning.gaps == ("meaning was not searched: the embedding model has changed",)
    assert found_by_words(agent.index.view(), "banana") == {("fruit.md", 1)}
    before = agent.index.model

    async def changed() -> bool:
        return agent.whole and agent.index.model != before

    await eventually(changed)
    assert await agent.nearest("boats") == "sea.md"
    assert {endpoint.embedded[text] for text in NOTES.values()} == {2}
    endpoint.model, endpoint.dimensions = "tiny", 64
    await agent.write("new.md", "a mountain with snow")

    async def back() -> bool:
        return agent.whole and agent.index.model == before

    await eventually(back)
    assert await agent.nearest("boats") == "sea.md"
    assert {endpoint.embedded[text] for text in NOTES.values()} == {2}, "the earlier vectors were kept"


@pytest.mark.parametrize("noticed", ["at a start", "after a failure"])
async def test_other_weights_under_the_same_name_make_every_vector_anew(
    endpoint: Endpoint, start: Start, eventually: Any, noticed: str
) -> None:
    agent = await start()
    await write_all(agent)
    await whole(agent, eventually)
    if noticed == "at a start":
        await agent.stop()
    else:
        endpoint.fault = status(401)
        await agent.nearest("boats")
        assert agent.circuit == "open"
    endpoint.turned = True
    endpoint.fault = None
    if noticed == "at a start":
        agent = await start()

    async def made_anew() -> bool:
        return agent.whole and {endpoint.embedded[text] for text in NOTES.values()} == {2}

    await eventually(made_anew)
    assert await agent.nearest("boats") == "sea.md"
    assert "tiny gives other vectors than before; all of them are made anew" in agent.index.repairs
    await agent.stop()
    agent = await start()
    await whole(agent, eventually)
    assert {endpoint.embedded[text] for text in NOTES.values()} == {2}


@pytest.mark.parametrize(("name", "vector"), [("tiny", [1.0, 2.0]), ("strange", [1.0] + [0.0] * 63)])
async def test_one_odd_answer_is_not_taken_for_another_model(
    endpoint: Endpoint, start: Start, eventually: Any, name: str, vector: list[float]
) -> None:
    agent = await start()
    await write_all(agent)
    await whole(agent, eventually)
    odd = True

    async def fault(_request: web.Request, asked: dict[str, Any]) -> web.StreamResponse | None:
        nonlocal odd
        if not odd:
            return None
        odd = False
        return web.json_response({"model": name, "data": [{"embedding": vector} for _ in asked["input"]]})

    endpoint.fault = fault
    await agent.write("new.md", "a mountain with snow")
    await whole(agent, eventually)
    assert agent.index.model is not None
    assert (agent.index.model.name, agent.index.model.dimensions) == ("tiny", 64)
    assert endpoint.embedded["a mountain with snow"] == 1
    assert await agent.nearest("mountains") == "new.md"
    assert {endpoint.embedded[text] for text in NOTES.values()} == {1}


async def test_agents_share_an_endpoint_and_its_circuit(
    endpoint: Endpoint, start: Start, tmp_path: Path, eventually: Any
) -> None:
    first = await start()
    other = Agent(await open_index(tmp_path / "other", model=None, awaits_model=True), first.guard)
    try:
        await first.write("a.md", "a banana")
        await other.write("b.md", "an engine")
        await whole(first, eventually)
        await whole(other, eventually)
        endpoint.fault = status(500)
        await first.write("a.md", "a pear")
        await opened(first, eventually)
        assert other.embeddings.gaps()
        endpoint.fault = None
        await whole(first, eventually)
        assert await other.nearest("motors") == "b.md"
    finally:
        other.task.cancel()
        await asyncio.gather(other.task, return_exceptions=True)


async def test_another_model_of_the_settings_finds_its_own_vectors_only(
    endpoint: Endpoint, tmp_path: Path, start: Start, eventually: Any
) -> None:
    agent = await start()
    await write_all(agent)
    await whole(agent, eventually)
    await agent.stop()
    index = await open_index(tmp_path / "index", model=None, awaits_model=True)
    assert index.view().vectors is None
    assert index.view().model is None
    assert await index.pending_blocks(10) == []
    assert found_by_words(index.view(), "banana") == {("fruit.md", 1)}
    await index.adopt(EmbeddingIdentity("other", 8), np.eye(8, dtype=np.float32)[0])
    assert len(await index.pending_blocks(10)) == 3
    await index.adopt(EmbeddingIdentity("tiny", 64), probe_vector(endpoint))
    view = index.view()
    assert view.vectors is not None
    assert (view.vectors.count, await index.pending_blocks(10)) == (3, [])
    assert np.isfinite(view.vectors.vectors(np.arange(3))).all()
    await index.close()

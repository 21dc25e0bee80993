"""Vectors of an endpoint come behind the words, each text once, whatever fails meanwhile (spec §7)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from embedding_endpoint import PROBE, Endpoint, raw, status
from index_builders import document, found_by_words, open_index
from sidecar.adapters.openai_embeddings import OpenAiEmbeddings

from sidecar.domain.errors import EmbeddingFailed
from sidecar.embedding.circuit import Circuit
from sidecar.embedding.contract import EmbeddingIdentity
from sidecar.embedding.guarded import GuardedEmbedder
from sidecar.index.agent_index import AgentIndex
from sidecar.service.embeddings import Embeddings

pytestmark = pytest.mark.slow


class Agent:
    """An index with its embeddings and the task that fills them in."""

    def __init__(self, index: AgentIndex, guard: GuardedEmbedder, **options: Any) -> None:
        self.index = index
        self.guard = guard
        self.embeddings = Embeddings(provider="openai-compatible", embedder=guard, index=index, **options)
        self.task = asyncio.create_task(self.embeddings.run())

    async def write(self, path: str, *lines: str) -> None:
        """Publish a note, as the indexer does."""
        doc = document(path, *lines)
        vectors = await self.embeddings.immediate({block.hash: block.text for block in doc.blocks})
        await self.index.apply([doc], vectors=vectors)
        self.embeddings.wake()

    async def nearest(self, text: str) -> str | None:
        """The path of the block that is nearest to a query, if the query got a vector."""
        view = self.index.view()
        meaning = await self.embeddings.of_query(view, text, [])
        if meaning.vector is None or view.vectors is None:
            return None
        rows, _ = view.vectors.search(meaning.vector, 1)
        return view.documents[int(view.vectors.document_id[rows[0]])].path if len(rows) else None

    @property
    def whole(self) -> bool:
        return not self.embeddings.gaps() and self.index.model is not None

    @property
    def circuit(self) -> str:
        return self.guard.circuit.state

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.index.close()
        await self.guard.close()


Start = Callable[..., Any]


@pytest.fixture
async def start(endpoint: Endpoint, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts agents over the same directory, with short pauses."""
    running: list[Agent] = []

    async def started(*, query_seconds: float = 3.0, circuit: Circuit | None = None, **options: Any) -> Agent:
        client = OpenAiEmbeddings(base_url=endpoint.base_url, model="tiny", timeout_seconds=5)
        guard = GuardedEmbedder(
            client,
            circuit=circuit or Circuit(first_pause=0.1, lasting_pause=0.4),
            query_seconds=query_seconds,
        )
        index = await open_index(tmp_path / "index", model=None, awaits_model=True)
        agent = Agent(index, guard, **options)
        running.append(agent)
        return agent

    yield started
    for agent in running:
        await agent.stop()


NOTES = {"fruit.md": "a ripe banana", "car.md": "an engine with oil", "sea.md": "a ship in the harbour"}


def probe_vector(endpoint: Endpoint) -> np.ndarray[Any, np.dtype[np.float32]]:
    row = np.array(endpoint.vectors([PROBE])[0], np.float32)
    return row / np.linalg.norm(row)


async def write_all(agent: Agent) -> None:
    for path, line in NOTES.items():
        await agent.write(path, line)


async def whole(agent: Agent, eventually: Any) -> None:
    async def check() -> bool:
        assert not agent.task.done()
        return agent.whole

    await eventually(check, pause=0.01)


async def opened(agent: Agent, eventually: Any) -> None:
    async def check() -> bool:
        return agent.circuit != "closed"

    await eventually(check, pause=0.005)


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

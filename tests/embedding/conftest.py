"""A real embedding endpoint on loopback for the tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sidecar.embedding.circuit import Circuit
from sidecar.embedding.guarded import GuardedEmbedder

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "index"))

if TYPE_CHECKING:
    from embedding_endpoint import Endpoint


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    """An endpoint that works, until a test gives it a fault."""
    from embedding_endpoint import Endpoint

    started = Endpoint()
    await started.start()
    yield started
    await started.stop()


@pytest.fixture(autouse=True)
async def _no_index_stays_open() -> AsyncIterator[None]:
    from index_builders import close_all

    yield
    await close_all()


@pytest.fixture
async def start(endpoint: Endpoint, tmp_path: Path) -> AsyncIterator[Any]:
    """Starts agents over the same directory, with short pauses."""
    from filled_agents import Agent
    from index_builders import open_index
    from sidecar.adapters.openai_embeddings import OpenAiEmbeddings

    running: list[Agent] = []

    async def started(*, query_seconds: float = 3.0, circuit: Circuit | None = None, **options: Any) -> Any:
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

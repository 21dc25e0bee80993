"""An index whose vectors come from an endpoint behind its words, and what a test waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
from embedding_endpoint import PROBE, Endpoint
from index_builders import document

from sidecar.embedding.guarded import GuardedEmbedder
from sidecar.index.agent_index import AgentIndex
from sidecar.service.embeddings import Embeddings


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

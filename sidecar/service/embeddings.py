"""Meaning, as one agent has it: vectors for its notes and queries, and the truth about both (spec §7).

A failing endpoint costs meaning, never words: the answer is `partial` and says why, or the query is refused
where `on_failure` asks for that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from sidecar.domain.errors import EmbeddingFailed
from sidecar.domain.memory import SOURCES
from sidecar.embedding.guarded import GuardedEmbedder
from sidecar.index.agent_index import AgentIndex
from sidecar.index.view import View
from sidecar.service.filling import VectorFiller
from sidecar.text.counting import counted

Vector = NDArray[np.float32]


class QueryMeaning(msgspec.Struct, frozen=True):
    """The vector of a query, or why there is none; `gaps` say what an answer may miss by meaning."""

    vector: Vector | None = None
    gaps: tuple[str, ...] = ()


class Embeddings:
    """Turns an agent's notes and queries into vectors; without an `embedder` it is words only."""

    def __init__(
        self,
        *,
        provider: str,
        embedder: GuardedEmbedder | None,
        index: AgentIndex,
        on_failure: Literal["lexical", "error"] = "lexical",
    ) -> None:
        self._provider = provider
        self._embedder = embedder
        self._index = index
        self._on_failure = on_failure
        self._filler = VectorFiller(embedder=embedder, index=index) if embedder is not None else None

    @property
    def provider(self) -> str:
        """Its configured name, `none` for words only."""
        return self._provider if self._embedder is not None else "none"

    @property
    def enabled(self) -> bool:
        """Whether queries are to be searched by meaning at all."""
        return self._embedder is not None

    @property
    def embedded(self) -> int:
        """How many texts were embedded since the process started."""
        return self._filler.embedded if self._filler is not None else 0

    async def immediate(self, texts: Mapping[bytes, str]) -> dict[bytes, Vector]:
        """Vectors that can be published together with the words: those of a model in this process.

        Texts with a cached vector are left out. Empty while the model fails, and for an endpoint elsewhere.
        """
        if self._embedder is None or self._filler is None or not self._embedder.immediate or not texts:
            return {}
        cached = await self._index.known_vectors(list(texts))
        missing = [digest for digest in texts if digest not in cached]
        if not missing:
            return {}
        try:
            answer = await self._embedder.embed([texts[digest] for digest in missing])
        except EmbeddingFailed:
            return {}
        self._filler.embedded += len(missing)
        return dict(zip(missing, answer.matrix, strict=True))

    def wake(self) -> None:
        """Something was published that may have no vectors yet."""
        if self._filler is not None:
            self._filler.wake()

    async def run(self) -> None:
        """Fill in vectors until cancelled; ends at once for words only."""
        if self._filler is not None:
            await self._filler.run()

    async def catch_up(self, *, whole: bool) -> None:
        """Return when nothing waits for a vector any more, or when the endpoint fails.

        Without `whole` an endpoint elsewhere is only asked whose vectors it gives.
        """
        while self._filler is not None and self._embedder is not None:
            try:
                await self._filler.fill(whole=whole or self._embedder.immediate)
            except EmbeddingFailed:
                if self._embedder.circuit.state != "closed":
                    return  # `gaps` tells it
                await self._filler.breathe()
            else:
                return

    async def of_query(self, view: View, text: str, words: Sequence[tuple[str, float]]) -> QueryMeaning:
        """The vector of a query for this view; raises `EmbeddingFailed` where failing is to refuse it."""
        if self._embedder is None or self._filler is None:
            return QueryMeaning()
        gaps = self._waiting()
        if view.model is None and self._embedder.circuit.state == "closed":
            return QueryMeaning(gaps=gaps)
        try:
            answer = await self._embedder.embed_query(text, words)
        except EmbeddingFailed as failure:
            if self._on_failure == "error":
                raise
            return QueryMeaning(gaps=(f"meaning was not searched: {failure.message}",))
        if answer.identity != view.model:
            self._filler.doubt()
            return QueryMeaning(gaps=("meaning was not searched: the embedding model has changed",))
        return QueryMeaning(vector=answer.matrix[0], gaps=gaps)

    async def probe(self) -> str | None:
        """Why a vector cannot be had now; None when one can. A failing endpoint is left to the filler."""
        if self._embedder is None:
            return "no embedding provider is configured"
        if self._embedder.circuit.reason is not None:
            return self._embedder.circuit.reason
        try:
            await self._embedder.embed_query("memory", [("memory", 1.0)])
        except EmbeddingFailed as failure:
            return failure.message
        return None

    def gaps(self) -> tuple[str, ...]:
        """Why meaning is not whole just now; empty when it is."""
        reason = self._embedder.circuit.reason if self._embedder is not None else None
        failing = (f"embeddings are failing: {reason}",) if reason is not None else ()
        return (*failing, *self._waiting())

    @property
    def waiting(self) -> int:
        """How many passages have no vector yet; none where search is by words alone."""
        return self._pending(()) if self._filler is not None else 0

    def details(self) -> dict[str, object]:
        """For status: counts and the circuit, without addresses or keys."""
        if self._embedder is None or self._filler is None:
            return {"provider": "none", "searchMode": "fts-only"}
        model = self._index.model
        circuit = self._embedder.circuit
        found: dict[str, object] = {"provider": self._provider}
        if model is not None:
            found |= {"model": model.name, "dimensions": model.dimensions}
        found |= {
            "searchMode": "hybrid" if model is not None and circuit.state == "closed" else "fts-only",
            "pending": self._pending(()),
            "circuit": circuit.state,
        }
        if circuit.reason is not None:
            found |= {"reason": circuit.reason, "retryInSeconds": round(circuit.due_in, 1)}
        if self._filler.refused:
            found |= {"refused": len(self._filler.refused), "refusal": self._filler.refusal}
        return found

    def _waiting(self) -> tuple[str, ...]:
        if self._filler is None:
            return ()
        waiting = self._pending(self._filler.refused)
        return (f"{counted(waiting, 'passage')} cannot be found by meaning yet",) if waiting else ()

    def _pending(self, without: Collection[bytes]) -> int:
        if self._index.model is None:
            view = self._index.view()
            return sum(view.total(source).blocks for source in SOURCES)
        return self._index.waiting(without=without)

"""An embedding service behind a circuit: one for the process, shared by its agents (spec §7)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from sidecar.domain.errors import EmbeddingFailed
from sidecar.embedding.circuit import Circuit
from sidecar.embedding.contract import Embedded, Embedder, EmbeddingIdentity

log = logging.getLogger(__name__)

QUERY_SECONDS = 3.0


class GuardedEmbedder:
    """Fails at once while the service is known to fail; documents go one call at a time, queries beside."""

    def __init__(
        self, embedder: Embedder, *, circuit: Circuit | None = None, query_seconds: float = QUERY_SECONDS
    ) -> None:
        self._embedder = embedder
        self._query_seconds = query_seconds
        self._turn = asyncio.Lock()
        self._listeners: list[Callable[[], None]] = []
        self.circuit = circuit or Circuit()
        self.failures = 0
        """Requests that failed since the start."""

    @property
    def identity(self) -> EmbeddingIdentity | None:
        """Model and dimensions, where they are known without asking."""
        return self._embedder.identity

    @property
    def batch(self) -> int:
        """How many texts one call should carry at most."""
        return self._embedder.batch

    @property
    def immediate(self) -> bool:
        """Whether words may wait for vectors."""
        return self._embedder.immediate

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever the circuit opens or closes."""
        self._listeners.append(listener)

    async def embed(self, texts: Sequence[str], *, probe: bool = False) -> Embedded:
        """The vectors of texts to be found. Raises `EmbeddingFailed`; a `probe` may ask an open circuit."""
        async with self._turn:
            return await self._ask(lambda: self._embedder.embed(texts), probe=probe)

    async def embed_query(self, text: str, words: Sequence[tuple[str, float]]) -> Embedded:
        """The vector of a query as the only row, or `EmbeddingFailed` soon: a search does not wait long."""
        if self.immediate:
            return await self._ask(lambda: self._embedder.embed_query(text, words), probe=False)
        return await self._ask(lambda: self._in_time(text, words), probe=False)

    def distrust(self, error: EmbeddingFailed) -> None:
        """Count an answer that could not be used after all as a failure."""
        if self.circuit.state == "closed":
            permit = self.circuit.admit(probe=False)
            self._note(lambda: self.circuit.failed(permit, error))

    async def close(self) -> None:
        """Release threads and connections."""
        await self._embedder.close()

    async def _in_time(self, text: str, words: Sequence[tuple[str, float]]) -> Embedded:
        try:
            async with asyncio.timeout(self._query_seconds):
                return await self._embedder.embed_query(text, words)
        except TimeoutError as error:
            raise EmbeddingFailed(
                f"the embedding endpoint gave no vector for a query within {self._query_seconds:g} s"
            ) from error

    async def _ask(self, call: Callable[[], Awaitable[Embedded]], *, probe: bool) -> Embedded:
        permit = self.circuit.admit(probe=probe)
        try:
            answer = await call()
        except EmbeddingFailed as error:
            failure = error
            self.failures += 1
            self._note(lambda: self.circuit.failed(permit, failure))
            raise
        except BaseException:
            self.circuit.released(permit)
            raise
        self._note(lambda: self.circuit.succeeded(permit))
        return answer

    def _note(self, outcome: Callable[[], None]) -> None:
        before = self.circuit.state
        outcome()
        after = self.circuit.state
        if before == after:
            return
        if after == "closed":
            log.info("embeddings work again")
        else:
            wait = round(self.circuit.due_in, 1)
            log.warning("embeddings fail: %s", self.circuit.reason, extra={"next_try_seconds": wait})
        for listener in self._listeners:
            listener()

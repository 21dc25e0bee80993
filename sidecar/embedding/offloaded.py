"""The bundled model for asynchronous callers: off the event loop, one call at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sidecar.embedding.contract import Embedded, EmbeddingIdentity
from sidecar.embedding.local import LocalEmbedder

# A long list is cut so that a query waits for one piece of a running backfill, not for all of it.
_PIECE = 64

_IN_PLACE_CHARACTERS = 512


class OffloadedEmbedder:
    """`LocalEmbedder` as an `Embedder`. A static model treats queries and documents alike."""

    batch = 256
    immediate = True

    def __init__(self, model: LocalEmbedder) -> None:
        self._model = model
        # One thread: the tokenizer spreads over the cores by itself.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedding")

    @property
    def identity(self) -> EmbeddingIdentity:
        """Model and dimensions of every vector."""
        return self._model.identity

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """Vectors of shape `(len(texts), dimensions)`; `EmbeddingFailed` without a usable model."""
        loop = asyncio.get_running_loop()
        pieces = [
            await loop.run_in_executor(self._thread, self._model.embed, texts[start : start + _PIECE])
            for start in range(0, len(texts), _PIECE)
        ]
        empty = np.zeros((0, self.identity.dimensions), dtype=np.float32)
        return Embedded(self.identity, np.concatenate([empty, *pieces]))

    async def embed_query(self, text: str, words: Sequence[tuple[str, float]]) -> Embedded:  # noqa: ARG002
        """The vector of the weighted words: a few table look-ups, done in place once the model is loaded."""
        if self._model.is_loaded and sum(len(word) for word, _ in words) <= _IN_PLACE_CHARACTERS:
            vector = self._model.embed_words(words)
        else:
            loop = asyncio.get_running_loop()
            vector = await loop.run_in_executor(self._thread, self._model.embed_words, words)
        return Embedded(self.identity, vector[np.newaxis])

    async def close(self) -> None:
        """End the thread; a running call is finished first."""
        await asyncio.to_thread(self._thread.shutdown)

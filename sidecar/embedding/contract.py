"""What an embedding service offers, whether it runs in this process or elsewhere (spec §7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

FloatMatrix = NDArray[np.float32]


class EmbeddingIdentity(msgspec.Struct, frozen=True):
    """What makes two vectors comparable: vectors of different identities are never mixed."""

    name: str
    dimensions: int

    def __post_init__(self) -> None:
        if not self.name or self.dimensions < 1:
            raise ValueError(f"not an embedding identity: {self.name!r}, {self.dimensions}")


class Embedded(msgspec.Struct, frozen=True):
    """Vectors, one row a text and of length 1 (zeros: a text without any signal), and whose they are."""

    identity: EmbeddingIdentity
    matrix: FloatMatrix


class Embedder(Protocol):
    """Turns texts into vectors; a remote service fulfils it as well as the bundled model."""

    @property
    def identity(self) -> EmbeddingIdentity | None:
        """Model and dimensions, where they are known before anything was asked."""
        ...

    @property
    def batch(self) -> int:
        """How many texts one call should carry at most."""
        ...

    @property
    def immediate(self) -> bool:
        """Whether it is so fast that a note's words may wait for its vectors."""
        ...

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """The vectors of texts to be found, in their order. Raises `EmbeddingFailed`."""
        ...

    async def embed_query(self, text: str, words: Sequence[tuple[str, float]]) -> Embedded:
        """The vector of a query, as the only row.

        `words` are its telling words with their weight in the corpus: a model that only averages words needs
        them, one that reads sentences uses `text`. Raises `EmbeddingFailed`.
        """
        ...

    async def close(self) -> None:
        """Release threads and connections; closing twice is harmless."""
        ...


def normalised(matrix: FloatMatrix) -> FloatMatrix:
    """The rows scaled to length 1; rows of zeros, and rows that are not finite, become zeros."""
    clean = np.where(np.isfinite(matrix).all(axis=1, keepdims=True), matrix, np.float32(0))
    lengths = np.linalg.norm(clean, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return np.asarray(clean / lengths, dtype=np.float32)

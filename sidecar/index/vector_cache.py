"""Vectors by model and content hash: equal text is embedded once, wherever and whenever it stands.

Bounds: a vector that no block uses is dropped `UNUSED_SECONDS` after the clean-up that first saw it unused
(long enough for a rebuild or an undone edit), and `KEPT_MODELS` models are kept.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping

import aiosqlite
import numpy as np
from numpy.typing import NDArray

from sidecar.index.database import transaction, translated
from sidecar.index.documents import VectorModel

UNUSED_SECONDS = 600
KEPT_MODELS = 2

_HASHES_AT_ONCE = 500
_ROWS_AT_ONCE = 1000

Vector = NDArray[np.float32]


class VectorCache:
    """The vectors table of the catalog, over the catalog's connection."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    async def use_model(self, model: VectorModel, now: float) -> int:
        """The number of the model, noted as used now."""
        key = (model.name, model.dimensions)
        async with transaction(self._connection):
            await self._connection.execute(
                "INSERT INTO models (name, dimensions, used) VALUES (?, ?, ?) "
                "ON CONFLICT (name, dimensions) DO UPDATE SET used = excluded.used",
                (*key, int(now)),
            )
            query = "SELECT model_id FROM models WHERE name = ? AND dimensions = ?"
            rows = await self._connection.execute_fetchall(query, key)
        return int(next(iter(rows))[0])

    async def known(self, model_id: int, hashes: Collection[bytes]) -> dict[bytes, Vector]:
        """The stored vectors among `hashes`."""
        found: dict[bytes, Vector] = {}
        wanted = list(hashes)
        for start in range(0, len(wanted), _HASHES_AT_ONCE):
            part = wanted[start : start + _HASHES_AT_ONCE]
            marks = ", ".join("?" * len(part))
            query = f"SELECT hash, vector FROM vectors WHERE model_id = ? AND hash IN ({marks})"  # noqa: S608
            with translated():
                for digest, vector in await self._connection.execute_fetchall(query, (model_id, *part)):
                    found[digest] = np.frombuffer(vector, dtype="<f4")
        return found

    async def store(self, model_id: int, vectors: Mapping[bytes, Vector]) -> None:
        """Keep vectors; one that is known already stays."""
        async with transaction(self._connection):
            await self._connection.executemany(
                "INSERT OR IGNORE INTO vectors (model_id, hash, vector) VALUES (?, ?, ?)",
                [(model_id, digest, vector.astype("<f4").tobytes()) for digest, vector in vectors.items()],
            )

    async def forget(self, model_id: int) -> None:
        """Drop every vector of a model."""
        async with transaction(self._connection):
            await self._connection.execute("DELETE FROM vectors WHERE model_id = ?", (model_id,))

    async def drop_misshapen(self, model_id: int, dimensions: int) -> None:
        """Drop stored vectors that cannot be of this model; their blocks are asked for again."""
        async with transaction(self._connection):
            await self._connection.execute(
                "DELETE FROM vectors WHERE model_id = ? AND length(vector) != ?", (model_id, 4 * dimensions)
            )

    async def rows(self, model_id: int) -> AsyncIterator[list[tuple[int, int, int, bytes]]]:
        """(document, first unit, last unit, vector) of every live block that has one, in document order."""
        query = (
            "SELECT b.document_id, b.first_unit, b.last_unit, v.vector FROM documents d "
            "JOIN blocks b ON b.document_id = d.document_id "
            "JOIN vectors v ON v.model_id = ? AND v.hash = b.hash "
            "WHERE d.live = 1 ORDER BY b.document_id, b.ordinal"
        )
        with translated():
            async with self._connection.execute(query, (model_id,)) as cursor:
                while rows := list(await cursor.fetchmany(_ROWS_AT_ONCE)):
                    yield [(row[0], row[1], row[2], row[3]) for row in rows]

    async def pending(self, model_id: int) -> list[tuple[int, int, int, int, bytes]]:
        """(document, ordinal, first unit, last unit, hash) of every live block that has no vector."""
        query = (
            "SELECT b.document_id, b.ordinal, b.first_unit, b.last_unit, b.hash FROM documents d "
            "JOIN blocks b ON b.document_id = d.document_id WHERE d.live = 1 AND NOT EXISTS "
            "(SELECT 1 FROM vectors v WHERE v.model_id = ? AND v.hash = b.hash) "
            "ORDER BY b.document_id, b.ordinal"
        )
        with translated():
            rows = await self._connection.execute_fetchall(query, (model_id,))
        return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]

    async def sweep(self, now: float, *, grace: float = UNUSED_SECONDS, models: int = KEPT_MODELS) -> None:
        """Note what is unused, drop what has been so for `grace` seconds and all but the latest `models`."""
        async with transaction(self._connection):
            execute = self._connection.execute
            await execute(
                "UPDATE vectors SET unused_since = NULL WHERE unused_since IS NOT NULL "
                "AND EXISTS (SELECT 1 FROM blocks b WHERE b.hash = vectors.hash)"
            )
            await execute(
                "UPDATE vectors SET unused_since = ? WHERE unused_since IS NULL "
                "AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.hash = vectors.hash)",
                (int(now),),
            )
            await execute("DELETE FROM vectors WHERE unused_since <= ?", (int(now - grace),))
            await execute(
                "DELETE FROM models WHERE model_id NOT IN "
                "(SELECT model_id FROM models ORDER BY used DESC, model_id DESC LIMIT ?)",
                (models,),
            )

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
from sidecar.index.salvage import row_checksum

UNUSED_SECONDS = 600
KEPT_MODELS = 2

_HASHES_AT_ONCE = 500
_ROWS_AT_ONCE = 1000

Vector = NDArray[np.float32]
# Document, first unit, last unit, vector.
BlockVector = tuple[int, int, int, bytes]


class VectorCache:
    """The vectors' own file, over the connection that it shares with the catalog."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection
        self.dropped = 0
        """How many stored vectors were found damaged."""

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
        """The stored vectors among `hashes`; one that rotted is not known."""
        found: dict[bytes, Vector] = {}
        wanted = list(hashes)
        name = await self._name(model_id)
        for start in range(0, len(wanted), _HASHES_AT_ONCE):
            part = wanted[start : start + _HASHES_AT_ONCE]
            marks = ", ".join("?" * len(part))
            query = f"SELECT hash, vector, checksum FROM vectors WHERE model_id = ? AND hash IN ({marks})"  # noqa: S608
            with translated():
                for digest, vector, checksum in await self._connection.execute_fetchall(
                    query, (model_id, *part)
                ):
                    if _proves_itself(name, digest, vector, checksum):
                        found[digest] = np.frombuffer(vector, dtype="<f4")
        return found

    async def store(self, model_id: int, vectors: Mapping[bytes, Vector]) -> None:
        """Keep vectors, in the place of what was stored for the same text."""
        name = await self._name(model_id)
        async with transaction(self._connection):
            await self._connection.executemany(
                "INSERT OR REPLACE INTO vectors (model_id, hash, vector, checksum) VALUES (?, ?, ?, ?)",
                [(model_id, digest, *_proven(name, digest, vector)) for digest, vector in vectors.items()],
            )

    async def forget(self, model_id: int) -> None:
        """Drop every vector of a model."""
        async with transaction(self._connection):
            await self._connection.execute("DELETE FROM vectors WHERE model_id = ?", (model_id,))

    async def sample(self, model_id: int) -> Vector | None:
        """The model's vector of a text that is always the same, as it was kept last."""
        query = "SELECT sample FROM models WHERE model_id = ?"
        with translated():
            rows = await self._connection.execute_fetchall(query, (model_id,))
        packed = next((row[0] for row in rows), None)
        if not isinstance(packed, bytes) or len(packed) % 2:
            return None
        return np.frombuffer(packed, "<f2").astype(np.float32)

    async def keep_sample(self, model_id: int, sample: Vector) -> None:
        """Keep the model's vector of the text that is always the same."""
        async with transaction(self._connection):
            await self._connection.execute(
                "UPDATE models SET sample = ? WHERE model_id = ?", (sample.astype("<f2").tobytes(), model_id)
            )

    async def rows(self, model: VectorModel, model_id: int) -> AsyncIterator[list[BlockVector]]:
        """(document, first unit, last unit, vector) of every live block that has one, in document order.

        Vectors that rotted are left out and, at the end, dropped: their blocks wait for new ones then.
        """
        query = (
            "SELECT b.document_id, b.first_unit, b.last_unit, v.vector, v.hash, v.checksum FROM documents d "
            "JOIN blocks b ON b.document_id = d.document_id "
            "JOIN vectors v ON v.model_id = ? AND v.hash = b.hash "
            "WHERE d.live = 1 ORDER BY b.document_id, b.ordinal"
        )
        rotten: list[tuple[int, bytes]] = []
        with translated():
            async with self._connection.execute(query, (model_id,)) as cursor:
                while rows := list(await cursor.fetchmany(_ROWS_AT_ONCE)):
                    sound = []
                    for number, first, last, vector, digest, checksum in rows:
                        whole = len(vector) == 4 * model.dimensions
                        if whole and _proves_itself(model.name, digest, vector, checksum):
                            sound.append((number, first, last, vector))
                        else:
                            rotten.append((model_id, digest))
                    yield sound
        if rotten:
            async with transaction(self._connection):
                await self._connection.executemany(
                    "DELETE FROM vectors WHERE model_id = ? AND hash = ?", rotten
                )
            self.dropped += len(set(rotten))

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

    async def _name(self, model_id: int) -> str:
        query = "SELECT name FROM models WHERE model_id = ?"
        with translated():
            rows = await self._connection.execute_fetchall(query, (model_id,))
        return next((str(row[0]) for row in rows), "")


def _proven(name: str, digest: bytes, vector: Vector) -> tuple[bytes, int]:
    packed = vector.astype("<f4").tobytes()
    return packed, row_checksum(name, digest, packed)


def _proves_itself(name: str, digest: bytes, vector: object, checksum: object) -> bool:
    return isinstance(vector, bytes) and checksum == row_checksum(name, digest, vector)

"""The vectors of all blocks: immutable snapshots for searching, one set of rows for writing (spec §7).

A row is a block; its score is the cosine, the dot product of two vectors of length 1. Up to `crossover`
rows every row is compared. Measured on one busy core at 256 dimensions: 0.3 ms for 5,000 rows, 1.4 ms for
10,000, 5 ms for 38,000, against 1 ms of the graph for those 38,000. What the graph gives is near, not exact:
of invented words, whose vectors all lie about as far apart, it gave 69 of the nearest 100. Beyond the
crossover an immutable graph (`vector_base`) answers for the rows it was built from, the rows added since are
compared exactly, removed rows are masked, and the graph is built anew in the background once a tenth has
changed.

Dot products go through `einsum`, which needs no BLAS: as fast here at these shapes, no thread pool, and the
same sum whatever rows stand beside a row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidecar.index.vector_base import Numbers, VectorBase

CROSSOVER_ROWS = 20_000
REBUILD_FRACTION = 0.1

Vector = NDArray[np.float32]
Matrix = NDArray[np.float32]
Mask = NDArray[np.bool_]

_FIRST_CAPACITY = 256
# Fewer dead rows than this are not worth a copy of the rest.
_DEAD_ROWS_WORTH_COPYING = 1024
_ROWS_AT_ONCE = 8192
# Copying a row costs about twice what comparing it does.
_WORTH_COMPARING_ALL = 0.3
# Asked of the graph at least, so that small limits see the same candidates.
_GRAPH_FLOOR = 200


class VectorSnapshot:
    """The rows of one generation: `document_id`, `first_unit` and `last_unit` by row number."""

    def __init__(
        self, numbers: Numbers, alive: Mask, matrix: Matrix, base: VectorBase | None, crossover: int
    ) -> None:
        self._numbers = numbers
        self._alive = alive
        self._matrix = matrix
        self._base = base
        self._crossover = crossover

    @property
    def numbers(self) -> Numbers:
        """Document, first unit and last unit of each row, shape `(rows, 3)`."""
        return self._numbers

    @property
    def document_id(self) -> NDArray[np.int64]:
        """The document of each row."""
        return self._numbers[:, 0]

    @property
    def first_unit(self) -> NDArray[np.int64]:
        """The first unit of each row's block."""
        return self._numbers[:, 1]

    @property
    def last_unit(self) -> NDArray[np.int64]:
        """The last unit of each row's block."""
        return self._numbers[:, 2]

    @property
    def count(self) -> int:
        """How many live rows there are."""
        return int(np.count_nonzero(self._alive))

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return int(self._matrix.shape[1])

    @property
    def uses_graph(self) -> bool:
        """Whether a part of the rows is answered for by the graph."""
        return self._base is not None

    def search(
        self, vector: Vector, limit: int, only: Collection[int] | None = None
    ) -> tuple[NDArray[np.int64], Vector]:
        """Row numbers and cosines of at most `limit` rows, best first, of the documents `only` if given.

        Equal scores come in row order, so that a smaller `limit` gives a prefix of a larger one (with a
        graph: up to its candidates). `vector` has length 1. Blocking.
        """
        allowed = self._alive
        if only is not None:
            allowed = allowed & np.isin(self.document_id, np.fromiter(only, np.int64, len(only)))
        if limit < 1 or not allowed.any():
            return np.empty(0, np.int64), np.empty(0, np.float32)
        query = np.ascontiguousarray(vector, dtype=np.float32)
        size = self._base.size if self._base else 0
        rows = np.flatnonzero(allowed[size:])
        scores = _scores(self._matrix, rows, query)
        rows += size
        if self._base is not None:
            near, cosines = self._near(self._base, query, limit, allowed[:size])
            rows = np.concatenate([near, rows])
            scores = np.concatenate([cosines, scores])
        return _best(rows, scores, limit)

    def vectors(self, rows: NDArray[np.int64]) -> Matrix:
        """The vectors of rows, as a copy."""
        size = self._base.size if self._base else 0
        out = np.empty((len(rows), self.dimensions), np.float32)
        inside = rows < size
        if self._base is not None:
            out[inside] = self._base.matrix[rows[inside]]
        out[~inside] = self._matrix[rows[~inside] - size]
        return out

    def _near(
        self, base: VectorBase, query: Vector, limit: int, allowed: Mask
    ) -> tuple[NDArray[np.int64], Vector]:
        """Allowed rows of the graph, the nearest among them, with their cosines."""
        total = int(np.count_nonzero(allowed))
        # Enough of the nearest that `limit` of them are allowed; most often the first round does.
        ask = max(_GRAPH_FLOOR, 2 * limit * base.size // max(total, 1))
        while total > self._crossover and ask < base.size:
            found = base.nearest(query, ask)
            if found is None:
                break
            rows, cosines = found
            kept = allowed[rows]
            if np.count_nonzero(kept) >= limit:
                return rows[kept], cosines[kept]
            ask *= 4
        rows = np.flatnonzero(allowed)
        return rows, _scores(base.matrix, rows, query)


class VectorRows:
    """All rows, for one writer. Snapshots share its arrays: rows are only ever appended behind them."""

    def __init__(
        self, dimensions: int, *, crossover: int = CROSSOVER_ROWS, base: VectorBase | None = None
    ) -> None:
        self._crossover = crossover
        self._base = base
        numbers = base.numbers if base else np.empty((0, 3), np.int64)
        self._numbers = numbers
        self._alive = np.ones(len(numbers), np.bool_)
        self._matrix = np.empty((_FIRST_CAPACITY, dimensions), np.float32)
        self._count = len(numbers)
        self._live = len(numbers)

    @property
    def base(self) -> VectorBase | None:
        """The graph in use."""
        return self._base

    def append(self, numbers: Sequence[tuple[int, int, int]], vectors: Matrix) -> None:
        """Add rows of `(document, first unit, last unit)` with their vectors of length 1."""
        added = len(numbers)
        if not added:
            return
        size = self._base.size if self._base else 0
        start, end = self._count, self._count + added
        self._matrix = _grown(self._matrix, start - size, end - size)
        self._numbers = _grown(self._numbers, start, end)
        self._alive = _grown(self._alive, start, end)
        self._matrix[start - size : end - size] = vectors
        self._numbers[start:end] = numbers
        self._alive[start:end] = True
        self._count = end
        self._live += added

    def remove(self, documents: Collection[int]) -> None:
        """Mask the rows of documents; snapshots taken before keep them."""
        wanted = np.fromiter(documents, np.int64, len(documents))
        gone = np.isin(self._numbers[: self._count, 0], wanted) & self._alive[: self._count]
        if gone.any():
            alive = self._alive.copy()
            alive[: self._count][gone] = False
            self._alive = alive
            self._live -= int(np.count_nonzero(gone))

    def keep(self, mask: Mask) -> None:
        """Mask every row that `mask` does not name."""
        alive = self._alive.copy()
        alive[: self._count] &= mask
        self._alive = alive
        self._live = int(np.count_nonzero(alive[: self._count]))

    def snapshot(self) -> VectorSnapshot:
        """The rows as they are now."""
        size = self._base.size if self._base else 0
        return VectorSnapshot(
            self._numbers[: self._count],
            self._alive[: self._count],
            self._matrix[: self._count - size],
            self._base,
            self._crossover,
        )

    @property
    def has_dead(self) -> bool:
        """Whether vectors of removed rows are still held."""
        return self._count > self._live

    @property
    def wants_graph(self) -> bool:
        """Whether there are more live rows than exact comparison is meant for."""
        return self._live > self._crossover

    @property
    def wants_renewal(self) -> bool:
        """Whether a graph is due, has changed by a tenth or is no longer needed, or dead rows abound."""
        dead = self._count - self._live
        if self._base is None:
            return self.wants_graph or dead > max(_DEAD_ROWS_WORTH_COPYING, self._live)
        changed = self._count - self._base.size + dead
        return changed > self._base.size * REBUILD_FRACTION or self._live <= self._crossover // 2

    def renewed(self, seen: VectorSnapshot, kept: NDArray[np.int64], base: VectorBase | None) -> VectorRows:
        """The same live rows around `base`, which holds the rows `kept` of `seen`.

        `seen` is an earlier snapshot of these rows; what was appended or removed since is carried over.
        """
        now = self.snapshot()
        size = seen.document_id.shape[0]
        rows = VectorRows(now.dimensions, crossover=self._crossover, base=base)
        if base is not None:
            rows.keep(now._alive[kept])
        else:
            kept = kept[now._alive[kept]]
            rows._append_rows(now, kept)
        rows._append_rows(now, size + np.flatnonzero(now._alive[size:]))
        return rows

    def _append_rows(self, source: VectorSnapshot, rows: NDArray[np.int64]) -> None:
        numbers = source._numbers[rows]
        self.append([tuple(row) for row in numbers.tolist()], source.vectors(rows))


def live_rows(snapshot: VectorSnapshot) -> NDArray[np.int64]:
    """The numbers of the live rows, ascending."""
    return np.flatnonzero(snapshot._alive)


def _scores(matrix: Matrix, rows: NDArray[np.int64], query: Vector) -> Vector:
    """The dot products of the chosen rows.

    Where most are chosen all are computed, in place; else a bounded number of rows is gathered at a time.
    """
    if len(rows) > len(matrix) * _WORTH_COMPARING_ALL:
        every = np.empty(len(matrix), np.float32)
        np.einsum("ij,j->i", matrix, query, out=every)
        return every if len(rows) == len(matrix) else every[rows]
    out = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        end = start + _ROWS_AT_ONCE
        np.einsum("ij,j->i", matrix[rows[start:end]], query, out=out[start:end])
    return out


def _best(rows: NDArray[np.int64], scores: Vector, limit: int) -> tuple[NDArray[np.int64], Vector]:
    if len(rows) > limit:
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        chosen = np.flatnonzero(scores >= least)
        rows, scores = rows[chosen], scores[chosen]
    order = np.lexsort((rows, -scores))[:limit]
    return rows[order], scores[order]


def _grown(array: NDArray[Any], used: int, needed: int) -> NDArray[Any]:
    """The array itself, or a copy of its used part with at least twice the room."""
    if needed <= len(array):
        return array
    larger = np.empty((max(needed, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger

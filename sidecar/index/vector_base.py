"""The immutable part of a large vector index: a graph (hnswlib) and its vectors, verified before loading.

hnswlib trusts its file and crashes the process on a damaged one, so a manifest, written last, names the
checksum of each file; nothing is loaded that does not agree with it. Vectors lie in a file of their own and
are mapped, so that exact scores and filtered searches need no second copy in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import hnswlib
import msgspec
import numpy as np
from numpy.typing import NDArray

from sidecar.domain.errors import StoreDamaged
from sidecar.index.documents import VectorModel
from sidecar.index.private_files import (
    checksum,
    private_directory,
    private_file,
    remove_tree,
    replace_file,
    sync_path,
)

_FORMAT = 1
_MANIFEST = "base.json"
_LINKS = 16
_BUILD_BREADTH = 128
_SEARCH_BREADTH = 200
_ROWS_AT_ONCE = 500

Numbers = NDArray[np.int64]
Matrix = NDArray[np.float32]


class _File(msgspec.Struct, frozen=True):
    name: str
    size: int
    crc: int


class _Manifest(msgspec.Struct, frozen=True):
    format: int
    store: str
    model: str
    dimensions: int
    rows: int
    graph: _File
    vectors: _File
    numbers: _File


class VectorBase:
    """The rows of a graph: `numbers` (rows x document, first unit, last unit) and `matrix` (mapped)."""

    def __init__(self, graph: hnswlib.Index, numbers: Numbers, matrix: Matrix) -> None:
        self._graph = graph
        self.numbers = numbers
        self.matrix = matrix

    @property
    def size(self) -> int:
        """How many rows it has, removed ones included."""
        return len(self.numbers)

    def nearest(
        self, query: NDArray[np.float32], limit: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """About the nearest `limit` rows with their cosines; None when the graph does not reach that many.

        The mapped vectors are not touched, so that a search leaves them on the disk.
        """
        try:
            labels, far = self._graph.knn_query(query[np.newaxis], k=min(limit, self.size), num_threads=1)
        except RuntimeError:
            # The only complaint of a search with a legal k: parts of the graph are not linked.
            return None
        return labels[0].astype(np.int64), 1 - far[0]


def build_base(
    directory: Path,
    store: str,
    model: VectorModel,
    numbers: Numbers,
    pieces: Iterable[Matrix],
    stop: threading.Event,
) -> VectorBase | None:
    """Build and store a base of these rows, whose vectors come in pieces in row order; replaces the last one.

    Gives None when `stop` was set meanwhile. One thread, about 8,000 rows a second at 128 dimensions, off
    the interpreter lock for the most part. Raises `OSError` when the disk refuses.
    """
    private_directory(directory)
    previous = _manifest(directory)
    stem = _next_stem(previous)
    paths = {part: directory / f"{stem}.{part}" for part in ("graph", "vectors", "numbers")}
    for path in paths.values():
        remove_tree(path)
        private_file(path)
    graph = _empty_graph(model.dimensions, len(numbers))
    with paths["vectors"].open("wb") as file:
        row = 0
        for piece in pieces:
            for start in range(0, len(piece), _ROWS_AT_ONCE):
                if stop.is_set():
                    return None
                part = piece[start : start + _ROWS_AT_ONCE]
                graph.add_items(part, np.arange(row, row + len(part)), num_threads=1)
                row += len(part)
            file.write(piece.astype("<f4").tobytes())
    paths["numbers"].write_bytes(numbers.astype("<i8").tobytes())
    graph.save_index(str(paths["graph"]))
    for path in paths.values():
        sync_path(path)
    files = {part: _File(path.name, path.stat().st_size, checksum(path)) for part, path in paths.items()}
    manifest = _Manifest(
        format=_FORMAT,
        store=store,
        model=model.name,
        dimensions=model.dimensions,
        rows=len(numbers),
        **files,
    )
    replace_file(directory / _MANIFEST, msgspec.json.encode(manifest))
    _remove_others(directory, manifest)
    return VectorBase(graph, numbers, _mapped(paths["vectors"], len(numbers), model.dimensions))


def load_base(directory: Path, store: str, model: VectorModel, last_number: int) -> VectorBase | None:
    """The stored base; None when there is none, `StoreDamaged` when it is not whole or of other data.

    `last_number` is the highest that the catalog gave to a document: a base that knows later ones was built
    from a catalog that has been put back since, and its numbers are going to be given to other text.
    """
    if not (directory / _MANIFEST).exists():
        return None
    manifest = _manifest(directory)
    expected = (_FORMAT, store, model.name, model.dimensions)
    if manifest is None or expected != (
        manifest.format,
        manifest.store,
        manifest.model,
        manifest.dimensions,
    ):
        raise StoreDamaged("the vector graph was made from other data")
    _remove_others(directory, manifest)
    for file in (manifest.graph, manifest.vectors, manifest.numbers):
        path = directory / file.name
        if not path.is_file() or path.stat().st_size != file.size or checksum(path) != file.crc:
            raise StoreDamaged("the vector graph was damaged")
    shape = (manifest.rows * 3 * 8, manifest.rows * 4 * manifest.dimensions)
    if manifest.rows < 1 or shape != (manifest.numbers.size, manifest.vectors.size):
        raise StoreDamaged("the vector graph was damaged")
    numbers = np.fromfile(directory / manifest.numbers.name, dtype="<i8").reshape(manifest.rows, 3)
    if numbers[:, 0].max() > last_number:
        raise StoreDamaged("the vector graph was made from later data")
    graph = hnswlib.Index("ip", model.dimensions)
    graph.load_index(str(directory / manifest.graph.name), max_elements=manifest.rows)
    graph.set_ef(_SEARCH_BREADTH)
    return VectorBase(
        graph, numbers, _mapped(directory / manifest.vectors.name, manifest.rows, model.dimensions)
    )


def drop_base(directory: Path) -> None:
    """Remove the stored base."""
    remove_tree(directory)


def _empty_graph(dimensions: int, rows: int) -> hnswlib.Index:
    graph = hnswlib.Index("ip", dimensions)
    graph.init_index(max(rows, 1), M=_LINKS, ef_construction=_BUILD_BREADTH, random_seed=1)
    graph.set_ef(_SEARCH_BREADTH)
    return graph


def _mapped(path: Path, rows: int, dimensions: int) -> Matrix:
    return np.memmap(path, dtype="<f4", mode="r", shape=(rows, dimensions))


def _manifest(directory: Path) -> _Manifest | None:
    try:
        return msgspec.json.decode((directory / _MANIFEST).read_bytes(), type=_Manifest)
    except (OSError, ValueError):
        return None


def _next_stem(previous: _Manifest | None) -> str:
    """Another name than the one in use, which a running search may still map."""
    return "base-b" if previous is not None and previous.graph.name.startswith("base-a") else "base-a"


def _remove_others(directory: Path, manifest: _Manifest) -> None:
    kept = {_MANIFEST, manifest.graph.name, manifest.vectors.name, manifest.numbers.name}
    for path in directory.iterdir():
        if path.name not in kept:
            remove_tree(path)

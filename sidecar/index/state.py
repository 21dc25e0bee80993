"""What the one writer of an index keeps in memory, and the views made from it.

Changes happen between two awaits, on the event loop: whoever looks sees all of a generation or nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from sidecar.domain.memory import SOURCES, Source
from sidecar.index.catalog import Restamp
from sidecar.index.documents import VectorModel
from sidecar.index.entries import DocumentEntry
from sidecar.index.lexicon import LexiconSnapshot
from sidecar.index.pending import PendingBlock, PendingBlocks
from sidecar.index.vectors import VectorRows
from sidecar.index.view import SourceTotals, View

Vector = NDArray[np.float32]
# First unit, last unit, hash of the text.
BlockRow = tuple[int, int, bytes]


class IndexState:
    """Live documents, vector rows with their model, and the blocks that still wait for a vector.

    `rows` and `model` are None without embeddings and while their model is not known yet.
    """

    def __init__(self, entries: Iterable[DocumentEntry]) -> None:
        self.rows: VectorRows | None = None
        self.model: VectorModel | None = None
        self.pending = PendingBlocks()
        self._documents: dict[int, DocumentEntry] = {}
        self._paths: dict[str, DocumentEntry] = {}
        self._counts: dict[Source, Counter[str]] = {source: Counter() for source in SOURCES}
        for entry in entries:
            self._learn(entry)

    @property
    def documents(self) -> Mapping[int, DocumentEntry]:
        """The live documents by number."""
        return self._documents

    def use_vectors(self, model: VectorModel, rows: VectorRows, pending: PendingBlocks) -> None:
        """From now on these are the vectors of all live blocks, and the blocks that have none."""
        self.model, self.rows, self.pending = model, rows, pending

    def by_path(self, path: str) -> DocumentEntry | None:
        """The live document of a path."""
        return self._paths.get(path)

    def forget(self, numbers: Collection[int]) -> None:
        """Documents are gone."""
        for number in numbers:
            entry = self._documents.pop(number)
            if self._paths.get(entry.path) is entry:
                del self._paths[entry.path]
            self._counts[entry.source].subtract(_weights(entry))
            self.pending.drop(number)
        if self.rows is not None and numbers:
            self.rows.remove(numbers)

    def learn(
        self,
        added: Sequence[tuple[DocumentEntry, Sequence[BlockRow]]],
        vectors: Mapping[bytes, Vector],
    ) -> None:
        """Documents are there; their blocks without one of `vectors` wait for it."""
        places: list[tuple[int, int, int]] = []
        found: list[Vector] = []
        for entry, blocks in added:
            self._learn(entry)
            if self.rows is None:
                continue
            for ordinal, (first, last, digest) in enumerate(blocks):
                vector = vectors.get(digest)
                if vector is None:
                    waiting = PendingBlock(entry.document_id, ordinal, first, last, entry.source)
                    self.pending.add(digest, waiting)
                else:
                    places.append((entry.document_id, first, last))
                    found.append(vector)
        if self.rows is not None and found:
            self.rows.append(places, np.stack(found))

    def restamp(self, restamps: Iterable[Restamp]) -> None:
        """Documents were touched and not changed."""
        for restamp in restamps:
            entry = self._documents.get(restamp.document_id)
            if entry is not None:
                touched = msgspec.structs.replace(entry, stamp=restamp.stamp, settled=restamp.settled)
                self._documents[entry.document_id] = self._paths[entry.path] = touched

    def fill(self, vectors: Mapping[bytes, Vector]) -> None:
        """Vectors have come for blocks that waited."""
        places: list[tuple[int, int, int]] = []
        found: list[Vector] = []
        for digest, vector in vectors.items():
            for block in self.pending.resolve(digest):
                places.append((block.document_id, block.first_unit, block.last_unit))
                found.append(vector)
        if self.rows is not None and found:
            self.rows.append(places, np.stack(found))

    def view(self, generation: int, words: Mapping[Source, LexiconSnapshot]) -> View:
        """The snapshot of now; two dictionaries are copied, nothing else grows with the corpus."""
        return View(
            generation=generation,
            documents=dict(self._documents),
            paths=dict(self._paths),
            words=words,
            vectors=self.rows.snapshot() if self.rows is not None else None,
            model=self.model,
            totals={
                source: SourceTotals(**counts, pending=self.pending.counts[source])
                for source, counts in self._counts.items()
            },
        )

    def _learn(self, entry: DocumentEntry) -> None:
        self._documents[entry.document_id] = entry
        self._paths[entry.path] = entry
        self._counts[entry.source].update(_weights(entry))


def _weights(entry: DocumentEntry) -> dict[str, int]:
    return {
        "files": 1,
        "units": len(entry.units),
        "searchable_units": entry.searchable_units,
        "terms": entry.term_count,
        "blocks": entry.blocks,
    }

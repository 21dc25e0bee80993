"""One immutable snapshot of an agent's index, which a search keeps from its beginning to its end."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sidecar.domain.memory import Source
from sidecar.index.documents import VectorModel
from sidecar.index.entries import DocumentEntry, split_key
from sidecar.index.lexicon import LexiconSnapshot
from sidecar.index.vectors import VectorSnapshot

_NO_WORDS = LexiconSnapshot()


class SourceTotals(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a source is indexed.

    `terms` are those of all units, `pending` blocks have no vector yet (0 without embeddings).
    """

    files: int = 0
    units: int = 0
    searchable_units: int = 0
    terms: int = 0
    blocks: int = 0
    pending: int = 0


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A generation: documents, words and vectors that belong together.

    An engine's answer may name a document that is not in `documents` only when it was read from another
    view; within one view everything agrees. `vectors` are those of `model`; both are None without embeddings
    and while their model is not known yet.
    """

    generation: int
    documents: Mapping[int, DocumentEntry]
    paths: Mapping[str, DocumentEntry]
    words: Mapping[Source, LexiconSnapshot]
    vectors: VectorSnapshot | None
    model: VectorModel | None
    totals: Mapping[Source, SourceTotals]

    def lexicon(self, source: Source) -> LexiconSnapshot:
        """The words of a source; empty when it has no documents."""
        return self.words.get(source, _NO_WORDS)

    def total(self, source: Source) -> SourceTotals:
        """How much of a source is indexed."""
        return self.totals.get(source, SourceTotals())

    def mean_unit_terms(self, source: Source) -> float:
        """How many terms a searchable unit of the source has on average."""
        total = self.total(source)
        return total.terms / max(1, total.searchable_units)

    def locate(self, key: int) -> tuple[DocumentEntry, int] | None:
        """The document and the unit ordinal of a lexical key."""
        number, ordinal = split_key(key)
        entry = self.documents.get(number)
        return None if entry is None else (entry, ordinal)


EMPTY_VIEW = View(generation=0, documents={}, paths={}, words={}, vectors=None, model=None, totals={})

"""One Tantivy index: documents of text fields under 64-bit keys, immutable searchers (spec §7).

Terms come from the caller, joined by spaces; nothing here analyses text, and no query text is ever parsed.
Measured with 250,000 unit documents: opening a writer 7 ms, committing one document 8-20 ms, `reload` under
1 ms; the engine releases the interpreter lock while it adds, commits and searches.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import tantivy
from numpy.typing import NDArray

from sidecar.domain.errors import StateError, StoreDamaged
from sidecar.index.documents import ORDINAL_BITS
from sidecar.index.entries import split_key, unit_key
from sidecar.index.private_files import private_directory, seal
from sidecar.index.segment_files import verify_segments

KEY = "key"
SIZE = "size"
DOCUMENT = "document"

ROUNDS = 8
"""A search that has to spread asks the engine so many times at most."""

_LOG = logging.getLogger("sidecar.index")

# The engine's floor for one thread; a batch beyond it becomes several segments, which merge by themselves.
_WRITER_HEAP_BYTES = 15_000_000
_TOKENIZER = "terms"
_WITHOUT_POSITIONS = "freq"

Keys = NDArray[np.uint64]
Scores = NDArray[np.float32]
QueryTerm = tuple[str, str, float]
Part = tuple[int, int, Sequence[str]]
"""What stands under one key: ordinal, size, texts by field in the layout's order."""


class Found(msgspec.Struct, frozen=True):
    """Keys and BM25 scores, best first, with the size that each was stored with."""

    keys: Keys
    scores: Scores
    sizes: NDArray[np.int64]


NOTHING = Found(np.empty(0, np.uint64), np.empty(0, np.float32), np.empty(0, np.int64))


class LexicalSnapshot:
    """What one commit holds, for as long as the snapshot is kept."""

    def __init__(self, schema: tantivy.Schema, searcher: tantivy.Searcher) -> None:
        self._schema = schema
        self._searcher = searcher

    @property
    def count(self) -> int:
        """How many documents there are."""
        return self._searcher.num_docs

    def document_frequency(self, field: str, term: str) -> int:
        """How many documents hold the term in the field, deleted ones that no merge has dropped included."""
        return self._searcher.doc_freq(field, term)

    def search(
        self,
        terms: Sequence[QueryTerm],
        limit: int,
        only: Collection[int] | None = None,
        *,
        spread: int = 0,
    ) -> Found:
        """Keys and BM25 scores, best first, of the best `limit` that hold any of `(field, term, boost)`.

        `only` keeps those of these document numbers; what it hides takes no place among the `limit`. In one
        snapshot a smaller `limit` gives a prefix of a larger one. While what was found has fewer than
        `spread` document numbers, the best `limit` of the others follow, up to `ROUNDS` times in all: one
        that repeats a word thousands of times must not be all that is found. Blocking.
        """
        if limit < 1 or not terms or (only is not None and not only) or not self.count:
            return NOTHING
        # One flat union of terms is what the engine can prune (block-max WAND).
        return self._found([self._term(*term) for term in terms], limit, only, spread)

    def matching(
        self,
        terms: Sequence[QueryTerm],
        limit: int,
        only: Collection[int] | None = None,
        *,
        spread: int = 0,
    ) -> Found:
        """As `search`, but a document's score is the sum of the boosts of the terms that it holds.

        So nothing but the document decides, whatever else the index holds. Equal scores come in the order in
        which the documents were added.
        """
        if limit < 1 or not terms or (only is not None and not only) or not self.count:
            return NOTHING
        clauses = [
            tantivy.Query.const_score_query(self._term(field, term, 1.0), boost)
            for field, term, boost in terms
        ]
        return self._found(clauses, limit, only, spread)

    def count_matching(self, field: str, term: str, only: Collection[int] | None = None) -> int:
        """How many documents (of these document numbers) hold the term in the field."""
        if (only is not None and not only) or not self.count:
            return 0
        query = self._restricted([self._term(field, term, 1.0)], only)
        found = self._searcher.search(query, 1, count=True)
        return int(getattr(found, "count", None) or 0)

    def _restricted(
        self, queries: Sequence[tantivy.Query], only: Collection[int] | None, but: Collection[int] = ()
    ) -> tantivy.Query:
        """What matches any of the queries, with `only` of one of its numbers, and of none of `but`."""
        clauses = [(tantivy.Occur.Should, query) for query in queries]
        if but:
            clauses.append((tantivy.Occur.MustNot, self._numbered(but)))
        if only is None:
            return tantivy.Query.boolean_query(clauses)
        clauses.append((tantivy.Occur.Must, tantivy.Query.boost_query(self._numbered(only), 0.0)))
        return tantivy.Query.boolean_query(clauses, 1)

    def _numbered(self, numbers: Collection[int]) -> tantivy.Query:
        return tantivy.Query.term_set_query(self._schema, DOCUMENT, sorted(numbers))

    def _found(
        self,
        queries: Sequence[tantivy.Query],
        limit: int,
        only: Collection[int] | None,
        spread: int,
    ) -> Found:
        rounds: list[Found] = []
        numbers: list[int] = []
        while len(rounds) < ROUNDS:
            found = self._searcher.search(self._restricted(queries, only, numbers), limit, count=False).hits
            addresses = [address for _, address in found]
            keys = np.array(self._searcher.fast_field_values(KEY, addresses), np.uint64)
            sizes = np.array(self._searcher.fast_field_values(SIZE, addresses), np.int64)
            # What was left out scored no less, so everything stays in order.
            rounds.append(Found(keys, np.array([score for score, _ in found], np.float32), sizes))
            if len(found) < limit or not spread:
                break
            numbers += np.unique(keys >> np.uint64(ORDINAL_BITS)).tolist()
            if len(numbers) >= spread:
                break
        if len(rounds) == 1:
            return rounds[0]
        return Found(
            np.concatenate([found.keys for found in rounds]),
            np.concatenate([found.scores for found in rounds]),
            np.concatenate([found.sizes for found in rounds]),
        )

    def documents(self) -> set[int]:
        """The document numbers that are present; its cost grows with the index."""
        if not self.count:
            return set()
        hits = self._searcher.search(tantivy.Query.all_query(), self.count, count=False).hits
        keys = self._searcher.fast_field_values(KEY, [address for _, address in hits])
        return {split_key(int(key or 0))[0] for key in keys}

    def _term(self, field: str, term: str, boost: float) -> tantivy.Query:
        query = tantivy.Query.term_query(self._schema, field, term, _WITHOUT_POSITIONS)
        return query if boost == 1.0 else tantivy.Query.boost_query(query, boost)


class LexicalIndex:
    """The one writer of a directory. Every method blocks and is for one thread at a time."""

    def __init__(self, directory: Path, fields: tuple[str, ...]) -> None:
        """Open the index, or make it in an empty directory; raises `StoreDamaged` or `StateError`."""
        self._directory = private_directory(directory)
        self._fields = fields
        self._writer: tantivy.IndexWriter | None = None
        self._schema = _schema(fields)
        exists = (directory / "meta.json").exists()
        if exists:
            verify_segments(directory)
        try:
            self._index = tantivy.Index(self._schema, str(directory))
            self._index.config_reader("manual")
        except (ValueError, OSError) as error:
            if exists:
                raise StoreDamaged("a lexical index cannot be opened") from error
            raise StateError("a lexical index cannot be made") from error
        analyzer = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
        self._index.register_tokenizer(_TOKENIZER, analyzer)
        seal(directory)

    def stage(
        self,
        removed: Iterable[int],
        added: Iterable[tuple[int, Iterable[Part]]],
    ) -> None:
        """Forget the documents `removed`, then add `(document number, its parts)`.

        Nothing is visible or durable before `commit`. Doing it again changes nothing. Raises `StateError`
        when the disk refuses; the last commit stands then.
        """
        with self._undone_on_failure():
            writer = self._open_writer()
            batch = list(added)
            numbers = sorted({*removed, *(number for number, _ in batch)})
            if numbers:
                # By query: `delete_documents_by_term` makes a signed term of an int, which matches nothing.
                stale = tantivy.Query.term_set_query(self._schema, DOCUMENT, numbers)
                writer.delete_documents_by_query(stale)
            for number, parts in batch:
                self._add(writer, number, parts)

    def commit(self) -> None:
        """Make what was staged visible and durable; raises `StateError` as `stage` does."""
        if self._writer is not None:
            with self._undone_on_failure():
                self._writer.commit()
                self._index.reload()
            seal(self._directory)

    def snapshot(self) -> LexicalSnapshot:
        """What the last commit holds."""
        return LexicalSnapshot(self._schema, self._index.searcher())

    def close_writer(self) -> None:
        """Wait for merges and release the writer's threads and memory; the next commit opens another."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.wait_merging_threads()
                self._index.reload()
            except (ValueError, OSError) as error:
                raise StateError("a lexical index cannot be merged") from error
            seal(self._directory)

    def abandon_writer(self) -> None:
        """Release the writer without waiting for anything; the last commit stands."""
        self._writer = None

    @contextlib.contextmanager
    def _undone_on_failure(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, OSError) as error:
            self._writer = None
            _LOG.warning("the lexical engine refused: %s", error)
            raise StateError("a lexical index cannot be written") from error

    def _open_writer(self) -> tantivy.IndexWriter:
        if self._writer is None:
            self._writer = self._index.writer(_WRITER_HEAP_BYTES, 1)
        return self._writer

    def _add(self, writer: tantivy.IndexWriter, number: int, parts: Iterable[Part]) -> None:
        for ordinal, size, texts in parts:
            document = tantivy.Document()
            # `add_unsigned`, not keyword arguments: those make signed values, which kill the writer.
            document.add_unsigned(KEY, unit_key(number, ordinal))
            document.add_unsigned(SIZE, size)
            document.add_unsigned(DOCUMENT, number)
            for field, text in zip(self._fields, texts, strict=True):
                if text:
                    document.add_text(field, text)
            writer.add_document(document)


def _schema(fields: tuple[str, ...]) -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field(KEY, fast=True)
    builder.add_unsigned_field(SIZE, fast=True)
    builder.add_unsigned_field(DOCUMENT, indexed=True)
    for field in fields:
        builder.add_text_field(field, tokenizer_name=_TOKENIZER, index_option=_WITHOUT_POSITIONS)
    return builder.build()

"""The words of one source: an index of units and one of passages, which live and change together.

Two indexes, because BM25 compares a document's length with the average of its whole index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec

from sidecar.domain.errors import StoreDamaged
from sidecar.index.documents import LexicalLayout
from sidecar.index.lexical import NOTHING, Found, LexicalIndex, LexicalSnapshot, Part, QueryTerm
from sidecar.index.packing import Contents, count_terms
from sidecar.index.private_files import private_directory, replace_file
from sidecar.index.segment_files import holds_only_live_text

_STAMP = "stamp.json"
_UNITS = "units"
_PASSAGES = "passages"


class WordSnapshot(msgspec.Struct, frozen=True):
    """One generation of a half of a lexicon; a source without documents has no engine and finds nothing."""

    engine: LexicalSnapshot | None = None

    @property
    def count(self) -> int:
        """How many documents (units or passages) there are."""
        return self.engine.count if self.engine else 0

    def document_frequency(self, field: str, term: str) -> int:
        """As `LexicalSnapshot.document_frequency`."""
        return self.engine.document_frequency(field, term) if self.engine else 0

    def search(
        self,
        terms: Sequence[QueryTerm],
        limit: int,
        only: Collection[int] | None = None,
        *,
        spread: int = 0,
    ) -> Found:
        """As `LexicalSnapshot.search`."""
        if self.engine is None:
            return NOTHING
        return self.engine.search(terms, limit, only, spread=spread)

    def matching(
        self,
        terms: Sequence[QueryTerm],
        limit: int,
        only: Collection[int] | None = None,
        *,
        spread: int = 0,
    ) -> Found:
        """As `LexicalSnapshot.matching`."""
        return self.engine.matching(terms, limit, only, spread=spread) if self.engine else NOTHING

    def count_matching(self, field: str, term: str, only: Collection[int] | None = None) -> int:
        """As `LexicalSnapshot.count_matching`."""
        return self.engine.count_matching(field, term, only) if self.engine else 0


class LexiconSnapshot(msgspec.Struct, frozen=True):
    """One generation of a source's words."""

    units: WordSnapshot = WordSnapshot()
    passages: WordSnapshot = WordSnapshot()


class Lexicon:
    """Both indexes of a source in one directory, stamped with what they were made from. Blocking."""

    def __init__(self, directory: Path, layout: LexicalLayout, store: str) -> None:
        """Open the directory, or make it; `StoreDamaged` when it is of other data, `StateError` as below."""
        self.directory = private_directory(directory)
        stamp = _stamp(layout, store)
        if next(directory.iterdir(), None) is None:
            replace_file(directory / _STAMP, stamp)
        elif not _has_stamp(directory / _STAMP, stamp):
            raise StoreDamaged("a lexical index was made from other data")
        elif not all((directory / part / "meta.json").is_file() for part in (_UNITS, _PASSAGES)):
            raise StoreDamaged("a lexical index is missing")
        self._units = LexicalIndex(directory / _UNITS, layout.unit_fields)
        self._passages = LexicalIndex(directory / _PASSAGES, layout.passage_fields)

    def stage(self, removed: Collection[int], added: Sequence[tuple[int, Contents]]) -> None:
        """Forget and add documents in both indexes, for the next `commit`; doing it again changes nothing."""
        self._units.stage(removed, ((number, _unit_parts(contents)) for number, contents in added))
        self._passages.stage(removed, ((number, contents.passages) for number, contents in added))

    def commit(self) -> None:
        """Make what was staged visible and durable."""
        self._units.commit()
        self._passages.commit()

    def snapshot(self) -> LexiconSnapshot:
        """What the last commit holds."""
        return LexiconSnapshot(WordSnapshot(self._units.snapshot()), WordSnapshot(self._passages.snapshot()))

    def require(self, documents: Collection[int], units: int) -> None:
        """Raise `StoreDamaged` unless exactly these documents, with so many searchable units, are present."""
        words = self._units.snapshot().count == units
        if not words or self._passages.snapshot().documents() != set(documents):
            raise StoreDamaged("a lexical index does not hold what it should")

    def holds_only_live_text(self) -> bool:
        """Whether nothing of a forgotten document is left in its files."""
        return all(holds_only_live_text(self.directory / part) for part in (_UNITS, _PASSAGES))

    def close_writer(self) -> None:
        """Release what writing holds; the next commit takes it again."""
        self._units.close_writer()
        self._passages.close_writer()

    def abandon_writer(self) -> None:
        """Release what writing holds without waiting; the last commits stand."""
        self._units.abandon_writer()
        self._passages.abandon_writer()


def _unit_parts(contents: Contents) -> Iterator[Part]:
    for ordinal, texts in enumerate(contents.units):
        if texts:
            yield ordinal, count_terms(texts), texts


def _stamp(layout: LexicalLayout, store: str) -> bytes:
    return msgspec.json.encode({"engine": version("tantivy"), "store": store, "layout": layout})


def _has_stamp(path: Path, stamp: bytes) -> bool:
    try:
        return path.read_bytes() == stamp
    except OSError:
        return False

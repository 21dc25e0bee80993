"""Whether a text found earlier still stands on disk, where, and whether it may be shown (spec §5.1)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sidecar.corpus.scan import Corpus
from sidecar.domain.corpus import Annotations, OriginClass
from sidecar.domain.errors import CorpusError
from sidecar.domain.memory import Hit, LineRange, Source
from sidecar.index.documents import IndexDocument
from sidecar.index.packing import UnitTable, unit_table
from sidecar.index.view import View
from sidecar.service.documents import document_of
from sidecar.service.hits import Found, HitMaker
from sidecar.service.shelf import Shelf
from sidecar.service.walks import KeptHit, Place
from sidecar.text.lines import decode, find_copies, find_revision, split_lines

PROVEN_SOURCES: tuple[Source, ...] = ("memory",)
"""Sources whose texts this module can find again; hits of any other are left out (fail closed)."""


class _File(msgspec.Struct, frozen=True):
    """A file as it is now."""

    lines: Sequence[str]
    units: UnitTable
    origin: OriginClass
    source: Source


class Present:
    """One look at the disk for a page of hits: each file is looked at once. Blocking."""

    def __init__(
        self, *, view: View, shelf: Shelf, corpus: Corpus, hits: HitMaker, projects: frozenset[str]
    ) -> None:
        self._view = view
        self._shelf = shelf
        self._corpus = corpus
        self._hits = hits
        self._projects = projects
        self._files: dict[str, _File | None] = {}
        self.lost: set[str] = set()
        """Files that no longer hold a text that was looked for."""
        self.unindexed: set[str] = set()
        """Files that are not what the index holds."""

    def hit(self, kept: KeptHit) -> Hit | None:
        """The hit with its present text and lines; None when it changed, vanished, or may not be shown."""
        if kept.source not in PROVEN_SOURCES:
            return None
        place = kept.place
        where = self._where(place, kept.before)
        file = self._files[place.path]
        if file is None or where is None:
            self.lost.add(place.path)
            return None
        annotations = self._admitted(file.units, where, kept.project_keys)
        if annotations is None:
            return None
        found = Found(
            path=place.path,
            source=file.source,
            origin=file.origin,
            annotations=annotations,
            score=kept.score,
            parts=kept.parts,
        )
        hit = self._hits.hit(found, file.lines, where)
        twins = [
            self._hits.citation(*twin) for place in kept.twins if (twin := self._twin(place)) is not None
        ]
        return msgspec.structs.replace(hit, citations=(*hit.citations, *twins)) if twins else hit

    def _twin(self, place: Place) -> tuple[str, Sequence[str], LineRange] | None:
        where = self._where(place)
        file = self._files[place.path]
        if file is None or where is None or self._admitted(file.units, where) is None:
            return None
        return place.path, file.lines, where

    def _where(self, place: Place, before: Sequence[Place] = ()) -> LineRange | None:
        """Where a text stands in its file now; of several copies the nearest that is not one of `before`."""
        if place.path not in self._files:
            self._files[place.path] = self._look(place.path)
        file = self._files[place.path]
        if file is None:
            return None
        count = place.where.end - place.where.start + 1
        if before:
            copies = find_copies(file.lines, place.revision, count)
            for earlier in before:
                _take_nearest(copies, earlier)
            start = _take_nearest(copies, place)
        else:
            start = find_revision(file.lines, place.revision, place.where.start, count)
        return None if start is None else LineRange(start, start + count - 1, place.where.chars)

    def _look(self, path: str) -> _File | None:
        entry = self._view.paths.get(path)
        lines = self._shelf.lines(entry) if entry is not None else None
        if entry is not None and lines is not None:
            return _File(lines, entry.units, entry.origin, entry.source)
        self.unindexed.add(path)
        try:
            read = self._corpus.read(path)
        except CorpusError:
            return None
        if read is None or read.file.path != path:
            return None
        document = document_of(read, settled=False, known_hash=None)
        if not isinstance(document, IndexDocument):
            return None
        lines = split_lines(decode(read.data).text)
        return _File(lines, unit_table(document.units), document.origin, document.source)

    def _admitted(self, units: UnitTable, where: LineRange, keys: tuple[str, ...] = ()) -> Annotations | None:
        """The annotations of the lines, of a unit with just these keys if there is one.

        None where one of their units may not be seen (U§10).
        """
        found: Annotations | None = None
        for ordinal in units.between(where.start, where.end):
            annotations = units.annotations(ordinal)
            if annotations.malformed:
                return None
            if self._projects and not self._projects.issuperset(annotations.project_keys):
                return None
            if found is None or (found.project_keys != keys and annotations.project_keys == keys):
                found = annotations
        return found


def _take_nearest(copies: list[int], place: Place) -> int | None:
    """The first line of the copy nearest to where the text stood, which is no longer free."""
    if not copies:
        return None
    nearest = min(copies, key=lambda start: (abs(start - place.where.start), start))
    copies.remove(nearest)
    return nearest

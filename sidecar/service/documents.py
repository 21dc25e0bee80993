"""From a file's bytes to what the index stores: the one place that knows both shapes (spec §7)."""

from __future__ import annotations

import hashlib

import msgspec

from sidecar.corpus.scan import FileRead
from sidecar.domain.corpus import FileStamp, OriginClass
from sidecar.domain.halting import Checkpoint, carry_on
from sidecar.index.documents import IndexBlock, IndexDocument, IndexPassage, IndexUnit, LexicalLayout
from sidecar.text.prepare import PreparedUnit, prepare
from sidecar.text.windows import BLOCKED

UNIT_FIELD = "own"
PASSAGE_FIELD = "text"
LAYOUT = LexicalLayout(stamp="units-3", unit_fields=(UNIT_FIELD,), passage_fields=(PASSAGE_FIELD,))
"""Bump the stamp when the same bytes are prepared to other terms, units, passages or blocks."""

_SYSTEM_FOLDERS = ("memory/dreaming/", "memory/.dreams/")


class Unchanged(msgspec.Struct, frozen=True):
    """A file that was touched but holds what was indexed."""

    path: str
    stamp: FileStamp
    settled: bool


def origin_of(path: str) -> OriginClass:
    """The origin class of a memory file by its place (U§8): never `owner` for files."""
    if path.startswith(_SYSTEM_FOLDERS):
        return "system"
    if path in ("MEMORY.md", "USER.md") or path.startswith("memory/"):
        return "agent"
    return "untrusted"


def document_of(
    read: FileRead, *, settled: bool, known_hash: bytes | None, check: Checkpoint = carry_on
) -> IndexDocument | Unchanged:
    """The document of a read file, or `Unchanged` when its content hash is the known one. Pure."""
    file = read.file
    if known_hash is not None and hashlib.sha256(read.data).digest() == known_hash:
        return Unchanged(file.path, file.stamp, settled)
    prepared = prepare(file.path, file.source, read.data, file.stamp, check)
    return IndexDocument(
        path=file.path,
        source=file.source,
        stamp=file.stamp,
        content_hash=prepared.content_hash,
        day=prepared.day,
        origin=origin_of(file.path),
        settled=settled,
        notes=tuple(note for note in (read.note, prepared.note) if note is not None),
        units=tuple(_unit(unit) for unit in prepared.units),
        passages=tuple(
            IndexPassage(
                first_unit=passage.first_unit,
                unit_count=passage.unit_count,
                fields={PASSAGE_FIELD: passage.terms},
            )
            for passage in prepared.passages
        ),
        blocks=tuple(
            IndexBlock(
                first_unit=block.first_unit, last_unit=block.last_unit, hash=block.hash, text=block.text
            )
            for block in prepared.blocks
        ),
    )


def _unit(prepared: PreparedUnit) -> IndexUnit:
    searchable = prepared.group != BLOCKED and prepared.terms
    return IndexUnit(
        lines=prepared.unit.lines,
        kind=prepared.unit.kind,
        section=prepared.unit.section,
        group=prepared.group,
        size=prepared.size,
        annotations=prepared.unit.annotations,
        fields={UNIT_FIELD: prepared.terms} if searchable else {},
    )

"""A version of a file as the index keeps it: the compact entry in memory, and the packed row for SQLite."""

from __future__ import annotations

import msgspec

from sidecar.domain.corpus import FileStamp, OriginClass
from sidecar.domain.memory import Source
from sidecar.index.documents import ORDINAL_BITS, IndexBlock, IndexDocument, LexicalLayout, check_document
from sidecar.index.packing import Contents, UnitTable, contents_of, pack_contents, unit_table


class DocumentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A live document. A changed file is a new entry with a new, never reused `document_id`."""

    document_id: int
    path: str
    source: Source
    stamp: FileStamp
    settled: bool
    content_hash: bytes
    day: int | None
    origin: OriginClass
    notes: tuple[str, ...]
    units: UnitTable
    searchable_units: int
    term_count: int
    blocks: int
    facts: bytes = b""


class PackedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document ready for the stores, before it has a number."""

    document: IndexDocument
    units: UnitTable
    contents: Contents
    packed_contents: bytes
    term_count: int

    @property
    def blocks(self) -> tuple[IndexBlock, ...]:
        """The blocks in order of their first unit."""
        return self.document.blocks

    def entry(self, document_id: int) -> DocumentEntry:
        """The entry under this number."""
        document = self.document
        return DocumentEntry(
            document_id=document_id,
            path=document.path,
            source=document.source,
            stamp=document.stamp,
            settled=document.settled,
            content_hash=document.content_hash,
            day=document.day,
            origin=document.origin,
            notes=document.notes,
            units=self.units,
            searchable_units=self.contents.searchable_units,
            term_count=self.term_count,
            blocks=len(document.blocks),
            facts=document.facts,
        )


def pack_document(document: IndexDocument, layout: LexicalLayout) -> PackedDocument:
    """Checked and packed; raises `ValueError` for a document that no store could hold."""
    check_document(document, layout)
    contents = contents_of(document, layout)
    return PackedDocument(
        document=document,
        units=unit_table(document.units),
        contents=contents,
        packed_contents=pack_contents(contents),
        term_count=contents.term_count,
    )


def unit_key(document_id: int, ordinal: int) -> int:
    """The number of a unit in the lexical engine."""
    return document_id << ORDINAL_BITS | ordinal


def split_key(key: int) -> tuple[int, int]:
    """Document number and unit ordinal of a key."""
    return key >> ORDINAL_BITS, key & ((1 << ORDINAL_BITS) - 1)

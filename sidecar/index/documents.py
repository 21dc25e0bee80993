"""What the index is given: prepared documents, and the layout of the fields that carry their terms."""

from __future__ import annotations

from typing import Protocol

import msgspec

from sidecar.domain.corpus import Annotations, FileStamp, OriginClass, UnitKind
from sidecar.domain.memory import LineRange, Source

ORDINAL_BITS = 24
MAX_UNITS = 1 << ORDINAL_BITS


class VectorModel(Protocol):
    """What makes two vectors comparable (`EmbeddingIdentity` of an embedding service is one)."""

    @property
    def name(self) -> str:
        """The model, with everything about it that changes its vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of its vectors."""
        ...


class LexicalLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The text fields of unit documents and of passage documents, and the stamp of their preparation.

    A new `stamp` says that the same file is prepared to other terms, units or blocks: every document is then
    asked for again, while the vectors of unchanged blocks are kept.
    """

    stamp: str
    unit_fields: tuple[str, ...]
    passage_fields: tuple[str, ...]


class IndexUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit with its terms: field name -> terms joined by spaces. Without fields it is not searchable.

    `group` is a signed 32 bit number of the caller's choice, `size` what the unit adds to a window in UTF-16
    units.
    """

    lines: LineRange
    kind: UnitKind
    section: int
    group: int
    size: int
    annotations: Annotations
    fields: dict[str, str]


class IndexPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A longer run of units as one text of the lexical engine: field name -> terms joined by spaces."""

    first_unit: int
    unit_count: int
    fields: dict[str, str]


class IndexBlock(msgspec.Struct, frozen=True, kw_only=True):
    """The units `first_unit` to `last_unit` as one vector; `hash` names `text` whatever file it stands in."""

    first_unit: int
    last_unit: int
    hash: bytes
    text: str


class IndexDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a file. `day` is a date ordinal; `notes` are words for status (why it is not whole).

    `facts` is what its maker wants to find again beside it; the index does not look inside.
    """

    path: str
    source: Source
    stamp: FileStamp
    content_hash: bytes
    day: int | None
    origin: OriginClass
    settled: bool
    notes: tuple[str, ...]
    units: tuple[IndexUnit, ...]
    passages: tuple[IndexPassage, ...]
    blocks: tuple[IndexBlock, ...]
    facts: bytes = b""


def check_document(document: IndexDocument, layout: LexicalLayout) -> None:
    """Raise `ValueError` for a document that no store could hold, before any store is touched."""
    if not document.path or len(document.units) >= MAX_UNITS:
        raise ValueError(f"not an indexable document: {document.path!r}, {len(document.units)} units")
    unknown = {name for passage in document.passages for name in passage.fields} - set(layout.passage_fields)
    for unit in document.units:
        unknown |= unit.fields.keys() - set(layout.unit_fields)
    if unknown:
        raise ValueError(f"fields that the layout does not have: {', '.join(sorted(unknown))}")
    count = len(document.units)
    if any(not 0 <= p.first_unit <= p.first_unit + p.unit_count <= count for p in document.passages):
        raise ValueError(f"not a passage of {document.path!r}")
    previous = -1
    for block in document.blocks:
        if not previous < block.first_unit <= block.last_unit < len(document.units) or not block.hash:
            raise ValueError(f"not a block of {document.path!r}: {block.first_unit}-{block.last_unit}")
        previous = block.first_unit

"""Units and terms as bytes: 21 bytes a unit in memory, terms compressed in SQLite."""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from sidecar.domain.corpus import NO_ANNOTATIONS, Annotations, FileStamp, UnitKind
from sidecar.domain.errors import StoreDamaged
from sidecar.domain.memory import LineRange
from sidecar.index.documents import IndexDocument, IndexUnit, LexicalLayout

# start line, end line, section, group, size, kind
_UNIT = struct.Struct("<IIIiIB")
_CHARS = struct.Struct("<II")
_KINDS: tuple[UnitKind, ...] = ("heading", "bullet", "paragraph", "row", "code", "front_matter")
_KIND_NUMBER = {kind: number for number, kind in enumerate(_KINDS)}
_NO_CHARS = (0, 0)
_EMPTY: Mapping[int, Annotations] = {}

UNIT_BYTES = _UNIT.size
HEADING = _KIND_NUMBER["heading"]
"""The `UnitRow.kind` of a unit that opens a section."""


class UnitRow(NamedTuple):
    """One unit as it is packed: lines, section, group, size in a window, number of its kind."""

    start: int
    end: int
    section: int
    group: int
    size: int
    kind: int


class UnitTable(msgspec.Struct, frozen=True):
    """The units of one document, addressed by ordinal (0-based, in file order).

    `rows` holds `UNIT_BYTES` a unit; `chars` is empty unless some unit is a part of an over-long line, then
    8 bytes a unit; `marked` are the annotations of the few units that have any.
    """

    rows: bytes
    chars: bytes = b""
    marked: Mapping[int, Annotations] = _EMPTY

    def __len__(self) -> int:
        return len(self.rows) // UNIT_BYTES

    def row(self, ordinal: int) -> UnitRow:
        """One row."""
        return UnitRow(*_UNIT.unpack_from(self.rows, ordinal * UNIT_BYTES))

    def rows_between(self, first: int, end: int) -> list[UnitRow]:
        """The rows from ordinal `first` up to, not including, `end`, as far as there are any."""
        part = self.rows[first * UNIT_BYTES : end * UNIT_BYTES]
        return [UnitRow._make(row) for row in _UNIT.iter_unpack(part)]

    def lines(self, ordinal: int) -> LineRange:
        """Where the unit stands."""
        row = _UNIT.unpack_from(self.rows, ordinal * UNIT_BYTES)
        return LineRange(row[0], row[1], self.char_range(ordinal))

    def span(self, ordinal: int) -> tuple[int, int]:
        """First and last line, for callers that need no range object."""
        row = _UNIT.unpack_from(self.rows, ordinal * UNIT_BYTES)
        return row[0], row[1]

    def between(self, first: int, last: int) -> range:
        """The ordinals of the units that have a line from `first` to `last`."""
        count = len(self)
        low = bisect_left(range(count), first, key=lambda ordinal: self.span(ordinal)[1])
        return range(low, bisect_right(range(count), last, lo=low, key=lambda ordinal: self.span(ordinal)[0]))

    def char_range(self, ordinal: int) -> tuple[int, int] | None:
        """The code points of an over-long line that the unit covers."""
        if not self.chars:
            return None
        begin, end = _CHARS.unpack_from(self.chars, ordinal * _CHARS.size)
        return None if (begin, end) == _NO_CHARS else (begin, end)

    def section(self, ordinal: int) -> int:
        """The number shared by the units under one heading."""
        return int(_UNIT.unpack_from(self.rows, ordinal * UNIT_BYTES)[2])

    def group(self, ordinal: int) -> int:
        """The caller's group number."""
        return int(_UNIT.unpack_from(self.rows, ordinal * UNIT_BYTES)[3])

    def size(self, ordinal: int) -> int:
        """What the unit adds to a window, in UTF-16 units."""
        return int(_UNIT.unpack_from(self.rows, ordinal * UNIT_BYTES)[4])

    def kind(self, ordinal: int) -> UnitKind:
        """What the unit is in Markdown."""
        return _KINDS[int(_UNIT.unpack_from(self.rows, ordinal * UNIT_BYTES)[5])]

    def annotations(self, ordinal: int) -> Annotations:
        """What the comments of the unit's entry say."""
        return self.marked.get(ordinal, NO_ANNOTATIONS)


# First unit, count of units, texts by field in the layout's order.
PassageTexts = tuple[int, int, list[str]]


class Contents(msgspec.Struct, frozen=True, array_like=True):
    """What the engines are rebuilt from: terms by field in the layout's order, and the texts of the blocks.

    `units[ordinal]` is empty for a unit that is not searchable.
    """

    units: list[list[str]]
    passages: list[PassageTexts]
    blocks: list[str]

    @property
    def searchable_units(self) -> int:
        """How many unit documents the lexical engine holds for it."""
        return sum(1 for fields in self.units if fields)

    @property
    def term_count(self) -> int:
        """How many terms the units hold together."""
        return sum(map(count_terms, self.units))


def count_terms(texts: Sequence[str]) -> int:
    """How many terms, joined by single spaces, the texts hold."""
    return sum(text.count(" ") + 1 for text in texts if text)


_ENCODER = msgspec.msgpack.Encoder()
_CONTENTS = msgspec.msgpack.Decoder(Contents)
_MARKED = msgspec.msgpack.Decoder(dict[int, Annotations])
_NOTES = msgspec.msgpack.Decoder(tuple[str, ...])


def unit_table(units: tuple[IndexUnit, ...]) -> UnitTable:
    """The units as a table."""
    rows = bytearray(len(units) * UNIT_BYTES)
    for ordinal, unit in enumerate(units):
        _UNIT.pack_into(
            rows,
            ordinal * UNIT_BYTES,
            unit.lines.start,
            unit.lines.end,
            unit.section,
            unit.group,
            unit.size,
            _KIND_NUMBER[unit.kind],
        )
    chars = b""
    if any(unit.lines.chars for unit in units):
        chars = b"".join(_CHARS.pack(*(unit.lines.chars or _NO_CHARS)) for unit in units)
    marked = {o: unit.annotations for o, unit in enumerate(units) if unit.annotations != NO_ANNOTATIONS}
    return UnitTable(bytes(rows), chars, marked or _EMPTY)


def contents_of(document: IndexDocument, layout: LexicalLayout) -> Contents:
    """The terms and block texts of a checked document."""
    names = layout.unit_fields
    return Contents(
        units=[
            [_valid(u.fields.get(name, "")) for name in names] if u.fields else [] for u in document.units
        ],
        passages=[
            (p.first_unit, p.unit_count, [_valid(p.fields.get(name, "")) for name in layout.passage_fields])
            for p in document.passages
        ],
        blocks=[_valid(block.text) for block in document.blocks],
    )


def _valid(text: str) -> str:
    """The text without lone surrogates (of file names that are not Unicode), which no engine takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def pack_contents(contents: Contents) -> bytes:
    """Compressed, with a checksum that `unpack_contents` verifies."""
    return zlib.compress(_ENCODER.encode(contents), 1)


def unpack_contents(packed: bytes) -> Contents:
    """Raises `StoreDamaged` when the bytes are not what was packed."""
    try:
        return _CONTENTS.decode(zlib.decompress(packed))
    except (zlib.error, TypeError, msgspec.MsgspecError) as error:
        raise StoreDamaged("stored terms cannot be read") from error


def pack_marked(marked: Mapping[int, Annotations]) -> bytes:
    """Annotations by ordinal; nothing for none."""
    return _ENCODER.encode(dict(marked)) if marked else b""


def unpack_marked(packed: bytes) -> Mapping[int, Annotations]:
    """Raises `StoreDamaged` when the bytes are not what was packed."""
    try:
        return _MARKED.decode(packed) if packed else _EMPTY
    except msgspec.MsgspecError as error:
        raise StoreDamaged("stored annotations cannot be read") from error


def pack_notes(notes: tuple[str, ...]) -> bytes:
    """Words for status; nothing for none."""
    return _ENCODER.encode(tuple(map(_valid, notes))) if notes else b""


def unpack_notes(packed: bytes) -> tuple[str, ...]:
    """Raises `StoreDamaged` when the bytes are not what was packed."""
    try:
        return _NOTES.decode(packed) if packed else ()
    except msgspec.MsgspecError as error:
        raise StoreDamaged("stored notes cannot be read") from error


def pack_stamp(stamp: FileStamp) -> str:
    """As decimal text: file systems give numbers beyond SQLite's 63 bits."""
    return f"{stamp.mtime_ns} {stamp.ctime_ns} {stamp.size} {stamp.inode} {stamp.device}"


def unpack_stamp(text: str) -> FileStamp:
    """Raises `StoreDamaged` when the text is not a stamp."""
    try:
        mtime_ns, ctime_ns, size, inode, device = map(int, text.split(" "))
    except (ValueError, AttributeError) as error:
        raise StoreDamaged("a stored file stamp cannot be read") from error
    return FileStamp(mtime_ns, ctime_ns, size, inode, device)

"""From a chunk of a transcript to the document that the index stores, and what is found again beside it.

Inside a document, lines are counted over its records (1 is the first): what a record says may be many
physical lines from the next. The physical lines come back with the records when the chunk is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from hashlib import blake2b, sha256

import msgspec

from sidecar.domain.corpus import NO_ANNOTATIONS, SourceFile
from sidecar.domain.memory import LineRange
from sidecar.index.documents import IndexBlock, IndexDocument, IndexPassage, IndexUnit, LexicalLayout
from sidecar.index.entries import DocumentEntry
from sidecar.service.documents import PASSAGE_FIELD, UNIT_FIELD
from sidecar.text.cutting import UNIT_LIMIT, cut_line
from sidecar.text.lines import utf16_length
from sidecar.text.terms import index_terms
from sidecar.text.transcript_chunks import Chunk, Start
from sidecar.text.transcripts import Rendered, worst

LAYOUT = LexicalLayout(stamp="transcripts-1", unit_fields=(UNIT_FIELD,), passage_fields=(PASSAGE_FIELD,))
"""Bump the stamp when the same bytes are rendered, cut or prepared otherwise."""

_BLOCK = 650
_PASSAGE = 2500
_MOST_SECTION = 0xFFFF_FFFF


class ChunkFacts(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Where a chunk stands in its file, and how to read it again.

    `dropped` says why nothing of the whole file is indexed; its only chunk is then a mark without text.
    """

    start: Start
    end: int
    last_line: int
    reset: int | None
    dropped: str | None = None


_ENCODER = msgspec.msgpack.Encoder()
_FACTS = msgspec.msgpack.Decoder(ChunkFacts)


def chunk_path(path: str, number: int) -> str:
    """The index's name of a chunk."""
    return f"{path}#{number}"


def transcript_of(index_path: str) -> str:
    """The caller path of the transcript that a chunk belongs to."""
    return index_path.rpartition("#")[0]


@lru_cache(maxsize=4096)
def _decoded(packed: bytes) -> ChunkFacts:
    return _FACTS.decode(packed)


def facts_of(entry: DocumentEntry) -> ChunkFacts:
    """What is kept beside a chunk."""
    return _decoded(entry.facts)


def document_of_chunk(file: SourceFile, chunk: Chunk, *, settled: bool) -> IndexDocument:
    """The document of a chunk. Pure."""
    units = [unit for place, record in enumerate(chunk.records, start=1) for unit in _units(place, record)]
    bodies = [_body(chunk.records, unit) for unit in units]
    terms = [list(dict.fromkeys(index_terms(body))) for body in bodies]
    return IndexDocument(
        path=chunk_path(file.path, chunk.start.number),
        source="sessions",
        stamp=file.stamp,
        content_hash=chunk.digest,
        day=_day(chunk.records, file),
        origin=worst({record.origin for record in chunk.records}),
        settled=settled,
        notes=chunk.notes,
        units=tuple(
            msgspec.structs.replace(unit, fields={UNIT_FIELD: " ".join(own)}) if own else unit
            for unit, own in zip(units, terms, strict=True)
        ),
        passages=_passages(units, terms),
        blocks=tuple(_blocks(units, bodies)),
        facts=_ENCODER.encode(
            ChunkFacts(start=chunk.start, end=chunk.end, last_line=chunk.last_line, reset=chunk.reset)
        ),
    )


def mark_of_dropped(file: SourceFile, reason: str, *, settled: bool) -> IndexDocument:
    """The one document of a file of which nothing is indexed: it says that the file was read, and why not."""
    facts = ChunkFacts(start=Start(), end=file.stamp.size, last_line=0, reset=None, dropped=reason)
    return IndexDocument(
        path=chunk_path(file.path, 0),
        source="sessions",
        stamp=file.stamp,
        content_hash=sha256().digest(),
        day=None,
        origin="system",
        settled=settled,
        notes=(),
        units=(),
        passages=_passages([], []),
        blocks=(),
        facts=_ENCODER.encode(facts),
    )


def _units(place: int, record: Rendered) -> Iterator[IndexUnit]:
    whole = utf16_length(record.text)
    pieces: list[tuple[int, int] | None] = [None]
    if whole > UNIT_LIMIT:
        pieces = [*cut_line(record.text)]
    for chars in pieces:
        yield IndexUnit(
            lines=LineRange(place, place, chars),
            kind="paragraph",
            section=record.turn & _MOST_SECTION,
            group=0,
            size=whole if chars is None else utf16_length(record.text[chars[0] : chars[1]]),
            annotations=NO_ANNOTATIONS,
            fields={},
        )


def _body(records: Sequence[Rendered], unit: IndexUnit) -> str:
    start, end = unit.lines.chars or (0, None)
    return records[unit.lines.start - 1].body(start, end)


def _runs(units: Sequence[IndexUnit], most: int) -> Iterator[tuple[int, int]]:
    """First and last of consecutive units of about `most` UTF-16 units. An append changes the last only."""
    first, length = 0, 0
    for index, unit in enumerate(units):
        if index > first and length + unit.size > most:
            yield first, index - 1
            first, length = index, 0
        length += unit.size + 1
    if units:
        yield first, len(units) - 1


def _passages(units: Sequence[IndexUnit], terms: Sequence[Sequence[str]]) -> tuple[IndexPassage, ...]:
    passages = []
    for first, last in _runs(units, _PASSAGE):
        held = dict.fromkeys(term for own in terms[first : last + 1] for term in own)
        passages.append(
            IndexPassage(
                first_unit=first, unit_count=last - first + 1, fields={PASSAGE_FIELD: " ".join(held)}
            )
        )
    return tuple(passages) or (IndexPassage(first_unit=0, unit_count=0, fields={PASSAGE_FIELD: ""}),)


def _blocks(units: Sequence[IndexUnit], bodies: Sequence[str]) -> Iterator[IndexBlock]:
    for first, last in _runs(units, _BLOCK):
        text = "\n".join(body for body in bodies[first : last + 1] if body.strip())
        if text:
            digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            yield IndexBlock(first_unit=first, last_unit=last, hash=digest, text=text)


def _day(records: Sequence[Rendered], file: SourceFile) -> int:
    """The day (UTC) of the newest message, or else of the file's last change."""
    newest = max((record.observed_ms for record in records), default=0)
    seconds = newest / 1000 if newest else file.stamp.mtime_ns / 1e9
    try:
        return datetime.fromtimestamp(seconds, UTC).date().toordinal()
    except (ValueError, OverflowError, OSError):
        return date.max.toordinal() if seconds > 0 else date.min.toordinal()

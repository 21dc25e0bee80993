"""The catalog: the SQLite authority for all derived state (spec §7).

A generation is published in three steps: `announce` writes the new documents and the journal of what the
engines are going to learn, the engines commit, `publish` makes the new documents live and clears the
journal. Between the steps the journal says what is left to do.
"""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
import zlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import aiosqlite
import msgspec

from sidecar.domain.corpus import FileStamp
from sidecar.domain.errors import StoreDamaged
from sidecar.index.database import ATTACHED, open_database, transaction, translated
from sidecar.index.entries import DocumentEntry, PackedDocument
from sidecar.index.packing import (
    Contents,
    UnitTable,
    pack_marked,
    pack_notes,
    pack_stamp,
    unpack_contents,
    unpack_marked,
    unpack_notes,
    unpack_stamp,
)
from sidecar.index.vector_cache import VectorCache

_COLUMNS = (
    "document_id, path, source, stamp, settled, content_hash, day, origin, notes, searchable_units, "
    "term_count, blocks, units, chars, marked, facts, checksum"
)
_ROWS_AT_ONCE = 1000
# The engines have 40 bits for the number of a document.
_MOST_NUMBERS = 1 << 39
_CONTENTS_AT_ONCE = 200


class Journal(msgspec.Struct, frozen=True):
    """Documents that the engines were about to learn and to forget."""

    added: frozenset[int] = frozenset()
    removed: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class Restamp(msgspec.Struct, frozen=True):
    """A document whose file was touched but not changed."""

    document_id: int
    stamp: FileStamp
    settled: bool


class Catalog:
    """One connection. Writing methods are for one caller at a time; `vectors` is the cache beside it."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection
        self.vectors = VectorCache(connection)

    @classmethod
    async def open(
        cls, directory: Path, *, distrusted: bool = False
    ) -> tuple[Catalog, bool, tuple[str, ...]]:
        """The catalog, whether it is new, and what had to be repaired; raises `StateError`."""
        connection, fresh, repairs = await open_database(directory, distrusted=distrusted)
        catalog = cls(connection)
        try:
            if await catalog.meta("store") is None:
                await catalog.set_meta({"store": uuid.uuid4().hex})
        except BaseException:
            await connection.close()
            raise
        return catalog, fresh, repairs

    async def close(self) -> None:
        """Close the connection; the write-ahead log is folded in by SQLite."""
        with translated():
            await self._connection.close()

    async def meta(self, name: str) -> str | None:
        """A named fact, or None."""
        with translated():
            rows = await self._connection.execute_fetchall("SELECT value FROM meta WHERE name = ?", (name,))
        return next((row[0] for row in rows), None)

    async def set_meta(self, facts: Mapping[str, str]) -> None:
        """Write named facts."""
        async with transaction(self._connection):
            await self._set_meta(facts)

    async def _set_meta(self, facts: Mapping[str, str]) -> None:
        await self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", facts.items())

    async def last_number(self) -> int:
        """The highest number that a document was ever given; raises `StoreDamaged` when that is a lie."""
        query = (
            "SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'documents'), max(document_id) "
            "FROM documents"
        )
        with translated():
            ((given, highest),) = await self._connection.execute_fetchall(query)
        given = 0 if given is None else given
        if not isinstance(given, int) or not (highest or 0) <= given < _MOST_NUMBERS:
            raise StoreDamaged("the catalog is damaged")
        return given

    async def announce(self, documents: Sequence[PackedDocument], removed: Collection[int]) -> list[int]:
        """Write the documents (not live yet) and the journal; gives their new numbers in order."""
        async with transaction(self._connection):
            query = "SELECT seq FROM sqlite_sequence WHERE name = 'documents'"
            last = next((row[0] for row in await self._connection.execute_fetchall(query)), 0)
            numbers = list(range(last + 1, last + 1 + len(documents)))
            rows = list(zip(numbers, documents, strict=True))
            await self._connection.executemany(
                f"INSERT INTO documents (live, {_COLUMNS}) VALUES (0, {', '.join('?' * 17)})",  # noqa: S608
                [_document_row(number, document) for number, document in rows],
            )
            await self._connection.executemany(
                "INSERT INTO contents VALUES (?, ?)",
                [(number, document.packed_contents) for number, document in rows],
            )
            await self._connection.executemany(
                "INSERT INTO blocks VALUES (?, ?, ?, ?, ?)",
                [
                    (number, ordinal, block.first_unit, block.last_unit, block.hash)
                    for number, document in rows
                    for ordinal, block in enumerate(document.blocks)
                ],
            )
            journal = [(number, "add") for number in numbers] + [(number, "remove") for number in removed]
            await self._connection.executemany("INSERT INTO journal VALUES (?, ?)", journal)
        return numbers

    async def publish(self, journal: Journal, restamps: Iterable[Restamp], generation: int) -> None:
        """Make a journal's additions live, delete its removals, restamp, and clear the journal."""
        async with transaction(self._connection):
            execute = self._connection.executemany
            await execute("DELETE FROM documents WHERE document_id = ?", [(n,) for n in journal.removed])
            await execute(
                "UPDATE documents SET live = 1 WHERE document_id = ?", [(n,) for n in journal.added]
            )
            await execute(
                "UPDATE documents SET stamp = ?, settled = ? WHERE document_id = ?",
                [(pack_stamp(r.stamp), r.settled, r.document_id) for r in restamps],
            )
            await self._connection.execute("DELETE FROM journal")
            await self._set_meta({"generation": str(generation)})

    async def journal(self) -> Journal:
        """What was announced and not published."""
        with translated():
            rows = await self._connection.execute_fetchall("SELECT document_id, action FROM journal")
        return Journal(
            frozenset(row[0] for row in rows if row[1] == "add"),
            frozenset(row[0] for row in rows if row[1] == "remove"),
        )

    async def forget_documents(self) -> None:
        """Drop every document, so that all of them are asked for again; vectors stay in the cache."""
        async with transaction(self._connection):
            await self._connection.execute("DELETE FROM documents")
            await self._connection.execute("DELETE FROM journal")

    async def entries(self) -> dict[int, DocumentEntry]:
        """Every stored document by number: the live ones and those that the journal announces."""
        found: dict[int, DocumentEntry] = {}
        async for rows in self._stream(f"SELECT {_COLUMNS} FROM documents ORDER BY document_id"):  # noqa: S608
            for entry in await asyncio.to_thread(_entries, rows):
                found[entry.document_id] = entry
        return found

    async def contents(self, numbers: Sequence[int]) -> AsyncIterator[list[tuple[int, Contents]]]:
        """The terms of documents, in the given order, a bounded number at a time."""
        for start in range(0, len(numbers), _CONTENTS_AT_ONCE):
            part = numbers[start : start + _CONTENTS_AT_ONCE]
            marks = ", ".join("?" * len(part))
            query = f"SELECT document_id, packed FROM contents WHERE document_id IN ({marks})"  # noqa: S608
            with translated():
                rows = {row[0]: row[1] for row in await self._connection.execute_fetchall(query, part)}
            yield await asyncio.to_thread(_unpack_all, [(n, rows[n]) for n in part if n in rows])

    async def blocks(self, numbers: Collection[int]) -> dict[int, list[tuple[int, int, bytes]]]:
        """(first unit, last unit, hash) of each block of these documents, in order."""
        found: dict[int, list[tuple[int, int, bytes]]] = {number: [] for number in numbers}
        query = "SELECT document_id, first_unit, last_unit, hash FROM blocks ORDER BY document_id, ordinal"
        async for rows in self._stream(query):
            for number, first, last, digest in rows:
                if number in found:
                    found[number].append((first, last, digest))
        return found

    async def checkpoint(self) -> None:
        """Fold the write-ahead logs in and empty their files, which may hold text that is gone."""
        with translated():
            await self._connection.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")

    async def vacuum(self) -> None:
        """Write the files anew without their free pages, then `checkpoint`; the cost grows with them."""
        with translated():
            await self._connection.execute("VACUUM main")
            await self._connection.execute(f"VACUUM {ATTACHED}")
        await self.checkpoint()

    async def _stream(self, query: str) -> AsyncIterator[list[sqlite3.Row]]:
        with translated():
            async with self._connection.execute(query) as cursor:
                while rows := list(await cursor.fetchmany(_ROWS_AT_ONCE)):
                    yield rows


def _entries(rows: Sequence[sqlite3.Row]) -> list[DocumentEntry]:
    return [_entry(row) for row in rows]


def _unpack_all(rows: Sequence[tuple[int, bytes]]) -> list[tuple[int, Contents]]:
    return [(number, unpack_contents(packed)) for number, packed in rows]


def _document_row(number: int, packed: PackedDocument) -> tuple[object, ...]:
    entry = packed.entry(number)
    row = (
        number,
        entry.path.encode("utf-8", "surrogateescape"),
        entry.source,
        pack_stamp(entry.stamp),
        entry.settled,
        entry.content_hash,
        entry.day,
        entry.origin,
        pack_notes(entry.notes),
        entry.searchable_units,
        entry.term_count,
        entry.blocks,
        entry.units.rows,
        entry.units.chars,
        pack_marked(entry.units.marked),
        entry.facts,
    )
    return (*row, _checksum(row))


def _checksum(row: Sequence[object]) -> int:
    """Over a document's row but for its stamp, which a touch changes and a look at the disk corrects."""
    crc = 0
    for value in (*row[:3], *row[5:]):
        part = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
        crc = zlib.crc32(part, zlib.crc32(b"%d" % len(part), crc))
    return crc


def _entry(row: sqlite3.Row) -> DocumentEntry:
    *plain, checksum = row
    if checksum != _checksum(plain):
        raise StoreDamaged("what the catalog says of a document is damaged")
    number, path, source, stamp, settled, digest, day, origin, notes, *rest = plain
    searchable, terms, blocks, units, chars, marked, facts = rest
    return DocumentEntry(
        document_id=number,
        path=path.decode("utf-8", "surrogateescape"),
        source=source,
        stamp=unpack_stamp(stamp),
        settled=bool(settled),
        content_hash=digest,
        day=day,
        origin=origin,
        notes=unpack_notes(notes),
        units=UnitTable(units, chars, unpack_marked(marked)),
        searchable_units=searchable,
        term_count=terms,
        blocks=blocks,
        facts=facts,
    )

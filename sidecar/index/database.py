"""One SQLite connection to two files: opened, checked and, where one is no use, made again (spec §7)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiosqlite

from sidecar.domain.errors import StateError, StoreDamaged
from sidecar.index.private_files import private_file, remove_tree, set_aside
from sidecar.index.salvage import salvage_vectors
from sidecar.index.schema import CATALOG, SETTINGS, VECTORS, Tables

CATALOG_NAME = "catalog.sqlite3"
EMBEDDINGS_NAME = "embeddings.sqlite3"
COMPANIONS = ("-wal", "-shm")
ATTACHED = "embeddings"
"""What the second file is called in SQL. Names of tables are unique over both, so queries need no prefix."""

_DAMAGE = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    # Numbers are given once and rows are only written by one writer: a clash means that what is stored lies.
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
}


@contextlib.contextmanager
def translated(what: str = CATALOG.name) -> Iterator[None]:
    """SQLite's errors as ours: `StoreDamaged` for a broken file, `StateError` for a disk that refuses."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        # Without a code it is Python's own complaint, about text that is not UTF-8.
        if code is None or code & 0xFF in _DAMAGE:
            raise StoreDamaged(f"the {what} is damaged") from error
        raise StateError(f"the {what} cannot be used: {error}") from error


@contextlib.asynccontextmanager
async def transaction(connection: aiosqlite.Connection) -> AsyncIterator[None]:
    """All of it or nothing of it, with `translated` errors."""
    with translated():
        await connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            await connection.execute("COMMIT")
        except BaseException:
            # After some failures (a full disk) SQLite has rolled back already.
            if connection.in_transaction:
                await connection.execute("ROLLBACK")
            raise


async def open_database(
    directory: Path, *, distrusted: bool
) -> tuple[aiosqlite.Connection, bool, tuple[str, ...]]:
    """The connection, whether the catalog is new, and what had to be repaired.

    `distrusted` makes the check of the vectors' file thorough, which takes four times as long.

    Raises `StateError` when the directory cannot be used at all.
    """
    repairs = []
    lost: Path | None = None
    path, beside = directory / CATALOG_NAME, directory / EMBEDDINGS_NAME
    try:
        try:
            await asyncio.to_thread(_make_regular, path, CATALOG)
            connection, fresh = await _checked(path, CATALOG)
        except StoreDamaged as damage:
            lost = await asyncio.to_thread(set_aside, path, COMPANIONS)
            repairs.append(f"{damage.message}; it was set aside and the index is rebuilt from the workspace")
            await asyncio.to_thread(_make_regular, path, CATALOG)
            connection, fresh = await _checked(path, CATALOG)
        try:
            repairs += await _attach(
                connection, beside, lost, "integrity_check" if distrusted else "quick_check"
            )
        except BaseException:
            await connection.close()
            raise
    except OSError as error:
        raise StateError(f"the catalog cannot be used: {error.strerror}") from error
    return connection, fresh, tuple(repairs)


async def _attach(
    connection: aiosqlite.Connection, path: Path, catalog: Path | None, check: str
) -> list[str]:
    """Add the vectors' file, made again around what can still be read of it; gives what was repaired.

    `catalog` is what was found in the catalog's place, which may be the vectors' file under a wrong name.
    """
    repairs = []
    try:
        await asyncio.to_thread(_make_regular, path, VECTORS)
        ready, _ = await _checked(path, VECTORS, check)
    except StoreDamaged as damage:
        fresh = path.with_name(path.name + ".new")
        for name in ("", *COMPANIONS):
            await asyncio.to_thread(remove_tree, fresh.with_name(fresh.name + name))
        await asyncio.to_thread(private_file, fresh)
        made, _ = await _checked(fresh, VECTORS)
        await made.close()
        kept = await asyncio.to_thread(salvage_vectors, path, fresh)
        if catalog is not None and not kept:
            kept = await asyncio.to_thread(salvage_vectors, catalog, fresh)
        await asyncio.to_thread(set_aside, path, COMPANIONS)
        await asyncio.to_thread(fresh.replace, path)
        repairs.append(f"{damage.message}; {kept} vectors of it were kept")
        ready, _ = await _checked(path, VECTORS)
    await ready.close()
    with translated():
        await connection.execute(f"ATTACH DATABASE ? AS {ATTACHED}", (str(path),))
        for setting in SETTINGS:
            await _rows(connection, setting.format(file=ATTACHED))
    return repairs


def _make_regular(path: Path, tables: Tables) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise StoreDamaged(f"the {tables.name} was not a regular file")
    for companion in COMPANIONS:
        beside = path.with_name(path.name + companion)
        if beside.is_symlink() or (beside.exists() and not beside.is_file()):
            remove_tree(beside)
    private_file(path)


async def _checked(
    path: Path, tables: Tables, check: str = "quick_check"
) -> tuple[aiosqlite.Connection, bool]:
    with translated(tables.name):
        connection = await aiosqlite.connect(path, isolation_level=None)
    try:
        with translated(tables.name):
            fresh = await _identify(connection, tables, check)
            for setting in SETTINGS:
                await _rows(connection, setting.format(file="main"))
            if fresh:
                await connection.executescript("BEGIN IMMEDIATE;" + tables.script + "COMMIT;")
    except BaseException:
        await connection.close()
        raise
    return connection, fresh


async def _identify(connection: aiosqlite.Connection, tables: Tables, check: str) -> bool:
    """Whether the file is empty; raises `StoreDamaged` when it is not wholly ours."""
    found = (await _rows(connection, "SELECT count(*) FROM sqlite_schema"))[0][0]
    application = (await _rows(connection, "PRAGMA application_id"))[0][0]
    version = (await _rows(connection, "PRAGMA user_version"))[0][0]
    if not found and not application:
        return True
    if application != tables.application_id:
        raise StoreDamaged(f"the {tables.name} was another program's file")
    if version != tables.version:
        age = "a newer" if version > tables.version else "an older"
        raise StoreDamaged(f"the {tables.name} was of {age} version")
    if (await _rows(connection, f"PRAGMA {check}(1)"))[0][0] != "ok":
        raise StoreDamaged(f"the {tables.name} was damaged")
    if [tuple(row) for row in await _rows(connection, _SHAPE)] != _shape(tables.script):
        raise StoreDamaged(f"the {tables.name} was damaged")
    return False


_SHAPE = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"


@functools.cache
def _shape(script: str) -> list[tuple[object, ...]]:
    """The tables and indexes that a sound file of this kind has, in SQLite's own words."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return connection.execute(_SHAPE).fetchall()


async def _rows(connection: aiosqlite.Connection, sql: str) -> list[sqlite3.Row]:
    return list(await connection.execute_fetchall(sql))

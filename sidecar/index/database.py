"""One SQLite connection: opened, checked and, when it is not usable, set aside and made again (spec §7)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiosqlite

from sidecar.domain.errors import StateError, StoreDamaged
from sidecar.index.private_files import private_file, set_aside
from sidecar.index.schema import APPLICATION_ID, SCHEMA, SCHEMA_VERSION, SETTINGS

_COMPANIONS = ("-wal", "-shm")
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """SQLite's errors as ours: `StoreDamaged` for a broken file, `StateError` for a disk that refuses."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF in _DAMAGE:
            raise StoreDamaged("the catalog is damaged") from error
        raise StateError(f"the catalog cannot be used: {error}") from error


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


async def open_database(path: Path) -> tuple[aiosqlite.Connection, bool, str | None]:
    """The connection, whether the file is new, and what had to be repaired.

    Raises `StateError` when the directory cannot be used at all.
    """
    try:
        await asyncio.to_thread(_make_regular, path)
        connection, fresh = await _checked(path)
    except StoreDamaged as damage:
        await asyncio.to_thread(set_aside, path, _COMPANIONS)
        await asyncio.to_thread(private_file, path)
        connection, fresh = await _checked(path)
        return connection, fresh, damage.message
    except OSError as error:
        raise StateError(f"the catalog cannot be used: {error.strerror}") from error
    return connection, fresh, None


def _make_regular(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise StoreDamaged("the catalog was not a regular file")
    private_file(path)


async def _checked(path: Path) -> tuple[aiosqlite.Connection, bool]:
    with translated():
        connection = await aiosqlite.connect(path, isolation_level=None)
    try:
        with translated():
            fresh = await _identify(connection)
            for setting in SETTINGS:
                await _rows(connection, setting)
            if fresh:
                await connection.executescript("BEGIN IMMEDIATE;" + SCHEMA + "COMMIT;")
    except BaseException:
        await connection.close()
        raise
    return connection, fresh


async def _identify(connection: aiosqlite.Connection) -> bool:
    """Whether the file is empty; raises `StoreDamaged` when it is not wholly ours."""
    tables = (await _rows(connection, "SELECT count(*) FROM sqlite_schema"))[0][0]
    application = (await _rows(connection, "PRAGMA application_id"))[0][0]
    version = (await _rows(connection, "PRAGMA user_version"))[0][0]
    if not tables and not application:
        return True
    if application != APPLICATION_ID:
        raise StoreDamaged("the catalog was another program's file")
    if version != SCHEMA_VERSION:
        age = "a newer" if version > SCHEMA_VERSION else "an older"
        raise StoreDamaged(f"the catalog was of {age} version")
    if (await _rows(connection, "PRAGMA quick_check(1)"))[0][0] != "ok":
        raise StoreDamaged("the catalog was damaged")
    return False


async def _rows(connection: aiosqlite.Connection, sql: str) -> list[sqlite3.Row]:
    return list(await connection.execute_fetchall(sql))

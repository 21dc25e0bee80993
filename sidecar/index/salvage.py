"""Vectors out of a file that SQLite no longer vouches for: every row that still proves itself (spec §7).

Vectors cost more to make again than anything else that is stored, so each row carries a checksum of its own
and is taken from whatever pages can still be read.
"""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

_ROWS_AT_ONCE = 512
_PAGE_BYTES = 4096
_MOST_PAGES = 1 << 24
# Where the header of an SQLite file counts its pages.
_COUNT = slice(28, 32)
# A file without a readable end of its numbers: no row is smaller than this. Nor is a number believed that
# would take minutes to count up to.
_LEAST_ROW_BYTES = 32
_MOST_NUMBERS = 20_000_000

Row = tuple[int, int, bytes, bytes, int]


def row_checksum(name: str, digest: bytes, vector: bytes) -> int:
    """What a stored vector proves itself by: model, text and numbers together."""
    return zlib.crc32(vector, zlib.crc32(digest, zlib.crc32(name.encode("utf-8", "replace"))))


def salvage_vectors(damaged: Path, sound: Path) -> int:
    """Copy what can be read of a damaged file of vectors to a sound one; gives how many it has. Blocking.

    First as it is, then under the sound file's own first page, when that is what is damaged. The damaged file
    is changed by this and should be set aside. Raises `OSError`.
    """
    if damaged.is_symlink() or not damaged.is_file() or damaged.stat().st_size < _PAGE_BYTES:
        return 0
    beginning = sound.read_bytes()[:_PAGE_BYTES]
    _mend(damaged, beginning=None)
    kept = _copy(damaged, sound)
    if not kept:
        _mend(damaged, beginning=beginning)
        kept = _copy(damaged, sound)
    return kept


def _mend(path: Path, *, beginning: bytes | None) -> None:
    """Make the size agree with the header, without which no page is read at all."""
    with path.open("r+b") as file:
        header = file.read(_PAGE_BYTES) if beginning is None else beginning
        pages = -(-path.stat().st_size // _PAGE_BYTES)
        if beginning is not None:
            file.seek(0)
            file.write(beginning)
        said = int.from_bytes(header[_COUNT], "big")
        pages = max(pages, said if said < _MOST_PAGES else 0)
        file.seek(_COUNT.start)
        file.write(pages.to_bytes(4, "big"))
        file.truncate(pages * _PAGE_BYTES)


def _copy(damaged: Path, sound: Path) -> int:
    with (
        contextlib.closing(sqlite3.connect(damaged)) as source,
        contextlib.closing(sqlite3.connect(sound)) as target,
    ):
        source.text_factory = _lenient
        models = _models(source)
        with target:
            target.executemany(
                "INSERT OR IGNORE INTO models (model_id, name, dimensions, used, sample) "
                "VALUES (?, ?, ?, ?, ?)",
                models.values(),
            )
            for rows in _readable(source, damaged.stat().st_size):
                target.executemany(
                    "INSERT OR IGNORE INTO vectors (model_id, hash, vector, checksum) VALUES (?, ?, ?, ?)",
                    [row[1:] for row in rows if _proves_itself(row, models)],
                )
        return int(target.execute("SELECT count(*) FROM vectors").fetchone()[0])


def _lenient(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _models(source: sqlite3.Connection) -> dict[int, tuple[int, str, int, int, bytes | None]]:
    query = "SELECT model_id, name, dimensions, used, sample FROM models"
    found = {}
    with contextlib.suppress(sqlite3.Error):
        for row in source.execute(query):
            shape = tuple(map(type, row[:4]))
            if shape == (int, str, int, int) and (row[4] is None or isinstance(row[4], bytes)):
                found[row[0]] = row
    return found


def _proves_itself(row: Row, models: dict[int, tuple[int, str, int, int, bytes | None]]) -> bool:
    _, model_id, digest, vector, checksum = row
    if not (isinstance(digest, bytes) and isinstance(vector, bytes) and model_id in models):
        return False
    _, name, dimensions, _, _ = models[model_id]
    return len(vector) == 4 * dimensions and checksum == row_checksum(name, digest, vector)


def _readable(source: sqlite3.Connection, size: int) -> Iterator[list[Row]]:
    """All rows that lie on readable pages: a stretch that cannot be read is halved until it is one row."""
    stretches = [(0, _last(source, size))]
    while stretches:
        low, high = stretches.pop()
        if high - low > _ROWS_AT_ONCE:
            middle = min(low + _ROWS_AT_ONCE * ((high - low) // (2 * _ROWS_AT_ONCE) or 1), high)
            stretches += [(middle, high), (low, middle)]
            continue
        query = (
            "SELECT rowid, model_id, hash, vector, checksum FROM vectors WHERE rowid > ? AND rowid <= ? "
            "ORDER BY rowid"
        )
        try:
            yield source.execute(query, (low, high)).fetchall()
        except sqlite3.Error:
            if high - low > 1:
                middle = (low + high) // 2
                stretches += [(middle, high), (low, middle)]


def _last(source: sqlite3.Connection, size: int) -> int:
    """The highest number a row may have, as far as it can be told."""
    most = size // _LEAST_ROW_BYTES
    try:
        last = source.execute("SELECT max(rowid) FROM vectors").fetchone()[0]
    except sqlite3.Error:
        return most
    return last if isinstance(last, int) and 0 <= last <= _MOST_NUMBERS else most

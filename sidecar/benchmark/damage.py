"""Ways to damage a file: the same seed damages the same state in the same way."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random

Way = Callable[[Path, Random], None]


def truncated(path: Path, random: Random) -> None:
    """Cut somewhere."""
    os.truncate(path, random.randrange(max(1, path.stat().st_size)))


def flipped(path: Path, random: Random) -> None:
    """Some bits the other way, mostly one."""
    data = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 1, 3, 40)) if data else 0):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def zeroed(path: Path, random: Random) -> None:
    """A stretch of zeros, as after a power cut."""
    data = bytearray(path.read_bytes())
    start = random.randrange(max(1, len(data)))
    length = random.choice((1, 512, 4096, len(data)))
    data[start : start + length] = bytes(len(data[start : start + length]))
    path.write_bytes(data)


def scrambled(path: Path, random: Random) -> None:
    """A stretch of noise."""
    data = bytearray(path.read_bytes())
    start = random.randrange(max(1, len(data)))
    part = len(data[start : start + 4096])
    data[start : start + part] = random.randbytes(part)
    path.write_bytes(data)


def lengthened(path: Path, random: Random) -> None:
    """Noise after the end."""
    path.write_bytes(path.read_bytes() + random.randbytes(random.randrange(1, 5000)))


def deleted(path: Path, _random: Random) -> None:
    """Gone."""
    path.unlink()


def swapped(path: Path, random: Random) -> None:
    """With another file of the same store."""
    others = [other for other in sorted(path.parent.iterdir()) if other.is_file() and other != path]
    if not others:
        deleted(path, random)
        return
    other = random.choice(others)
    aside = path.with_name("swapping")
    path.rename(aside)
    other.rename(path)
    aside.rename(other)


def foreign(path: Path, random: Random) -> None:
    """A sound file, but of somebody else."""
    path.unlink()
    if path.suffix == ".json":
        path.write_text(json.dumps(random.choice(([], {}, {"segments": 7}, None, {"format": 1}))))
        return
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE documents (path, units)")
        connection.execute("INSERT INTO documents VALUES ('MEMORY.md', 'of another program')")
    connection.close()


def newer(path: Path, random: Random) -> None:
    """A sound file of another version."""
    if path.suffix == ".sqlite3":
        with sqlite3.connect(path) as connection:
            connection.execute(f"PRAGMA user_version = {random.choice((0, 1, 3, 99))}")
        connection.close()
    elif path.suffix == ".json":
        data = path.read_bytes()
        path.write_bytes(data.replace(b'"format":1', b'"format":2').replace(b'"engine":"', b'"engine":"9'))
    else:
        flipped(path, random)


def a_folder(path: Path, _random: Random) -> None:
    """A folder in its place."""
    path.unlink()
    (path / "inner").mkdir(parents=True)


def a_link(path: Path, _random: Random) -> None:
    """A link to it in its place."""
    target = path.parent / "elsewhere"
    path.rename(target)
    path.symlink_to(target)


def a_file_for_its_folder(path: Path, random: Random) -> None:
    """The folder that the file is in becomes a file."""
    folder = path.parent
    if path.suffix == ".sqlite3":
        deleted(path, random)
        return
    shutil.rmtree(folder)
    folder.write_bytes(random.randbytes(100))


WAYS: tuple[Way, ...] = (
    truncated, flipped, zeroed, scrambled, lengthened, deleted, swapped, foreign, newer, a_folder, a_link,
    a_file_for_its_folder,
)  # fmt: skip

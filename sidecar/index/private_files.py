"""Files that only their owner may read: modes whatever the umask, durable replacement, moving aside."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
KEPT_ASIDE = 2

_PIECE = 1 << 20
_ASIDE = re.compile(r"\.unusable-(\d+)\Z")


def private_directory(path: Path) -> Path:
    """The directory, made if it is missing, closed to others."""
    path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    path.chmod(DIRECTORY_MODE)
    return path


def private_file(path: Path) -> None:
    """Make sure that the file exists and is closed to others; raises `OSError` if it is not a file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    try:
        os.fchmod(descriptor, FILE_MODE)
    finally:
        os.close(descriptor)


def seal(directory: Path) -> None:
    """Close every file of the directory to others; files that vanish meanwhile are none of its business."""
    with os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.stat(follow_symlinks=False).st_mode & 0o077 and entry.is_file(follow_symlinks=False):
                    Path(entry.path).chmod(FILE_MODE)


def sync_path(path: Path) -> None:
    """Flush a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes) -> None:
    """Write the whole file durably, or leave what was there."""
    beside = path.with_name(path.name + ".new")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()
    private_file(beside)
    beside.write_bytes(data)
    sync_path(beside)
    beside.replace(path)
    sync_path(path.parent)


def checksum(path: Path, length: int | None = None) -> int:
    """CRC-32 of the first `length` bytes (of all of them): against accidents, not against attackers."""
    left = path.stat().st_size if length is None else length
    crc = 0
    with path.open("rb") as file:
        while left > 0 and (piece := file.read(min(_PIECE, left))):
            crc = zlib.crc32(piece, crc)
            left -= len(piece)
    return crc


def remove_tree(path: Path) -> None:
    """Remove a file or a directory with all it holds; nothing there is fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def set_aside(path: Path, companions: tuple[str, ...] = ()) -> Path:
    """Rename the file (and `path + suffix` for each companion) to `.unusable-<n>`, keeping the newest two."""
    known = sorted(_numbered(path))
    number = known[-1][0] + 1 if known else 1
    target = path.with_name(f"{path.name}.unusable-{number}")
    path.rename(target)
    for suffix in companions:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(
                path.with_name(f"{path.name}{suffix}.unusable-{number}")
            )
    # The clock of "aside since" starts now, whatever the file's own time was.
    os.utime(target)
    for old in {n for n, _ in known}:
        if old <= number - KEPT_ASIDE:
            drop_aside(path, old)
    return target


def aside_since(path: Path) -> list[tuple[int, float]]:
    """Number and time (seconds) of what was set aside for `path`, oldest number first."""
    found = []
    for number, name in sorted(_numbered(path)):
        with contextlib.suppress(FileNotFoundError):
            found.append((number, name.stat().st_mtime))
    return found


def drop_aside(path: Path, number: int) -> None:
    """Remove what was set aside under this number, companions included."""
    for candidate in path.parent.glob(f"{path.name}*.unusable-{number}"):
        remove_tree(candidate)


def _numbered(path: Path) -> Iterator[tuple[int, Path]]:
    for candidate in path.parent.glob(f"{path.name}*.unusable-*"):
        if match := _ASIDE.search(candidate.name):
            yield int(match[1]), candidate

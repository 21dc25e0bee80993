"""The files of a Tantivy index, checked from outside before and after the engine uses them.

The engine trusts what it maps into memory: a damaged segment makes it panic or answer nonsense later. Every
file of a segment ends with a footer that carries the CRC-32 of the rest, which is verified here. The footer
is JSON, its length and a magic number (little endian, 4 bytes each).
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

from sidecar.domain.errors import StoreDamaged
from sidecar.index.private_files import checksum

_TAIL = struct.Struct("<II")
_MAGIC = 1337
_PARTS = ("fast", "fieldnorm", "idx", "pos", "store", "term")
_DIRECTORY_FILES = {"meta.json", ".managed.json", ".tantivy-meta.lock", ".tantivy-writer.lock"}


def verify_segments(directory: Path) -> None:
    """Raise `StoreDamaged` when a file that the last commit names is missing, cut or altered."""
    try:
        for segment in _segments(directory):
            for name in _files_of(segment):
                _verify(directory / name)
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise StoreDamaged("lexical index files are missing or damaged") from error


def holds_only_live_text(directory: Path) -> bool:
    """Whether no deleted document is left in the last commit and no file beside it."""
    try:
        segments = _segments(directory)
        if any(segment["deletes"] for segment in segments):
            return False
        expected = {name for segment in segments for name in _files_of(segment)}
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return {path.name for path in directory.iterdir()} <= expected | _DIRECTORY_FILES


def _segments(directory: Path) -> list[dict[str, object]]:
    segments = json.loads((directory / "meta.json").read_bytes())["segments"]
    if not isinstance(segments, list):
        raise TypeError("segments")
    return segments


def _files_of(segment: dict[str, object]) -> list[str]:
    stem = str(segment["segment_id"]).replace("-", "")
    names = [f"{stem}.{part}" for part in _PARTS]
    deletes = segment["deletes"]
    if isinstance(deletes, dict):
        names.append(f"{stem}.{deletes['opstamp']}.del")
    return names


def _verify(path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(size - _TAIL.size)
        length, magic = _TAIL.unpack(file.read())
        if magic != _MAGIC or length > size - _TAIL.size:
            raise ValueError(path.suffix)
        body = size - _TAIL.size - length
        file.seek(body)
        footer = json.loads(file.read(length))
    if checksum(path, body) != footer["crc"]:
        raise ValueError(path.suffix)

"""Queries that are the name of a file: that file comes first (U§11)."""

from __future__ import annotations

import unicodedata


def name_of(query: str) -> str:
    """A query as file names are compared: `/` between folders, no leading `./`, NFC, lower case."""
    return unicodedata.normalize("NFC", query.strip().replace("\\", "/").removeprefix("./")).lower()


def name_tier(name: str, path: str) -> int:
    """3: the name is the whole path; 2: the file's name; 1: its name without the ending; 0: none of these."""
    if not name or name == ".":
        return 0
    if path.isascii() and (len(name) > len(path) or name not in path.lower()):
        return 0
    path = unicodedata.normalize("NFC", path).lower()
    if name == path:
        return 3
    base = path.rpartition("/")[2]
    if name == base:
        return 2
    return 1 if name == base.rpartition(".")[0] else 0

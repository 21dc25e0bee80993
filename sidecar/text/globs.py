"""Patterns for the paths of notes, as a reader types them: `memory/**/2026-*.md`, `topics/`, `*.md`.

`*`, `?` and `[a-z]` fit within one name, `**` any number of folders. A pattern without a slash fits the name
of a file at any depth; one that ends in a slash everything below that folder, `topics/` wherever it stands.
Fitting takes time linear in
path times pattern, whatever the pattern: nobody can hang a search with one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from unicodedata import normalize

_ANY_DEPTH = None


def fitting(pattern: str) -> Callable[[str], bool]:
    """Whether a path fits, compared after NFC and in the case that is written."""
    written = normalize("NFC", pattern).removeprefix("./")
    names = written.split("/")
    if "/" not in written.removesuffix("/"):
        names.insert(0, "**")
    if written.endswith("/"):
        names[-1] = "**"
    parts = [_ANY_DEPTH if name == "**" else re.compile(translate(name)) for name in names]
    return lambda path: _fits(parts, normalize("NFC", path).split("/"))


def exactly(path: str) -> str:
    """A pattern that fits this path; of a path without a slash also the same name further down."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in path)


def _fits(parts: list[re.Pattern[str] | None], names: list[str]) -> bool:
    """Names against parts from left to right, going back to the last `**` alone when a name does not fit."""
    part = name = 0
    resume: tuple[int, int] | None = None
    while name < len(names):
        wanted = parts[part] if part < len(parts) else None
        if part < len(parts) and wanted is _ANY_DEPTH:
            part += 1
            resume = (part, name)
        elif wanted is not None and wanted.match(names[name]):
            part += 1
            name += 1
        elif resume is not None:
            part, name = resume[0], resume[1] + 1
            resume = (part, name)
        else:
            return False
    return all(rest is _ANY_DEPTH for rest in parts[part:])

"""The names that people and models give to a text: `notes.md`, `notes.md#L3-L7`, `notes.md:3-7`."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote, urlsplit

_FRAGMENT = re.compile(r"L(?P<start>\d+)(?:-L(?P<end>\d+))?(?P<chars>@c\d+-\d+)?\Z")
_CITED = re.compile(r"(?P<name>.+\.\w+):(?P<start>\d+)(?:-(?P<end>\d+))?\Z", re.DOTALL)
_SCHEME = "memory-sidecar"


def split_name(name: str) -> tuple[str, str | None]:
    """The path, and the fragment of the lines behind it: `a.md#L3` and `a.md:3` are `L3-L3`.

    Any other `#` or `:` is part of the path.
    """
    path, mark, tail = name.rpartition("#")
    lines = _FRAGMENT.match(tail) if mark and path else None
    if lines is not None:
        end = lines["end"] or lines["start"]
        return path, f"L{lines['start']}-L{end}{lines['chars'] or ''}"
    cited = _CITED.match(name)
    if cited is not None:
        return cited["name"], f"L{cited['start']}-L{cited['end'] or cited['start']}"
    return name, None


def note_uri(path: str) -> str:
    """The address of a note as a resource: `memory-sidecar://notes/` and its path, percent-encoded."""
    return f"{_SCHEME}://notes/{quote(path)}"


def named_by(uri: str) -> str | None:
    """The name (path, and lines where the address has a fragment) that an address stands for, or None."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != _SCHEME or parts.netloc != "notes" or len(parts.path) < 2:
        return None
    path = unquote(parts.path[1:])
    return f"{path}#{parts.fragment}" if parts.fragment else path

"""Which names belong to the corpus, and the one word why a name does not (spec §6, U§8). Pure.

Nothing here looks at a disk: a rule sees a name or a caller path and gives None (admitted) or a reason.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

import msgspec
from pathspec import GitIgnoreSpec

from sidecar.domain.errors import SettingsError

CURATED: Final = ("MEMORY.md", "USER.md")
NOTES_FOLDER: Final = "memory"
MARKDOWN: Final = ".md"

# Never listed: version control, installed packages, and the gateway's own repair copies.
UNLISTED_FOLDERS: Final = frozenset({".git", "node_modules", ".openclaw-repair"})

# Reasons of `Skipped`.
LINK: Final = "link"
PIPE: Final = "pipe"
SOCKET: Final = "socket"
DEVICE: Final = "device"
FOLDER: Final = "folder"
EXTENSION_CASE: Final = "extension-case"
NOT_MARKDOWN: Final = "not-markdown"
NAME_CASE: Final = "name-case"
NOT_INDEXED: Final = "not-indexed"
EXCLUDED: Final = "excluded"
UNLISTED: Final = "unlisted-folder"
SCRATCH: Final = "scratch"
DUPLICATE: Final = "duplicate"
SAME_NAME: Final = "same-name"
PATH_TOO_LONG: Final = "path-too-long"
MISSING: Final = "missing"
UNMOUNTED: Final = "unmounted"
PERMISSION_DENIED: Final = "permission-denied"
IO_ERROR: Final = "io-error"
NO_FILE_HANDLE: Final = "too-many-open-files"
UNREADABLE: Final = "unreadable"

# Notes of a file that was read, but not as a whole or not at rest.
TOO_LARGE: Final = "too-large"
CHANGING: Final = "changing"

# With these, nothing is known about what is there now: it must not be taken for deleted.
UNKNOWN_STATE: Final = frozenset({UNMOUNTED, PERMISSION_DENIED, IO_ERROR, NO_FILE_HANDLE, UNREADABLE})


class ExtraPath(msgspec.Struct, frozen=True):
    """One more file or folder, as written: absolute, `~/...` or relative to the workspace.

    `pattern` is a `/`-separated glob relative to the folder; it means nothing for a file.
    """

    path: str
    pattern: str | None = None


def is_scratch(name: str) -> bool:
    """Whether a file name is one that editors and sync tools use for a moment."""
    if name.endswith(("~", ".tmp")) or name.startswith((".#", ".syncthing.")) or name == "4913":
        return True
    return name.startswith(".") and len(name) > 5 and name[-4:-1] == ".sw"


def judge_name(name: str) -> str | None:
    """None when a file of this name is a note, else the reason: scratch, extension-case, not-markdown."""
    if is_scratch(name):
        return SCRATCH
    if name.endswith(MARKDOWN):
        return None
    return EXTENSION_CASE if name.lower().endswith(MARKDOWN) else NOT_MARKDOWN


def judge_root_name(path: str) -> str | None:
    """The reason why a caller path at the top of the workspace is no note, whatever root it came through.

    `memory.md` and its like are a mistyped `MEMORY.md`; `DREAMS.md` is the gateway's own diary (U§8).
    """
    lower = path.lower()
    if lower in {"memory.md", "user.md"} and path not in CURATED:
        return NAME_CASE
    return NOT_INDEXED if lower == "dreams.md" else None


class Exclusions:
    """The configured `exclude` patterns, in gitignore's language, applied to caller paths."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._spec: GitIgnoreSpec | None = None
        if patterns:
            try:
                self._spec = GitIgnoreSpec.from_lines(patterns)
            except ValueError as error:
                raise SettingsError(f"exclude: not a gitignore pattern: {error}") from error

    def folder(self, path: str) -> bool:
        """Whether this folder, and so all below it, is excluded. Its parents are taken as checked."""
        return self._spec is not None and self._spec.match_file(path + "/")

    def file(self, path: str) -> bool:
        """Whether this file is excluded. Its folders are taken as checked."""
        return self._spec is not None and self._spec.match_file(path)


def judge_folder(path: str, name: str, exclusions: Exclusions) -> str | None:
    """None when the folder is listed, else the reason: unlisted-folder, excluded."""
    if name in UNLISTED_FOLDERS:
        return UNLISTED
    return EXCLUDED if exclusions.folder(path) else None


def glob_expression(pattern: str) -> re.Pattern[str]:
    """A `/`-separated glob as an expression for the whole path below its folder.

    `*` and `?` stay within one name, `[...]` is a set of characters, a name of `**` is any number of
    folders, none included. Names that begin with a dot are no exception.
    """
    names = [name for name in pattern.strip().removeprefix("./").split("/") if name]
    pieces: list[str] = []
    for number, name in enumerate(names):
        last = number == len(names) - 1
        if name == "**":
            pieces.append(".*" if last else "(?:[^/]+/)*")
        else:
            pieces.append(_name_expression(name) + ("" if last else "/"))
    try:
        return re.compile("".join(pieces), re.DOTALL)
    except re.error as error:
        raise SettingsError(f"extra_paths: not a glob: {pattern!r}") from error


def _name_expression(name: str) -> str:
    out: list[str] = []
    position = 0
    while position < len(name):
        character = name[position]
        position += 1
        if character == "*":
            out.append("[^/]*")
        elif character == "?":
            out.append("[^/]")
        elif character == "[" and (end := name.find("]", position + 1)) != -1:
            inside = name[position:end].replace("\\", "\\\\").replace("[", "\\[")
            if inside[0] in "!^":
                inside = "^" + inside[1:]
            out.append(f"(?!/)[{inside}]")
            position = end + 1
        else:
            out.append(re.escape(character))
    return "".join(out)


def shown_name(name: str) -> str:
    """A file name as callers see it: bytes that are not UTF-8 become U+FFFD, so it fits on every wire."""
    if name.isascii():
        return name
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def same_spelling(name: str, wanted: str) -> bool:
    """Whether a name on disk is `wanted` in another Unicode form, or with bytes that are not UTF-8."""
    return unicodedata.normalize("NFC", shown_name(name)) == unicodedata.normalize("NFC", wanted)

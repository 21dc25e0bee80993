"""Files that the file-shaped contract reads by their path, though no scan admits them (U§12).

`DREAMS.md`, notes in folders that no scan lists, and notes behind a link between folders of the workspace.
What is opened is always reached without following a link: a link is resolved first, its target has to lie in
the workspace, and the target is then opened component by component like any other file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import Final

import msgspec

from sidecar.corpus import opening, rules
from sidecar.corpus.roots import Root, below, caller_path, placed
from sidecar.corpus.rules import Exclusions
from sidecar.domain.errors import CorpusError

# Reasons of the `CorpusError` that refuses a path.
NOT_ALLOWED: Final = "not-allowed"
OUTSIDE: Final = "outside"
NOT_REGULAR: Final = "not-regular"


class Readable(msgspec.Struct, frozen=True, kw_only=True):
    """A path that may be read: as callers see it, and the root and relative path it is opened by.

    `opened` None: nothing is there now.
    """

    path: str
    opened: tuple[str, str] | None
    in_workspace: bool


def readable(roots: tuple[Root, ...], exclusions: Exclusions, path: str) -> Readable:
    """Where a caller's path leads; raises `CorpusError` with one of the three reasons when it may not.

    Blocking. What the configured `exclude` patterns match may not be read, under any of its names.
    """
    refused: CorpusError | None = None
    for root, relative in placed(roots, path):
        if root.number == 0:
            if _is_memory_path(relative):
                return _in_workspace(roots, root, relative, exclusions)
            continue
        try:
            found = _in_extra_path(roots, root, relative, exclusions)
        except CorpusError as error:
            refused = refused or error
            continue
        if found is not None:
            return found
    raise refused or _refusal(path, NOT_ALLOWED)


def _is_memory_path(relative: str) -> bool:
    if not relative.endswith(rules.MARKDOWN):
        return False
    if relative in rules.CURATED or relative.lower() == "dreams.md":
        return True
    return relative.startswith(rules.NOTES_FOLDER + "/")


def _in_workspace(roots: tuple[Root, ...], root: Root, relative: str, exclusions: Exclusions) -> Readable:
    if _is_excluded(relative, exclusions):
        raise _refusal(relative, NOT_ALLOWED)
    parent, _, name = relative.rpartition("/")
    folder = below(root.real, os.path.realpath(f"{root.real}/{parent}"))
    if folder is None:
        raise _refusal(relative, OUTSIDE)
    target = f"{folder}/{name}" if folder else name
    if _is_excluded(target, exclusions):
        raise _refusal(relative, NOT_ALLOWED)
    status = _status(root.real, target)
    if status is not None and stat.S_ISLNK(status.st_mode):
        leads = below(root.real, os.path.realpath(f"{root.real}/{target}"))
        raise _refusal(relative, OUTSIDE if leads is None else NOT_REGULAR)
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise _refusal(relative, NOT_REGULAR)
    opened = None if status is None else (root.real, target)
    return Readable(path=caller_path(roots, root, relative), opened=opened, in_workspace=True)


def _in_extra_path(
    roots: tuple[Root, ...], root: Root, relative: str, exclusions: Exclusions
) -> Readable | None:
    """What an extra path says about a path; None when it is none of its notes. No link is followed here."""
    path = caller_path(roots, root, relative)
    within, name = (root.real, relative) if relative else os.path.split(root.real)
    if not name.endswith(rules.MARKDOWN) or rules.judge_root_name(path) == rules.NAME_CASE:
        return None
    if relative and root.pattern is not None and root.pattern.fullmatch(relative) is None:
        return None
    if _is_excluded(path, exclusions):
        return None
    try:
        status = opening.status(within, name)
    except OSError as error:
        if error.errno != errno.ENOENT:
            return None
        return Readable(path=path, opened=None, in_workspace=False)
    if stat.S_ISLNK(status.st_mode) or (not relative and not stat.S_ISREG(status.st_mode)):
        return None
    if not stat.S_ISREG(status.st_mode):
        raise _refusal(path, NOT_REGULAR)
    return Readable(path=path, opened=(within, name), in_workspace=False)


def _status(root: str, relative: str) -> os.stat_result | None:
    try:
        return opening.status(root, relative)
    except OSError as error:
        reason = opening.failure_reason(error)
        if reason == rules.MISSING:
            return None
        raise _refusal(relative, reason) from error


def _is_excluded(path: str, exclusions: Exclusions) -> bool:
    return any(map(exclusions.folder, _parents(path))) or exclusions.file(path)


def _parents(path: str) -> Iterator[str]:
    names = path.split("/")
    return ("/".join(names[:count]) for count in range(1, len(names)))


def _refusal(path: str, reason: str) -> CorpusError:
    return CorpusError(f"a path may not be read: {reason}", path=rules.shown_name(path), reason=reason)

"""The agent's roots, and the way from a caller path to a root and back (spec §6). Lexical but for one step.

A root has two names: `named`, absolute as configured, from which caller paths are made, and `real`, with
all links resolved once at start, through which files are opened. Caller paths are relative to the
workspace, so files outside of it are `../...`.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sidecar.corpus import rules
from sidecar.corpus.rules import ExtraPath
from sidecar.domain.errors import SettingsError

_MOST_CHARACTERS = 4096


class Root(msgspec.Struct, frozen=True, kw_only=True):
    """A root: number 0 is the workspace, then the extra paths in configured order.

    `shown` is its own caller path (`.` for the workspace); `around` says that it contains the workspace,
    so that the caller paths below it are not simply `shown/...`.
    """

    number: int
    named: str
    real: str
    shown: str
    pattern: re.Pattern[str] | None = None
    around: bool = False


def resolve_roots(workspace: Path, extra_paths: Sequence[ExtraPath]) -> tuple[Root, ...]:
    """The roots with their links resolved as they are now; none needs to exist. Raises `SettingsError`."""
    base = _plain(os.path.abspath(workspace.expanduser()))  # noqa: PTH100 (lexical: links stay as named)
    roots = [Root(number=0, named=base, real=os.path.realpath(base), shown=".")]
    for number, extra in enumerate(extra_paths, start=1):
        text = extra.path.strip()
        if not text or "\0" in text:
            raise SettingsError("extra_paths: a path is blank or holds a NUL character")
        named = _plain(posixpath.join(base, os.path.expanduser(text)))  # noqa: PTH111 (as text)
        glob = (extra.pattern or "").strip()
        roots.append(
            Root(
                number=number,
                named=named,
                real=os.path.realpath(named),
                shown=rules.shown_name(posixpath.relpath(named, base)),
                pattern=rules.glob_expression(glob) if glob else None,
                around=below(named, base) is not None,
            )
        )
    return tuple(roots)


def caller_path(roots: Sequence[Root], root: Root, relative: str) -> str:
    """The caller path of a path below a root (`""`: the root itself)."""
    if not relative:
        return root.shown
    if root.around:
        named = posixpath.join(root.named, relative)
        return rules.shown_name(posixpath.relpath(named, roots[0].named))
    relative = rules.shown_name(relative)
    return relative if root.shown == "." else f"{root.shown}/{relative}"


def placed(roots: Sequence[Root], path: str) -> tuple[tuple[Root, str], ...]:
    """Every root that a caller's path may stand for, each with the path below it, in order of precedence.

    The path may be relative to the workspace or absolute (as configured or resolved) and is normalised
    first: `./`, doubled `/` and `..` that stay within reason. Nothing is looked up.
    """
    if not path or "\0" in path or len(path) > _MOST_CHARACTERS:
        return ()
    whole = _plain(posixpath.join(roots[0].named, path))
    found: list[tuple[Root, str]] = []
    for root in roots:
        for name in dict.fromkeys((root.named, root.real) if path.startswith("/") else (root.named,)):
            inner = below(name, whole)
            if inner is not None:
                found.append((root, inner))
    return tuple(found)


def below(folder: str, path: str) -> str | None:
    """The path below an absolute folder, `""` for the folder itself, None outside of it. Whole names only."""
    if path == folder:
        return ""
    prefix = folder if folder.endswith("/") else folder + "/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def _plain(path: str) -> str:
    plain = posixpath.normpath(path)
    return plain[1:] if plain.startswith("//") else plain

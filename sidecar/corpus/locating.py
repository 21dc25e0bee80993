"""The scan's decision for a single path: the same rules, one component at a time."""

from __future__ import annotations

import os
import stat

from sidecar.corpus import opening, rules
from sidecar.corpus.opening import failure_reason, kind_reason, stamp_of
from sidecar.corpus.roots import Root, caller_path
from sidecar.corpus.rules import Exclusions
from sidecar.domain.corpus import Skipped, SourceFile


def locate(
    roots: tuple[Root, ...], root: Root, relative: str, exclusions: Exclusions, *, raw: bool = False
) -> SourceFile | Skipped | None:
    """What stands at a path below a root; None when it is absent or not admitted there.

    `raw` keeps the name in `relative` as on disk, even where it is not UTF-8: for opening, not for storing.
    """
    if not relative:
        return _single_file(root, exclusions)
    if root.number == 0 and relative not in rules.CURATED and not relative.startswith("memory/"):
        reason = rules.judge_root_name(relative) if "/" not in relative else None
        return _present(root, relative, reason) if reason == rules.NAME_CASE else None
    name = relative.rpartition("/")[2]
    verdict = rules.judge_name(name)
    if verdict == rules.NOT_MARKDOWN:
        return None
    try:
        real, status, readable = _spelled(root.real, relative)
    except OSError as error:
        reason = failure_reason(error)
        if reason == rules.MISSING:
            return None
        return Skipped(caller_path(roots, root, relative), reason)
    path = caller_path(roots, root, real)
    if root.number and (
        rules.judge_root_name(path) is not None
        or (root.pattern is not None and root.pattern.fullmatch(rules.shown_name(real)) is None)
    ):
        return None
    reason_or_none = verdict or _excluded_by(roots, root, real, exclusions) or kind_reason(status.st_mode)
    if reason_or_none is None and not readable:
        reason_or_none = rules.PERMISSION_DENIED
    if reason_or_none is not None:
        return Skipped(path, reason_or_none)
    kept = real if raw else rules.shown_name(real)
    return SourceFile(path=path, root=root.number, relative=kept, stamp=stamp_of(status))


def _single_file(root: Root, exclusions: Exclusions) -> SourceFile | Skipped | None:
    parent, name = os.path.split(root.real)
    try:
        status = opening.status(parent, name)
    except OSError as error:
        reason = failure_reason(error)
        return None if reason == rules.MISSING else Skipped(root.shown, reason)
    if root.number == 0 or stat.S_ISDIR(status.st_mode) or rules.judge_root_name(root.shown) is not None:
        return None
    reason_or_none = kind_reason(status.st_mode) or rules.judge_name(name)
    if reason_or_none is None:
        names = root.shown.split("/")
        parents = ("/".join(names[:count]) for count in range(1, len(names)))
        if any(map(exclusions.folder, parents)) or exclusions.file(root.shown):
            reason_or_none = rules.EXCLUDED
    if reason_or_none is not None:
        return Skipped(root.shown, reason_or_none)
    return SourceFile(path=root.shown, root=root.number, relative="", stamp=stamp_of(status))


def _present(root: Root, name: str, reason: str) -> Skipped | None:
    try:
        with opening.folder(root.real) as descriptor:
            return Skipped(name, reason) if name in opening.entry_names(descriptor) else None
    except OSError:
        return None


def _excluded_by(roots: tuple[Root, ...], root: Root, relative: str, exclusions: Exclusions) -> str | None:
    names = relative.split("/")
    for count in range(1, len(names)):
        path = caller_path(roots, root, "/".join(names[:count]))
        reason = rules.judge_folder(path, names[count - 1], exclusions)
        if reason is not None:
            return reason
    return rules.EXCLUDED if exclusions.file(caller_path(roots, root, relative)) else None


def _spelled(root: str, relative: str) -> tuple[str, os.stat_result, bool]:
    """The path as on disk, its `lstat`, and whether it may be read. Raises `OSError`."""
    names = relative.split("/")
    done: list[str] = []
    descriptor = opening.open_folder(root)
    try:
        for wanted in names[:-1]:
            done.append(_entry(descriptor, wanted)[0])
            inner = opening.open_folder(done[-1], descriptor)
            os.close(descriptor)
            descriptor = inner
        name, status = _entry(descriptor, names[-1])
        if not _exactly(descriptor, name, status):
            raise FileNotFoundError
        return "/".join([*done, name]), status, opening.may_read(name, status, descriptor)
    finally:
        os.close(descriptor)


def _entry(descriptor: int, wanted: str) -> tuple[str, os.stat_result]:
    try:
        return wanted, os.stat(wanted, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        if wanted.isascii():
            raise
    matching = [name for name in opening.entry_names(descriptor) if rules.same_spelling(name, wanted)]
    if len(matching) != 1:
        raise FileNotFoundError
    return matching[0], os.stat(matching[0], dir_fd=descriptor, follow_symlinks=False)


def _exactly(descriptor: int, name: str, status: os.stat_result) -> bool:
    """Whether the entry is spelled like this. On a disk that is blind to case, another spelling opens too."""
    try:
        other = os.stat(name.swapcase(), dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return True
    same = (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino)
    return not same or name in opening.entry_names(descriptor)

"""The walk behind a full scan: one listing per folder, one `lstat` per note, no link followed."""

from __future__ import annotations

import os
import stat
from pathlib import PurePosixPath

from sidecar.corpus import opening, rules
from sidecar.corpus.opening import failure_reason, kind_reason, stamp_of
from sidecar.corpus.roots import Root, below, caller_path
from sidecar.corpus.rules import Exclusions, shown_name
from sidecar.domain.corpus import FileStamp, Scan, Skipped, SourceFile
from sidecar.domain.halting import Checkpoint

_Entry = os.DirEntry[str]
_ROOM = opening.MOST_PATH_BYTES - 2


class Walk:
    """One scan in progress: what it has seen so far. `devices` is where each root was last seen."""

    def __init__(
        self,
        roots: tuple[Root, ...],
        exclusions: Exclusions,
        devices: dict[int, int],
        check: Checkpoint,
    ) -> None:
        self.devices = dict(devices)
        self.duplicates: dict[str, SourceFile] = {}
        self._roots = roots
        self._exclusions = exclusions
        self._check = check
        self._root_paths = {root.shown for root in roots[1:]}
        self._files: list[SourceFile] = []
        self._paths: set[str] = set()
        # Caller paths that stand for a name with bytes that are not UTF-8; and those that several stand for.
        self._odd: set[str] = set()
        self._contested: set[str] = set()
        self._first: dict[tuple[int, int], SourceFile] = {}
        self._skipped: list[Skipped] = []
        self._unreadable: list[Skipped] = []
        self._folders: dict[str, FileStamp] = {}

    def result(self) -> Scan:
        """What was seen."""
        return Scan(
            files=tuple(self._files),
            skipped=tuple(self._skipped),
            unreadable=tuple(self._unreadable),
            folders=tuple(self._folders.items()),
        )

    def workspace(self) -> None:
        """The curated files at the top, then everything below `memory`."""
        root = self._roots[0]
        try:
            with opening.folder(root.real) as descriptor:
                entries = {entry.name: entry for entry in _listed(descriptor)}
                if self._lost_its_mount(root, os.fstat(descriptor), bool(entries)):
                    return
                for name in rules.CURATED:
                    if name in entries:
                        self._file(root, descriptor, name, entries[name])
                for name in sorted(entries):
                    reason = rules.judge_root_name(name)
                    if reason == rules.NAME_CASE:
                        self._skip(name, reason, f"only {name.upper()[:-3]}.md is read")
                    if name != rules.NOTES_FOLDER and name.lower() == rules.NOTES_FOLDER:
                        self._skip(name, rules.NAME_CASE, f"only {rules.NOTES_FOLDER}/ is read")
                notes = entries.get(rules.NOTES_FOLDER)
                is_folder = notes is not None and self._is_folder(root, descriptor, notes.name, notes)
        except OSError as error:
            self._unreadable.append(Skipped(root.shown, failure_reason(error)))
            return
        if is_folder:
            self._tree(root, rules.NOTES_FOLDER)

    def extra_path(self, root: Root) -> None:
        """One extra path: a file, or the notes of a folder."""
        parent, name = os.path.split(root.real)
        try:
            status = os.lstat(root.real)
        except OSError as error:
            reason = failure_reason(error)
            # Gone from a folder that is there: deleted. Gone with its folder: perhaps not mounted.
            is_gone = root.number not in self.devices or os.path.isdir(parent)  # noqa: PTH112
            if reason == rules.MISSING and is_gone:
                self._skip(root.shown, reason)
            else:
                self._unreadable.append(Skipped(root.shown, reason))
            return
        if stat.S_ISDIR(status.st_mode):
            self._tree(root, "")
            return
        reason_or_none = kind_reason(status.st_mode) or rules.judge_name(name)
        if reason_or_none is None:
            reason_or_none = rules.judge_root_name(root.shown)
        if reason_or_none is None and self._excluded(root.shown):
            reason_or_none = rules.EXCLUDED
        if reason_or_none is not None:
            self._skip(root.shown, reason_or_none)
            return
        self.devices[root.number] = status.st_dev
        self._admit(root, "", root.shown, status)

    def _excluded(self, path: str) -> bool:
        parents = [str(parent) for parent in PurePosixPath(path).parents][:-1]
        return any(map(self._exclusions.folder, parents)) or self._exclusions.file(path)

    def _lost_its_mount(self, root: Root, status: os.stat_result, has_entries: bool) -> bool:
        """An empty folder on another device than before is where something was mounted."""
        before = self.devices.get(root.number)
        if before is not None and before != status.st_dev and not has_entries:
            self._unreadable.append(Skipped(root.shown, rules.UNMOUNTED))
            return True
        self.devices[root.number] = status.st_dev
        self._folders[root.real] = stamp_of(status)
        return False

    def _tree(self, root: Root, top: str) -> None:
        """Everything below a folder; its notes are put in order at the end."""
        begin = len(self._files)
        waiting = [top]
        seen: set[tuple[int, int]] = set()
        while waiting:
            relative = waiting.pop()
            try:
                with opening.folder(root.real, relative) as descriptor:
                    status = os.fstat(descriptor)
                    if (status.st_dev, status.st_ino) in seen:
                        continue
                    seen.add((status.st_dev, status.st_ino))
                    entries = _listed(descriptor)
                    if not relative and self._lost_its_mount(root, status, bool(entries)):
                        return
                    self._folders[f"{root.real}/{relative}" if relative else root.real] = stamp_of(status)
                    waiting += self._entries(root, descriptor, relative, entries)
            except OSError as error:
                reason = failure_reason(error)
                # Removed since it was listed, or swapped for a link: the parent's listing is what counts.
                if reason not in {rules.MISSING, rules.LINK}:
                    self._unreadable.append(Skipped(caller_path(self._roots, root, relative), reason))
        self._files[begin:] = sorted(self._files[begin:], key=_code_units)

    def _entries(self, root: Root, descriptor: int, relative: str, entries: list[_Entry]) -> list[str]:
        """Take up the entries of one folder; gives the folders to descend into."""
        prefix = relative + "/" if relative else ""
        inner: list[str] = []
        for entry in entries:
            self._check()
            name = entry.name
            if name.endswith(rules.MARKDOWN) and entry.is_file(follow_symlinks=False):
                if not rules.is_scratch(name):
                    self._file(root, descriptor, prefix + name, entry)
            elif self._is_folder(root, descriptor, prefix + name, entry):
                inner.append(prefix + name)
        return inner

    def _is_folder(self, root: Root, descriptor: int, relative: str, entry: _Entry) -> bool:
        """Whether to descend; what is neither a folder nor a regular note is named here."""
        name = entry.name
        if entry.is_dir(follow_symlinks=False):
            path = caller_path(self._roots, root, relative)
            if name.endswith(rules.MARKDOWN):
                self._skip(path, rules.FOLDER)
            reason = rules.judge_folder(path, name, self._exclusions)
            if reason is None and len(os.fsencode(root.real)) + len(os.fsencode(relative)) > _ROOM:
                reason = rules.PATH_TOO_LONG
            if reason is not None:
                self._skip(path, reason)
            return reason is None
        reason = rules.judge_name(name)
        if entry.is_symlink():
            if reason != rules.SCRATCH:
                self._link(root, descriptor, relative, name)
        elif entry.is_file(follow_symlinks=False):
            if reason == rules.EXTENSION_CASE:
                self._skip(caller_path(self._roots, root, relative), reason, "only names in .md are read")
        elif reason is None:
            mode = entry.stat(follow_symlinks=False).st_mode
            self._skip(caller_path(self._roots, root, relative), kind_reason(mode) or rules.UNREADABLE)
        return False

    def _link(self, root: Root, descriptor: int, relative: str, name: str) -> None:
        path = caller_path(self._roots, root, relative)
        if path in self._root_paths:
            return
        try:
            mode = os.stat(name, dir_fd=descriptor).st_mode
        except OSError:
            if rules.judge_name(name) is None:
                self._skip(path, rules.LINK)
            return
        is_folder = stat.S_ISDIR(mode)
        if not is_folder and rules.judge_name(name) is not None:
            return
        target = os.path.realpath(os.path.join(root.real, relative))  # noqa: PTH118
        useful = is_folder or (stat.S_ISREG(mode) and rules.judge_name(target.rpartition("/")[2]) is None)
        covered = any(below(other.real, target) is not None for other in self._roots[1:]) or (
            below(f"{self._roots[0].real}/{rules.NOTES_FOLDER}", target) is not None
        )
        hint = f"extra_paths = [{_toml(path)}]" if useful and not covered else None
        self._skip(path, rules.LINK, hint)

    def _file(self, root: Root, descriptor: int, relative: str, entry: _Entry) -> None:
        """A name that is a note's: admit it, or say why not."""
        path = caller_path(self._roots, root, relative)
        if root.pattern is not None and root.pattern.fullmatch(shown_name(relative)) is None:
            return
        if root.number and rules.judge_root_name(path) is not None:
            return
        if self._exclusions.file(path):
            self._skip(path, rules.EXCLUDED)
            return
        if entry.is_symlink():
            self._link(root, descriptor, relative, entry.name)
            return
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        reason = kind_reason(status.st_mode)
        if reason is None and not opening.may_read(entry.name, status, descriptor):
            reason = rules.PERMISSION_DENIED
        if reason is not None:
            self._skip(path, reason)
            return
        self._admit(root, relative, path, status)

    def _admit(self, root: Root, relative: str, path: str, status: os.stat_result) -> None:
        file = SourceFile(path=path, root=root.number, relative=shown_name(relative), stamp=stamp_of(status))
        first = self._first.setdefault((status.st_dev, status.st_ino), file)
        if first is not file:
            if first.path != path:
                self.duplicates[path] = first
                if first.root == root.number:
                    self._skip(path, rules.DUPLICATE, f"indexed as {first.path}")
            return
        plain = file.relative == relative
        if path in self._paths:
            self._contest(file, plain)
            return
        self._paths.add(path)
        self._files.append(file)
        if not plain:
            self._odd.add(path)

    def _contest(self, file: SourceFile, plain: bool) -> None:
        """Several files show as one path: only the one that is really called so can be had by it."""
        path = file.path
        self._skip(path, rules.SAME_NAME, "names that differ only in bytes that are not UTF-8")
        if path in self._odd:
            self._odd.discard(path)
            self._contested.add(path)
            self._files = [other for other in self._files if other.path != path]
        if plain and path in self._contested:
            self._contested.discard(path)
            self._files.append(file)

    def _skip(self, path: str, reason: str, hint: str | None = None) -> None:
        self._skipped.append(Skipped(path, reason, hint))


def _listed(descriptor: int) -> list[_Entry]:
    with os.scandir(descriptor) as entries:
        return list(entries)


def _code_units(file: SourceFile) -> bytes:
    return file.path.encode("utf-16-be")


def _toml(text: str) -> str:
    escaped = "".join(
        f"\\u{ord(character):04x}" if character in '"\\' or ord(character) < 32 else character
        for character in text
    )
    return f'"{escaped}"'

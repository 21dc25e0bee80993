"""`Corpus`: what is on disk and admitted, now (spec §6). The scan is the truth; everything else hints at it.

All methods block and belong in a worker thread; they may run at the same time in several.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from sidecar.corpus import opening, rules
from sidecar.corpus.absence import absence
from sidecar.corpus.locating import locate
from sidecar.corpus.opening import stamp_of
from sidecar.corpus.readable import Readable, readable
from sidecar.corpus.roots import Root, below, caller_path, placed, resolve_roots
from sidecar.corpus.rules import ExtraPath
from sidecar.corpus.walking import Walk
from sidecar.domain.corpus import FileStamp, Scan, Skipped, SourceFile
from sidecar.domain.errors import CorpusError
from sidecar.domain.halting import Checkpoint, carry_on

_NOT_A_FILE = frozenset({rules.LINK, rules.PIPE, rules.SOCKET, rules.DEVICE, rules.FOLDER, rules.MISSING})


class FileRead(msgspec.Struct, frozen=True):
    """A file's bytes, with its stamp as of the read. `note`: None, `too-large` or `changing`."""

    file: SourceFile
    data: bytes
    note: str | None = None


class Corpus:
    """The Markdown memory of one agent. Roots are resolved here, once; they may appear later."""

    def __init__(
        self, workspace: Path, extra_paths: Sequence[ExtraPath] = (), exclude: Sequence[str] = ()
    ) -> None:
        self._roots = resolve_roots(workspace, extra_paths)
        self._exclusions = rules.Exclusions(exclude)
        # Both are replaced as a whole by each scan, never changed: other threads may be reading them.
        self._duplicates: dict[str, SourceFile] = {}
        self._devices: dict[int, int] = {}

    @property
    def roots(self) -> tuple[str, ...]:
        """The resolved absolute paths of all roots, the workspace first."""
        return tuple(root.real for root in self._roots)

    def scan(self, check: Checkpoint = carry_on) -> Scan:
        """A full look at the corpus: `MEMORY.md`, `USER.md`, `memory/` by code unit, extra paths in order.

        A file that was met before under another path (hard link, overlapping roots) is left out. A missing
        workspace is `unreadable` with the path `.`; a missing `memory` below it is empty.
        """
        walk = Walk(self._roots, self._exclusions, self._devices, check)
        walk.workspace()
        for root in self._roots[1:]:
            walk.extra_path(root)
        self._duplicates = walk.duplicates
        self._devices = walk.devices
        return walk.result()

    def look(self, path: str) -> SourceFile | Skipped | None:
        """The scan's decision for one caller path, now; None when it is absent or not admitted.

        The path may be absolute or not normalised; the answer's path is the canonical one. A name in
        another Unicode form finds its file if exactly one entry matches.
        """
        skipped: Skipped | None = None
        try:
            path.encode()
        except UnicodeEncodeError:
            return None
        for root, relative in placed(self._roots, path):
            found = locate(self._roots, root, relative, self._exclusions)
            if isinstance(found, SourceFile):
                return self._unless_duplicate(found)
            skipped = skipped or found
        return skipped

    def why_absent(self, path: str) -> str:
        """Why `look` gives None, by the path's name alone, as `absence.absence`."""
        return absence(self._roots, path)

    def _unless_duplicate(self, file: SourceFile) -> SourceFile | Skipped:
        first = self._duplicates.get(file.path)
        if first is None:
            return file
        present = self.stamp(first)
        if present is None or (present.device, present.inode) != (file.stamp.device, file.stamp.inode):
            return file
        return Skipped(file.path, rules.DUPLICATE, f"indexed as {first.path}")

    def read(self, file: SourceFile | str, *, max_bytes: int = opening.INDEX_BYTES) -> FileRead | None:
        """The bytes of a file that held still, and its stamp with them; None when there is no such file.

        A caller path is looked up first. Raises `CorpusError` when the file is there and cannot be read.
        """
        known = self.look(file) if isinstance(file, str) else file
        if not isinstance(known, SourceFile):
            return None
        try:
            read = opening.read_stable(*self._opened_as(known), max_bytes=max_bytes)
        except CorpusError as error:
            if error.reason in _NOT_A_FILE:
                return None
            raise _named(error, known.path) from error
        return FileRead(msgspec.structs.replace(known, stamp=read.stamp), read.data, read.note)

    def read_lines(
        self, path: str, start: int, count: int, max_bytes: int, *, from_char: int = 0
    ) -> list[str] | None:
        """Lines of a file of any size, as `opening.read_lines`; None when there is no such file."""
        known = self.look(path)
        if not isinstance(known, SourceFile):
            return None
        try:
            return opening.read_lines(*self._opened_as(known), start, count, max_bytes, from_char=from_char)
        except CorpusError as error:
            if error.reason in _NOT_A_FILE:
                return None
            raise _named(error, known.path) from error

    def readable(self, path: str) -> Readable:
        """A path that may be read though no scan need admit it, as `readable.readable`; raises `CorpusError`.

        A path that the scan admits is taken by its own rules, in whatever form it is spelled.
        """
        known = self.look(path)
        if isinstance(known, SourceFile):
            return Readable(path=known.path, opened=self._opened_as(known), in_workspace=known.root == 0)
        return readable(self._roots, self._exclusions, path)

    def stamp(self, file: SourceFile, still: Collection[str] = ()) -> FileStamp | None:
        """The file's stamp now, or None when it is no regular file any more or cannot be looked at.

        A file that lies in one of the folders `still` (as `folders_still` gave them a moment ago) is looked
        at by its whole path: the folders on the way were just seen to be no links.
        """
        root, relative = self._opened_as(file)
        try:
            status = None
            if still:
                path = f"{root}/{relative}"
                status = os.lstat(path) if path.rpartition("/")[0] in still else None
            if status is None:
                status = opening.status(root, relative)
        except (OSError, ValueError):
            return None
        return stamp_of(status) if opening.kind_reason(status.st_mode) is None else None

    def _opened_as(self, file: SourceFile) -> tuple[str, str]:
        real = self._roots[file.root].real
        if not file.relative:
            return os.path.split(real)
        if "\ufffd" in file.relative:
            # The name may stand for bytes that are not UTF-8: find the entry that it shows.
            root = self._roots[file.root]
            with_bytes = locate(self._roots, root, file.relative, self._exclusions, raw=True)
            if isinstance(with_bytes, SourceFile):
                return real, with_bytes.relative
        return real, file.relative

    def folders_still(self, folders: Iterable[tuple[str, FileStamp]]) -> frozenset[str] | None:
        """The paths of a scan's folders; None when any has other entries, is another folder, or is gone."""
        still = []
        for path, stamp in folders:
            try:
                status = os.lstat(path)
            except OSError:
                return None
            if (status.st_mtime_ns, status.st_ino, status.st_dev) != (
                stamp.mtime_ns,
                stamp.inode,
                stamp.device,
            ):
                return None
            still.append(path)
        return frozenset(still)

    def relative_hint(self, absolute: str) -> str | None:
        """The caller path that an absolute path on disk would have, by its name alone; None for no note."""
        for root in self._roots:
            relative = below(root.real, absolute)
            if relative is None or (root.number == 0 and not _of_workspace(relative)):
                continue
            if rules.judge_name(absolute.rpartition("/")[2]) is None:
                return caller_path(self._roots, root, relative)
        return None

    def lists_folder(self, absolute: str) -> bool:
        """Whether a folder on disk is one that a scan lists, or holds one, by its name alone."""
        if absolute.rpartition("/")[2] in rules.UNLISTED_FOLDERS:
            return False
        tops = [f"{self._roots[0].real}/{rules.NOTES_FOLDER}", *(root.real for root in self._roots[1:])]
        return any(below(top, absolute) is not None or below(absolute, top) is not None for top in tops)

    def is_below(self, path: str, folder: str) -> bool:
        """Whether a caller path is that folder's, or lies in it: what an `unreadable` folder covers."""
        start = self._roots[0].named
        return below(_joined(start, folder), _joined(start, path)) is not None

    def root_identities(self) -> tuple[tuple[int, int] | None, ...]:
        """Device and inode of each root now, None where there is none: a cheap look for swapped roots."""
        return tuple(_identity(root.real) for root in self._roots)

    def watched(self, scan: Scan) -> tuple[tuple[str, FileStamp], ...]:
        """The folders to watch after a scan: those it listed, the parents of single files, and for what is
        missing inside the workspace its nearest existing parent.
        """
        folders = {path: stamp for path, stamp in scan.folders if _speakable(path)}
        for root in self._roots[1:]:
            folders.update(self._watched_for(root, folders))
        return tuple(folders.items())

    def _watched_for(self, root: Root, known: dict[str, FileStamp]) -> dict[str, FileStamp]:
        if root.real in known or not _speakable(root.real):
            return {}
        parent = os.path.dirname(root.real)  # noqa: PTH120
        try:
            if opening.kind_reason(os.lstat(root.real).st_mode) is None:
                return {parent: stamp_of(os.lstat(parent))}
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
                return {}
        while below(self._roots[0].real, parent) is not None:
            try:
                return {parent: stamp_of(os.lstat(parent))}
            except OSError:
                parent = os.path.dirname(parent)  # noqa: PTH120
        return {}


def _of_workspace(relative: str) -> bool:
    return relative in rules.CURATED or relative.startswith(rules.NOTES_FOLDER + "/")


def _joined(start: str, path: str) -> str:
    return os.path.normpath(os.path.join(start, path))  # noqa: PTH118 (lexical)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _speakable(path: str) -> bool:
    """Whether the watcher can be told this path at all: UTF-8, and within the system's bound."""
    try:
        return len(path.encode()) < opening.MOST_PATH_BYTES
    except UnicodeEncodeError:
        return False


def _named(error: CorpusError, path: str) -> CorpusError:
    return CorpusError(str(error), path=path, reason=error.reason)

"""`TranscriptCorpus`: the session files of one agent that are admitted now (spec §5.5, U§7).

One folder, not its subfolders. Live files, and reset archives where they are asked for; what was deleted is
never opened. Files are opened as notes are (`opening`): regular ones only, through no link. Beside them the
gateway's own `sessions.json` is read, to know which files were made by no conversation.

All methods block and belong in a worker thread; they may run at the same time in several.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from sidecar.corpus import opening, rules
from sidecar.corpus.opening import failure_reason, kind_reason, stamp_of
from sidecar.domain.corpus import FileStamp, Scan, Skipped, SourceFile
from sidecar.domain.errors import CorpusError
from sidecar.domain.halting import Checkpoint, carry_on
from sidecar.text.transcript_names import FOLDER, generated_by, hit_path, is_packed, kind_of

STORE: Final = "sessions.json"
ARCHIVE: Final = "reset-archive"
PACKED: Final = "compressed"
MOST_STORE_BYTES: Final = 64 * 1024 * 1024
PIECE_BYTES: Final = 1024 * 1024
_MOST_HOPS: Final = 64


class _StoreRow(msgspec.Struct):
    sessionId: object = None  # noqa: N815 (as it stands in the file)
    spawnedBy: object = None  # noqa: N815
    parentSessionKey: object = None  # noqa: N815


_STORE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ROW = msgspec.json.Decoder(_StoreRow)


class OpenTranscript:
    """An open transcript: its stamp when it was opened, and its bytes up to the size that it had then."""

    def __init__(self, descriptor: int, check: Checkpoint = carry_on) -> None:
        self._descriptor = descriptor
        self._check = check
        self.stamp = stamp_of(os.fstat(descriptor))

    def pieces(self, start: int, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` up to `end`, at most as many as there were at opening. `OSError`."""
        at, limit = start, min(self.stamp.size, self.stamp.size if end is None else end)
        while at < limit:
            self._check()
            piece = os.pread(self._descriptor, min(PIECE_BYTES, limit - at), at)
            if not piece:
                return
            yield piece
            at += len(piece)


class TranscriptCorpus:
    """The transcripts of one agent. The folder is resolved here, once; it may appear later."""

    def __init__(self, directory: Path, agent_id: str, *, include_reset_archives: bool) -> None:
        self._real = os.path.realpath(directory.expanduser())
        self._agent_id = agent_id
        self._with_archives = include_reset_archives
        self._store_stamp: FileStamp | None = None
        self._generated: Mapping[str, str] = {}

    def scan(self) -> Scan:
        """Every admitted file by name: none in a missing folder; one that cannot be listed is unreadable."""
        files: list[SourceFile] = []
        skipped: list[Skipped] = []
        try:
            with opening.folder(self._real) as descriptor:
                stamp = stamp_of(os.fstat(descriptor))
                for name in sorted(opening.entry_names(descriptor)):
                    found = self._judge(name, descriptor)
                    if isinstance(found, SourceFile):
                        files.append(found)
                    elif found is not None:
                        skipped.append(found)
        except OSError as error:
            reason = failure_reason(error)
            unreadable = () if reason == rules.MISSING else (Skipped(FOLDER, reason),)
            return Scan(files=(), unreadable=unreadable)
        self._read_store()
        return Scan(files=tuple(files), skipped=tuple(skipped), folders=((self._real, stamp),))

    def look(self, path: str) -> SourceFile | Skipped | None:
        """The scan's decision for one caller path, now; None when it is absent or not admitted."""
        name = self._name_of(path)
        if name is None:
            return None
        try:
            with opening.folder(self._real) as descriptor:
                return self._judge(name, descriptor)
        except OSError as error:
            reason = failure_reason(error)
            return None if reason == rules.MISSING else Skipped(path, reason)

    @contextlib.contextmanager
    def opened(self, path: str, check: Checkpoint = carry_on) -> Iterator[OpenTranscript]:
        """A transcript for reading, valid inside the block. Raises `CorpusError`, and what `check` does."""
        name = self._name_of(path)
        if name is None:
            raise CorpusError("not a transcript", path=path, reason=rules.MISSING)
        descriptor = opening.open_regular(self._real, name)
        try:
            yield OpenTranscript(descriptor, check)
        except OSError as error:
            raise CorpusError(
                "a transcript cannot be read", path=path, reason=failure_reason(error)
            ) from error
        finally:
            os.close(descriptor)

    def generated(self, path: str) -> str | None:
        """By what machinery a file was made, as far as the gateway's store of the last scan knows."""
        known = kind_of(path.rpartition("/")[2])
        return None if known is None else self._generated.get(known[1])

    def is_below(self, path: str, folder: str) -> bool:
        """Whether a transcript's path lies in a folder that the scan calls unreadable."""
        return path == folder or path.startswith(folder + "/")

    def names_differ(self, known: Iterable[str]) -> bool:
        """Whether the folder holds other admitted files than these caller paths, by their names alone."""
        try:
            with opening.folder(self._real) as descriptor:
                names = opening.entry_names(descriptor)
        except OSError:
            return any(True for _ in known)
        return {hit_path(self._agent_id, name) for name in names if self._verdict(name) is None} != set(known)

    def relative_hint(self, absolute: str) -> str | None:
        """The caller path that an absolute path would have, by its name alone; None for no transcript."""
        folder, _, name = absolute.rpartition("/")
        if folder != self._real or self._verdict(name) is not None:
            return None
        return hit_path(self._agent_id, name)

    def lists_folder(self, absolute: str) -> bool:
        """Whether a folder on disk is the one that is listed."""
        return absolute == self._real

    def root_identities(self) -> tuple[tuple[int, int] | None, ...]:
        """Device and inode of the folder now, None where there is none."""
        try:
            status = os.lstat(self._real)
        except OSError:
            return (None,)
        return ((status.st_dev, status.st_ino),)

    def watched(self, scan: Scan) -> tuple[tuple[str, FileStamp], ...]:
        """What to watch after a scan: the folder, where it is."""
        return scan.folders

    def _name_of(self, path: str) -> str | None:
        prefix = hit_path(self._agent_id, "")
        name = path.removeprefix(prefix)
        if not path.startswith(prefix) or "/" in name or "\0" in name or self._verdict(name) is not None:
            return None
        return name

    def _verdict(self, name: str) -> str | None:
        """None when a file of this name is read, else the reason; `not-indexed` for what is no transcript."""
        known = kind_of(name)
        if known is None or known[0] == "deleted" or rules.shown_name(name) != name:
            return rules.NOT_INDEXED
        if known[0] == "reset":
            if not self._with_archives:
                return ARCHIVE
            if is_packed(name):
                return PACKED
        return None

    def _judge(self, name: str, descriptor: int) -> SourceFile | Skipped | None:
        verdict = self._verdict(name)
        if verdict == rules.NOT_INDEXED:
            return None
        path = hit_path(self._agent_id, name)
        if verdict == ARCHIVE:
            return Skipped(path, ARCHIVE, "sessions.include_reset_archives = true")
        if verdict is not None:
            return Skipped(path, verdict)
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        reason = kind_reason(status.st_mode)
        if reason is None and not opening.may_read(name, status, descriptor):
            reason = rules.PERMISSION_DENIED
        if reason is not None:
            return Skipped(path, reason)
        return SourceFile(path=path, root=0, relative=name, stamp=stamp_of(status), source="sessions")

    def _read_store(self) -> None:
        """Take up which sessions were made by machinery, if the store changed; an odd one says nothing."""
        try:
            descriptor = opening.open_regular(self._real, STORE)
        except CorpusError:
            self._store_stamp, self._generated = None, {}
            return
        try:
            opened = OpenTranscript(descriptor)
            if opened.stamp == self._store_stamp or opened.stamp.size > MOST_STORE_BYTES:
                return
            rows = _STORE.decode(b"".join(opened.pieces(0)))
            self._generated = generated_sessions(rows)
            self._store_stamp = opened.stamp
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return  # half written: what was known stays until the next look
        finally:
            os.close(descriptor)


def generated_sessions(rows: Mapping[str, msgspec.Raw]) -> dict[str, str]:
    """Session id -> why its transcript is none to remember, for the rows of a gateway's session store.

    Decided by the session's key, or by that of a cron run anywhere above it.
    """
    parents: dict[str, str] = {}
    ids: dict[str, list[str]] = {}
    for key, raw in rows.items():
        try:
            row = _ROW.decode(raw)
        except (msgspec.MsgspecError, RecursionError):
            continue
        if isinstance(row.sessionId, str):
            ids.setdefault(row.sessionId, []).append(key)
        for parent in (row.spawnedBy, row.parentSessionKey):
            if isinstance(parent, str):
                parents.setdefault(key, parent)
    found: dict[str, str] = {}
    for session_id, keys in ids.items():
        reasons = [_reason(key, parents) for key in keys]
        # A session that also has a key of its own is a conversation.
        if all(reasons):
            found[session_id] = next(filter(None, reasons))
    return found


def _reason(key: str, parents: Mapping[str, str]) -> str | None:
    own = generated_by(key)
    if own is not None:
        return own
    for _ in range(_MOST_HOPS):
        if key not in parents:
            return None
        key = parents[key]
        if generated_by(key) == "cron":
            return "cron"
    return None

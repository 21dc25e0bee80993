"""The one way to open a file of the corpus: regular, inside its root, through no link, bounded (spec §6).

Every component below a root is opened on its own, relative to the folder before it, and no link is
followed. What is not a regular file is never opened: opening a pipe would wake its writer. Access times
are left alone where the system allows it. Everything here blocks and belongs in a worker thread.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from sidecar.corpus import rules
from sidecar.domain.corpus import FileStamp
from sidecar.domain.errors import CorpusError
from sidecar.text.lines import decode, split_lines

T = TypeVar("T")

# What is indexed of one file. A larger file counts up to its last line end within it and is named. Preparing
# a file takes about forty times its size in memory and a second or two a megabyte; a note of 4 MiB is a
# library, what is larger is most often a log that strayed.
INDEX_BYTES: Final = 4 * 1024 * 1024

# The system's bound for a path in one call; nothing with a longer path is listed or watched.
MOST_PATH_BYTES: Final = 4096

_NOATIME: Final = getattr(os, "O_NOATIME", 0)
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS: Final = _FILE_FLAGS | os.O_DIRECTORY
_TRANSIENT: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK})
_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 0.03
_CHUNK: Final = 256 * 1024
_BINARY_LOOK: Final = 8192
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})


class StableRead(msgspec.Struct, frozen=True):
    """The bytes of a file and its stamp at that moment.

    `note` is None, `too-large` (the bytes end at a line end within the bound), or `changing` (the file was
    written to during every attempt; the stamp is the one from before, so that the next look differs).
    """

    data: bytes
    stamp: FileStamp
    note: str | None = None


def stamp_of(status: os.stat_result) -> FileStamp:
    """The stamp of a `stat` answer."""
    return FileStamp(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)


def kind_reason(mode: int) -> str | None:
    """None for a regular file, else the word for what the mode says it is."""
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISLNK(mode):
        return rules.LINK
    if stat.S_ISDIR(mode):
        return rules.FOLDER
    if stat.S_ISFIFO(mode):
        return rules.PIPE
    return rules.SOCKET if stat.S_ISSOCK(mode) else rules.DEVICE


def failure_reason(error: OSError) -> str:
    """The word for a failed look at a file or folder."""
    if error.errno in _GONE or isinstance(error, FileNotFoundError):
        return rules.MISSING
    if error.errno == errno.ELOOP:
        return rules.LINK
    if error.errno in {errno.EACCES, errno.EPERM}:
        return rules.PERMISSION_DENIED
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return rules.NO_FILE_HANDLE
    if error.errno in {errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ENODEV, errno.ENXIO}:
        return rules.IO_ERROR
    return rules.UNREADABLE


def with_retries(action: Callable[[], T]) -> T:
    """The action's result; EAGAIN, EWOULDBLOCK and EDEADLK are tried three times, 30 ms apart (U§8)."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return action()
        except OSError as error:
            if error.errno not in _TRANSIENT:
                raise
            time.sleep(_PAUSE_SECONDS)
    return action()


def _open(name: str, flags: int, folder: int | None) -> int:
    try:
        return os.open(name, flags | _NOATIME, dir_fd=folder)
    except PermissionError as error:
        # Only the owner may leave the access time alone; EACCES would be the same without the flag.
        if error.errno != errno.EPERM or not _NOATIME:
            raise
        return os.open(name, flags, dir_fd=folder)


def open_folder(name: str, within: int | None = None) -> int:
    """A descriptor of a root, or of a folder by its name in an open one; the caller closes it. `OSError`."""
    return _open(name, _FOLDER_FLAGS, within)


@contextlib.contextmanager
def folder(root: str | Path, relative: str = "") -> Iterator[int]:
    """A descriptor of a folder below a root, valid inside the block. Raises `OSError`."""
    descriptor = open_folder(os.fspath(root))
    try:
        for name in _names(relative):
            inner = open_folder(name, descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _names(relative: str) -> list[str]:
    names = relative.split("/") if relative else []
    if any(name in {"", ".", ".."} or "\0" in name for name in names):
        raise FileNotFoundError(errno.ENOENT, "not a path below a root")
    return names


def _parted(relative: str) -> tuple[str, str]:
    parent, _, name = relative.rpartition("/")
    if not _names(name):
        raise FileNotFoundError(errno.ENOENT, "not a path below a root")
    return parent, name


def status(root: str | Path, relative: str) -> os.stat_result:
    """The `lstat` of an entry below a root, with no link followed in any component. Raises `OSError`."""
    parent, name = _parted(relative)
    with folder(root, parent) as descriptor:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False)


def entry_names(descriptor: int) -> list[str]:
    """The names in an open folder. Raises `OSError`."""
    return os.listdir(descriptor)


def may_read(name: str, status: os.stat_result, descriptor: int) -> bool:
    """Whether a regular file in an open folder may be read. Only unusual modes cost an attempt to open."""
    everybody = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
    if status.st_mode & everybody == everybody:
        return True
    if status.st_mode & stat.S_IRUSR and status.st_uid == os.geteuid():
        return True
    if not stat.S_ISREG(status.st_mode):
        return False
    try:
        os.close(_open(name, _FILE_FLAGS, descriptor))
    except OSError as error:
        return error.errno not in {errno.EACCES, errno.EPERM}
    return True


def open_regular(root: str | Path, relative: str) -> int:
    """A descriptor of a regular file below a root, for reading; the caller closes it.

    Raises `CorpusError` whose `reason` is `missing`, `link`, `pipe`, `socket`, `device`, `folder`,
    `permission-denied`, `io-error`, `too-many-open-files` or `unreadable`.
    """

    def attempt() -> int:
        parent, name = _parted(relative)
        with folder(root, parent) as descriptor:
            _regular(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode, relative)
            opened = _open(name, _FILE_FLAGS, descriptor)
            try:
                _regular(os.fstat(opened).st_mode, relative)
            except CorpusError:
                os.close(opened)
                raise
            return opened

    try:
        return with_retries(attempt)
    except OSError as error:
        raise _failed(relative, failure_reason(error)) from error


def _regular(mode: int, relative: str) -> None:
    reason = kind_reason(mode)
    if reason is not None:
        raise _failed(relative, reason)


def _failed(relative: str, reason: str) -> CorpusError:
    return CorpusError(f"a file cannot be read: {reason}", path=rules.shown_name(relative), reason=reason)


def read_stable(root: str | Path, relative: str, *, max_bytes: int = INDEX_BYTES) -> StableRead:
    """The bytes of a file that did not change while they were read; raises like `open_regular`."""
    for _ in range(_ATTEMPTS):
        data, before, after = _read_once(root, relative, max_bytes)
        if before == after:
            break
    note = None
    if len(data) > max_bytes:
        data, note = _at_line_end(data[:max_bytes]), rules.TOO_LARGE
    return StableRead(data, before, note if before == after else rules.CHANGING)


def _read_once(root: str | Path, relative: str, max_bytes: int) -> tuple[bytes, FileStamp, FileStamp]:
    descriptor = open_regular(root, relative)
    try:
        before = stamp_of(os.fstat(descriptor))
        # One byte more than the file has says in one call that it ends where its size says.
        data = with_retries(lambda: os.read(descriptor, min(before.size, max_bytes) + 1))
        while len(data) <= max_bytes:
            more = with_retries(lambda: os.read(descriptor, _CHUNK))
            if not more:
                break
            data += more
        return data, before, stamp_of(os.fstat(descriptor))
    except OSError as error:
        raise _failed(relative, failure_reason(error)) from error
    finally:
        os.close(descriptor)


def _at_line_end(data: bytes) -> bytes:
    end = data.rfind(b"\n") + 1
    if end:
        return data[:end]
    # One endless line: leave out a character that was cut, so that no false U+FFFD ends the text.
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead & 0xC0 != 0x80:
            length = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
            return data[:-back] if length > back else data
    return data


def read_lines(
    root: str | Path, relative: str, start: int, count: int, max_bytes: int, *, from_char: int = 0
) -> list[str]:
    """At most `count` lines from the 1-based line `start`, without their "\\n", as `decode` gives them.

    Reads in pieces and holds at most about `max_bytes` of text (counted in UTF-8): the line that passes the
    bound is cut there and is the last one. Past the file's end: no lines. The first line is given without
    its first `from_char` characters. Raises like `open_regular`.
    """
    for _ in range(_ATTEMPTS):
        descriptor = open_regular(root, relative)
        try:
            before = stamp_of(os.fstat(descriptor))
            lines = _lines(descriptor, start, count, max_bytes, from_char)
            if stamp_of(os.fstat(descriptor)) == before:
                break
        except OSError as error:
            raise _failed(relative, failure_reason(error)) from error
        finally:
            os.close(descriptor)
    return lines


def _lines(descriptor: int, start: int, count: int, max_bytes: int, from_char: int) -> list[str]:
    piece = with_retries(lambda: os.read(descriptor, _CHUNK))
    if b"\0" in piece[:_BINARY_LOOK] and not piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        while len(piece) < INDEX_BYTES and (more := with_retries(lambda: os.read(descriptor, _CHUNK))):
            piece += more
        lines = split_lines(decode(piece).text)[start - 1 : start - 1 + count]
        return _bounded(lines, max_bytes, from_char)
    encoding = "utf-16" if piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    wanted = _WantedLines(start, count, max_bytes, from_char)
    while piece and not wanted.done:
        wanted.take(decoder.decode(piece))
        piece = b"" if wanted.done else with_retries(lambda: os.read(descriptor, _CHUNK))
    wanted.take(decoder.decode(b"", final=True))
    return wanted.finish()


def _bounded(lines: list[str], max_bytes: int, from_char: int) -> list[str]:
    wanted = _WantedLines(1, len(lines), max_bytes, from_char)
    wanted.take("".join(line + "\n" for line in lines))
    return wanted.finish()


class _WantedLines:
    """Collects the wanted lines of a text that comes in pieces."""

    def __init__(self, start: int, count: int, max_bytes: int, from_char: int) -> None:
        self._skip = start - 1
        self._skip_characters = from_char
        self._count = count
        self._room = max_bytes
        self._lines: list[str] = []
        self._open: list[str] | None = None
        self.done = count < 1

    def take(self, text: str) -> None:
        """Add a piece."""
        position = 0
        while not self.done and position < len(text):
            end = text.find("\n", position)
            if self._skip:
                if end == -1:
                    return
                self._skip -= 1
                position = end + 1
                continue
            self._add(text[position : len(text) if end == -1 else end])
            if end == -1:
                return
            self._close()
            position = end + 1

    def finish(self) -> list[str]:
        """The lines; the last one may have had no "\\n"."""
        if self._open is not None:
            self._close()
        return self._lines

    def _add(self, text: str) -> None:
        if self._open is None:
            self._open = []
        skipped = min(self._skip_characters, len(text))
        self._skip_characters -= skipped
        text = text[skipped:]
        raw = text.encode("utf-8", "replace")
        if len(raw) > self._room:
            text = raw[: self._room].decode("utf-8", "ignore")
            self.done = True
        self._room -= min(len(raw) + 1, self._room)
        self._open.append(text)

    def _close(self) -> None:
        self._lines.append("".join(self._open or ()))
        self._open = None
        self._skip_characters = 0
        self.done = self.done or len(self._lines) >= self._count

"""Files become documents: here, or for the many of a large scan in processes beside this one.

Preparing is pure Python and four fifths of an index's time. In threads it would take one core, and hold the
interpreter's lock against the event loop and every search.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import select
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sidecar.corpus.scan import FileRead
from sidecar.domain.errors import Halted
from sidecar.domain.halting import Checkpoint, carry_on
from sidecar.index.documents import IndexDocument
from sidecar.service.documents import Unchanged, document_of

log = logging.getLogger(__name__)

WORTH_FILES = 96
"""Fewer files at once are prepared here: a process takes as long to start as a hundred of them."""
PART_FILES = 16
"""So many documents are read from a worker at once, for that holds the interpreter's lock all the while."""
FRAME = struct.Struct("<Q")
_PIECE_BYTES = 1 << 20
_MOST_WORKERS = 4
_LOOK_SECONDS = 0.05


def _code_on_disk() -> tuple[int, int] | None:
    try:
        status = Path(__file__).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


_CODE = _code_on_disk()


class Work(msgspec.Struct, frozen=True, array_like=True):
    """A file to prepare: the arguments of `document_of`."""

    read: FileRead
    settled: bool
    known_hash: bytes | None


Outcome = IndexDocument | Unchanged


def prepared(works: Sequence[Work], check: Checkpoint = carry_on) -> list[Outcome]:
    """What each file became."""
    return [
        document_of(work.read, settled=work.settled, known_hash=work.known_hash, check=check)
        for work in works
    ]


class Preparers:
    """The worker processes of this process, shared by its agents. Blocking, for any thread.

    They are started by the first large lot, some of which is prepared here meanwhile, and ended when nobody
    prepares large lots any more; when this process is killed they see the end of their input. One that fails
    costs time, never a document: its lot is prepared here.
    """

    def __init__(self, workers: int | None = None) -> None:
        """`workers` 0 prepares everything here."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._most = min(_MOST_WORKERS, cores) if workers is None else workers
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []
        self._holders: set[object] = set()
        self._failed = self._most < 2

    @property
    def running(self) -> tuple[int, ...]:
        """The ids of the processes."""
        return tuple(process.pid for process in self._running)

    def prepare(self, works: Sequence[Work], holder: object, check: Checkpoint = carry_on) -> list[Outcome]:
        """What each file became, in order; the processes stay until every holder has called `release`.

        Raises what `check` raises; the processes, which do not know of it, are ended then.
        """
        if len(works) < WORTH_FILES or self._failed or not self._lock.acquire(blocking=False):
            return prepared(works, check)
        if not self._running and _code_on_disk() != _CODE:
            log.warning("files are prepared one by one: the program was replaced; restart the service")
            self._failed = True
        try:
            if self._failed:
                return prepared(works, check)
            self._holders.add(holder)
            if not self._running:
                self._start()
                here = len(works) // 4
                return [*prepared(works[:here], check), *self._shared(works[here:], check)]
            return self._shared(works, check)
        except Halted:
            self._end(at_once=True)
            raise
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            log.warning("files are prepared one after the other: a worker process failed (%s)", error)
            self._failed = True
            self._end(at_once=True)
            return prepared(works, check)
        finally:
            self._lock.release()

    def release(self, holder: object) -> None:
        """The holder prepares no more large lots for now."""
        with self._lock:
            self._holders.discard(holder)
            if not self._holders:
                self._end()

    def close(self) -> None:
        """End the processes; what is prepared from now on is prepared here."""
        with self._lock:
            self._failed = True
            self._end()

    def _start(self) -> None:
        # The same modules as here, wherever they come from, and nothing from the working directory.
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OPENBLAS_NUM_THREADS": "1",
        }
        command = [sys.executable, "-P", "-m", "sidecar.service.preparing_worker"]
        for _ in range(self._most):
            self._running.append(
                subprocess.Popen(  # noqa: S603 - our own module
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=environment,
                    start_new_session=True,
                )
            )

    def _shared(self, works: Sequence[Work], check: Checkpoint) -> list[Outcome]:
        count = len(self._running)
        for number, process in enumerate(self._running):
            assert process.stdin is not None  # noqa: S101 - asked for as a pipe
            pickle.dump(list(works[number::count]), process.stdin, pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
        shares = [_Share(process, len(works[number::count])) for number, process in enumerate(self._running)]
        while waiting := {share.descriptor: share for share in shares if share.missing}:
            # Whoever has something is read at once: a worker waits while nobody reads what it wrote.
            for descriptor in select.select(list(waiting), [], [], _LOOK_SECONDS)[0]:
                waiting[descriptor].read()
            check()
        found: list[Outcome | None] = [None] * len(works)
        for number, share in enumerate(shares):
            found[number::count] = share.outcomes
        return [outcome for outcome in found if outcome is not None]

    def _end(self, *, at_once: bool = False) -> None:
        running, self._running = self._running, []
        for process in running:
            if at_once:
                process.kill()
            with contextlib.suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()
        for process in running:
            if process.stdout is not None:
                process.stdout.close()
            try:
                process.wait(1.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class _Share:
    """What one worker answers: parts of `PART_FILES` documents, each behind its length."""

    def __init__(self, process: subprocess.Popen[bytes], files: int) -> None:
        assert process.stdout is not None  # noqa: S101 - asked for as a pipe
        # Never read through the file object, whose buffer `select` would not see.
        self.descriptor = process.stdout.fileno()
        self.outcomes: list[Outcome] = []
        self._files = files
        self._unread = bytearray()

    @property
    def missing(self) -> bool:
        """Whether there is more to come."""
        return len(self.outcomes) < self._files

    def read(self) -> None:
        """Take what is there; raises `EOFError` when the worker is gone."""
        piece = os.read(self.descriptor, _PIECE_BYTES)
        if not piece:
            raise EOFError("a worker process ended")
        self._unread += piece
        while len(self._unread) >= FRAME.size:
            (length,) = FRAME.unpack_from(self._unread)
            if len(self._unread) < FRAME.size + length:
                return
            part = bytes(self._unread[FRAME.size : FRAME.size + length])
            del self._unread[: FRAME.size + length]
            self.outcomes += pickle.loads(part)  # noqa: S301 - from our own process

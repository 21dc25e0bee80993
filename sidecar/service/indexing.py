"""Keeping the index equal to the corpus: the scan is the truth, hints only say where to look sooner.

One writer per agent: full scans, looks at single files and rebuilds take turns behind one lock, so that what
is published last is what was seen last, and a file that vanished while it was embedded never comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from typing import Literal

import msgspec

from sidecar.corpus.rules import UNKNOWN_STATE
from sidecar.corpus.watch import Hints, Watcher
from sidecar.domain.corpus import FileStamp, Scan, Skipped, SourceFile
from sidecar.domain.halting import Checkpoint, Halt
from sidecar.index.agent_index import AgentIndex
from sidecar.service.embeddings import Embeddings
from sidecar.service.feeds import Feed, Step
from sidecar.service.offload import Offload

log = logging.getLogger(__name__)

BATCH_FILES = 128
BATCH_BYTES = 1024 * 1024
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
Progress = Callable[[int, int], None]
Phase = Literal["starting", "scanning", "indexing", "idle"]


class Work(msgspec.Struct):
    """What was done since the process started; a restart over unchanged files leaves the reads at 0."""

    files_read: int = 0
    files_indexed: int = 0
    files_removed: int = 0
    scans: int = 0


class Changes(msgspec.Struct, frozen=True):
    """What a look at the disk asks for: files to read, and caller paths that are gone."""

    read: tuple[SourceFile, ...]
    removed: tuple[str, ...]


class Indexer:
    """The writer of one agent. `run` is its task; everything else may be called while it runs."""

    def __init__(
        self,
        *,
        feed: Feed,
        index: AgentIndex,
        watcher: Watcher,
        embeddings: Embeddings,
        offload: Offload,
    ) -> None:
        self._feed = feed
        self._index = index
        self._watcher = watcher
        self._embeddings = embeddings
        self._offload = offload
        self._turn = asyncio.Lock()
        self.first_scan = asyncio.Event()
        self.failure: str | None = None
        self.work = Work()
        self.phase: Phase = "starting"
        self._pending = 0
        self._waiting_since: float | None = None
        self.last_scan: Scan | None = None
        self._anew_seen = 0
        self.skipped_reads: dict[str, Skipped] = {}

    @property
    def folders(self) -> tuple[tuple[str, FileStamp], ...]:
        """The folders of the last scan with their own stamps."""
        return self.last_scan.folders if self.last_scan is not None else ()

    @property
    def pending(self) -> int:
        """How many changed files wait to be indexed."""
        return self._pending

    @pending.setter
    def pending(self, count: int) -> None:
        if not count:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = time.monotonic()
        self._pending = count

    @property
    def lag_seconds(self) -> float:
        """How long changes have been waiting; 0 where none does."""
        return 0.0 if self._waiting_since is None else time.monotonic() - self._waiting_since

    def gaps(self) -> tuple[str, ...]:
        """Why an answer may miss words just now; empty when all of them are indexed."""
        reasons = []
        if self.failure is not None:
            reasons.append(self.failure)
        if not self.first_scan.is_set():
            reasons.append("the first scan is still being indexed")
        if self._index.times_anew != self._anew_seen:
            reasons.append("the index was damaged and is being made anew")
            self._watcher.poke(None)
        for folder in self.last_scan.unreadable if self.last_scan is not None else ():
            reasons.append(f"{folder.path} cannot be read ({folder.reason})")
        return tuple(reasons)

    def look_again(self, paths: Collection[str] | None) -> None:
        """A search noticed that these files, or with None any, differ from the index: look at once."""
        self._feed.doubt(paths or ())
        self._watcher.poke(paths)

    async def run(self) -> None:
        """Follow the watcher's hints (the first asks for a full scan) until cancelled.

        Whatever fails (a full disk, a damaged store) is told in status and tried again after a pause, which
        doubles up to half a minute: the process goes on, and heals by itself once the cause is gone.
        """
        pause = FIRST_PAUSE_SECONDS
        async for hints in self._watcher.hints():
            try:
                await self._follow(hints)
            except Exception:  # the supervisor of this agent's writer: nothing may end it silently
                self.failure = "the index cannot be brought up to date; the log says why"
                log.exception("indexing failed, trying again in %g s", pause)
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE_SECONDS, 2 * pause)
                self._watcher.poke(None)
            else:
                self.failure = None
                pause = FIRST_PAUSE_SECONDS

    async def _follow(self, hints: Hints) -> None:
        if not hints.full:
            await self.look_at(hints.paths)
            return
        changed = await self.full_scan()
        if hints.reason == "timer":
            self._watcher.missed(changed)

    async def full_scan(self, progress: Progress | None = None) -> int:
        """Bring the index to what a scan of the whole corpus sees; gives how many files had changed."""
        async with self._turn:
            self.phase = "scanning"
            began = time.perf_counter()
            try:
                scan = await self._offload.run_long(self._feed.scan)
                cost = time.perf_counter() - began
                self.last_scan = scan
                self.work.scans += 1
                present = {file.path for file in scan.files}
                for path in [path for path in self.skipped_reads if path not in present]:
                    del self.skipped_reads[path]
                anew = self._index.times_anew
                try:
                    changed = await self._apply(self._compare(scan), progress)
                    self._anew_seen = anew
                finally:
                    self._watcher.settled(scan, cost)
                if not self.first_scan.is_set():
                    seconds = round(time.perf_counter() - began, 2)
                    log.info("first scan indexed", extra={"files": len(scan.files), "seconds": seconds})
                self.first_scan.set()
                return changed
            finally:
                self._rest()

    async def look_at(self, paths: Collection[str]) -> None:
        """Look at single files that changed or seem to have."""
        async with self._turn:
            self.phase = "indexing"
            try:
                found = await self._offload.run(lambda: [(path, self._feed.look(path)) for path in paths])
                view = self._index.view()
                known = self._feed.known(view)
                read = [
                    file
                    for _, file in found
                    if isinstance(file, SourceFile) and self._feed.differs(view, file)
                ]
                removed = [path for path, file in found if path in known and _is_gone(file)]
                await self._apply(Changes(tuple(read), tuple(removed)), None)
            finally:
                self._rest()

    async def rebuild(self, progress: Progress | None = None) -> None:
        """Index every file anew from the workspace; vectors of text that is still there are kept."""
        async with self._turn:
            await self._index.apply((), tuple(self._index.view().paths), (), {})
        await self.full_scan(progress)

    async def purge(self) -> None:
        """Remove every trace of text that left the corpus from the state, at once."""
        async with self._turn:
            await self._index.purge()

    def _rest(self) -> None:
        self.phase = "idle"
        self.pending = 0

    def _compare(self, scan: Scan) -> Changes:
        view = self._index.view()
        present = {file.path for file in scan.files}
        gone = tuple(
            path
            for path in self._feed.known(view)
            if path not in present
            and not any(self._feed.is_below(path, folder.path) for folder in scan.unreadable)
        )
        changed = [file for file in scan.files if self._feed.differs(view, file)]
        # What takes seconds by itself comes last: the other notes are searchable meanwhile.
        return Changes(tuple(sorted(changed, key=lambda file: file.stamp.size > BATCH_BYTES)), gone)

    async def _apply(self, changes: Changes, progress: Progress | None) -> int:
        total = len(changes.read)
        self.pending = total
        changed = len(changes.removed)
        if changes.removed:
            self.work.files_removed += len(changes.removed)
            view = self._index.view()
            paths = [path for removed in changes.removed for path in self._feed.documents(view, removed)]
            await self._index.apply((), paths, (), {})
        if total:
            self.phase = "indexing"
        for file in changes.read:
            self.skipped_reads.pop(file.path, None)
        work = Halt()
        steps = self._steps(changes.read, work.check)
        following = asyncio.ensure_future(self._offload.run(lambda: next(steps, None)))
        try:
            while (found := await following) is not None:
                # The next step is prepared while this one is written.
                following = asyncio.ensure_future(self._offload.run(lambda: next(steps, None)))
                batch, step = found
                if step is not None:
                    changed += await self._apply_step(step)
                    continue
                self.work.files_read += batch
                self.pending -= batch
                if progress is not None:
                    progress(total - self.pending, total)
        finally:
            # A step that still runs in its thread after a cancellation is not waited for; it gives up soon.
            work.halt()
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            with contextlib.suppress(ValueError):
                steps.close()
            await self._offload.run(self._feed.rest)
        self._embeddings.wake()
        return changed

    def _steps(
        self, files: Sequence[SourceFile], check: Checkpoint
    ) -> Generator[tuple[int, Step | None], None, None]:
        """The steps of all files, and None with the count of files behind the last step of a batch."""
        for batch in _batches(files):
            for step in self._feed.steps(self._index.view(), batch, check):
                yield 0, step
            yield len(batch), None

    async def _apply_step(self, step: Step) -> int:
        for skipped in step.skipped:
            self.skipped_reads[skipped.path] = skipped
        blocks = {block.hash: block.text for document in step.documents for block in document.blocks}
        vectors = await self._embeddings.immediate(blocks)
        await self._index.apply(step.documents, step.removed, step.restamps, vectors)
        self.work.files_indexed += step.files_indexed
        self.work.files_removed += step.files_removed
        return step.files_indexed + step.files_removed


def _is_gone(file: SourceFile | Skipped | None) -> bool:
    """Whether a known file is there no more; one that cannot be looked at just now is kept."""
    if isinstance(file, Skipped):
        return file.reason not in UNKNOWN_STATE
    return file is None


def _batches(files: Sequence[SourceFile]) -> Iterator[Sequence[SourceFile]]:
    """The files in their order, cut so that neither count nor bytes of a batch get large."""
    batch: list[SourceFile] = []
    size = 0
    for file in files:
        if batch and (len(batch) >= BATCH_FILES or size + file.stamp.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(file)
        size += file.stamp.size
    if batch:
        yield batch

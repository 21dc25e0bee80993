"""Keeping the index equal to the corpus: the scan is the truth, hints only say where to look sooner.

One writer per agent: full scans, looks at single files and rebuilds take turns behind one lock, so that what
is published last is what was seen last, and a file that vanished while it was embedded never comes back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

import msgspec

from sidecar.corpus.rules import UNKNOWN_STATE
from sidecar.corpus.scan import Corpus
from sidecar.corpus.watch import Hints, Watcher
from sidecar.domain.corpus import FileStamp, Scan, Skipped, SourceFile
from sidecar.domain.errors import CorpusError
from sidecar.index.agent_index import AgentIndex
from sidecar.index.documents import IndexDocument
from sidecar.index.entries import DocumentEntry
from sidecar.service.documents import Unchanged, document_of
from sidecar.service.embeddings import Embeddings
from sidecar.service.offload import Offload

log = logging.getLogger(__name__)

BATCH_FILES = 128
BATCH_BYTES = 1024 * 1024
SETTLED_NS = 2_000_000_000
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
    """What a look at the disk asks for: files to read, and paths that are gone."""

    read: tuple[SourceFile, ...]
    removed: tuple[str, ...]


Outcome = IndexDocument | Unchanged | Skipped | str


class Indexer:
    """The writer of one agent. `run` is its task; everything else may be called while it runs."""

    def __init__(
        self,
        *,
        corpus: Corpus,
        index: AgentIndex,
        watcher: Watcher,
        embeddings: Embeddings,
        offload: Offload,
    ) -> None:
        self._corpus = corpus
        self._index = index
        self._watcher = watcher
        self._embeddings = embeddings
        self._offload = offload
        self._turn = asyncio.Lock()
        self.first_scan = asyncio.Event()
        self.failure: str | None = None
        self.work = Work()
        self.phase: Phase = "starting"
        self.pending = 0
        self.last_scan: Scan | None = None
        self._anew_seen = 0
        self.skipped_reads: dict[str, Skipped] = {}

    @property
    def folders(self) -> tuple[tuple[str, FileStamp], ...]:
        """The folders of the last scan with their own stamps."""
        return self.last_scan.folders if self.last_scan is not None else ()

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
                scan = await self._offload.run(self._corpus.scan)
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
                found = await self._offload.run(lambda: [(path, self._corpus.look(path)) for path in paths])
                known = self._index.view().paths
                read = [
                    file
                    for _, file in found
                    if isinstance(file, SourceFile) and _differs(known.get(file.path), file)
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
        known = self._index.view().paths
        present = {file.path for file in scan.files}
        gone = tuple(
            path
            for path in known
            if path not in present
            and not any(self._corpus.is_below(path, folder.path) for folder in scan.unreadable)
        )
        changed = [file for file in scan.files if _differs(known.get(file.path), file)]
        # What takes seconds by itself comes last: the other notes are searchable meanwhile.
        return Changes(tuple(sorted(changed, key=lambda file: file.stamp.size > BATCH_BYTES)), gone)

    async def _apply(self, changes: Changes, progress: Progress | None) -> int:
        total = len(changes.read)
        self.pending = total
        changed = len(changes.removed)
        if changes.removed:
            self.work.files_removed += len(changes.removed)
            await self._index.apply((), changes.removed, (), {})
        if total:
            self.phase = "indexing"
        for batch in _batches(changes.read):
            changed += await self._apply_batch(batch)
            self.pending -= len(batch)
            if progress is not None:
                progress(total - self.pending, total)
        self._embeddings.wake()
        return changed

    async def _apply_batch(self, batch: Sequence[SourceFile]) -> int:
        known = self._index.view().paths
        hashes = {file.path: known[file.path].content_hash for file in batch if file.path in known}
        outcomes = await self._offload.run(
            lambda: [self._read(file, hashes.get(file.path)) for file in batch]
        )
        documents = [outcome for outcome in outcomes if isinstance(outcome, IndexDocument)]
        restamps = [
            (outcome.path, outcome.stamp, outcome.settled)
            for outcome in outcomes
            if isinstance(outcome, Unchanged)
        ]
        gone = [outcome for outcome in outcomes if isinstance(outcome, str) and outcome in known]
        for file, outcome in zip(batch, outcomes, strict=True):
            self.skipped_reads.pop(file.path, None)
            if isinstance(outcome, Skipped):
                self.skipped_reads[file.path] = outcome
        self.work.files_read += len(batch)
        self.work.files_indexed += len(documents)
        self.work.files_removed += len(gone)
        vectors = await self._embeddings.immediate(
            {block.hash: block.text for document in documents for block in document.blocks}
        )
        await self._index.apply(documents, gone, restamps, vectors)
        return len(documents) + len(gone)

    def _read(self, file: SourceFile, known_hash: bytes | None) -> Outcome:
        """A document, "nothing changed", why it cannot be read, or the path of a file that is gone."""
        try:
            read = self._corpus.read(file)
        except CorpusError as error:
            return Skipped(file.path, error.reason)
        if read is None:
            return file.path
        # A file that changed a moment ago could change again within one tick of its clock, unseen.
        settled = time.time_ns() - read.file.stamp.ctime_ns > SETTLED_NS and read.note != "changing"
        return document_of(read, settled=settled, known_hash=known_hash)


def _differs(entry: DocumentEntry | None, file: SourceFile) -> bool:
    """Whether a file has to be read: unknown, touched, or not yet settled when it was last read."""
    return entry is None or entry.stamp != file.stamp or not entry.settled


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

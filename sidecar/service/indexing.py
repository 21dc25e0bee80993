"""Keeping the index equal to the corpus: the scan is the truth, hints only say where to look sooner.

One writer per agent: full scans, looks at single files and rebuilds take turns behind one lock, so that what
is published last is what was seen last, and a file that vanished while it was embedded never comes back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

import msgspec

from sidecar.corpus.scan import Corpus
from sidecar.corpus.watch import Watcher
from sidecar.domain.corpus import Scan, Skipped, SourceFile
from sidecar.domain.errors import CorpusError
from sidecar.embedding.contract import Embedder
from sidecar.index.agent_index import AgentIndex
from sidecar.index.documents import IndexDocument
from sidecar.service.documents import Unchanged, prepare_document
from sidecar.service.offload import Offload

log = logging.getLogger(__name__)

BATCH_FILES = 256
BATCH_BYTES = 4 * 1024 * 1024
SETTLED_NS = 2_000_000_000
Progress = Callable[[int, int], None]
Phase = Literal["starting", "scanning", "indexing", "idle"]


class Work(msgspec.Struct):
    """What was done since the process started; a restart over unchanged files leaves all of it at 0."""

    files_read: int = 0
    files_indexed: int = 0
    files_removed: int = 0
    blocks_embedded: int = 0
    scans: int = 0


class Changes(msgspec.Struct, frozen=True):
    """What a look at the disk asks for."""

    read: tuple[SourceFile, ...]
    removed: tuple[str, ...]


class Indexer:
    """The writer of one agent. `run` is its task; everything else may be called while it runs."""

    def __init__(
        self,
        *,
        corpus: Corpus,
        index: AgentIndex,
        watcher: Watcher,
        embedder: Embedder | None,
        offload: Offload,
    ) -> None:
        self._corpus = corpus
        self._index = index
        self._watcher = watcher
        self._embedder = embedder
        self._offload = offload
        self._turn = asyncio.Lock()
        self.first_scan = asyncio.Event()
        self.work = Work()
        self.phase: Phase = "starting"
        self.pending = 0
        self.last_scan: Scan | None = None
        self.skipped_reads: dict[str, Skipped] = {}

    async def run(self) -> None:
        """One full scan, then whatever the watcher hints at, until cancelled."""
        await self.full_scan()
        async for hints in self._watcher.hints():
            try:
                if hints.full:
                    await self.full_scan()
                else:
                    await self.look_at(hints.paths)
            except CorpusError as error:
                log.warning("scan failed", extra={"path": error.path, "reason": error.reason})

    async def full_scan(self, progress: Progress | None = None) -> None:
        """Bring the index to what a scan of the whole corpus sees."""
        async with self._turn:
            self.phase = "scanning"
            began = time.perf_counter()
            try:
                scan = await self._offload.run(self._corpus.scan)
                cost = time.perf_counter() - began
                self.last_scan = scan
                self.work.scans += 1
                view = self._index.view()
                await self._apply(_compare(scan, view.by_path), progress)
                self._forget_skipped(scan)
                await self._watcher.settled(scan, cost)
                self.first_scan.set()
            finally:
                self.phase = "idle"
                self.pending = 0

    async def look_at(self, paths: Collection[str]) -> None:
        """Look at single files that changed or seem to have."""
        async with self._turn:
            self.phase = "indexing"
            try:
                found = await self._offload.run(lambda: [(path, self._corpus.look(path)) for path in paths])
                known = self._index.view().by_path
                read: list[SourceFile] = []
                removed: list[str] = []
                for path, file in found:
                    if isinstance(file, SourceFile):
                        document = known.get(file.path)
                        if document is None or document.stamp != file.stamp or not document.settled:
                            read.append(file)
                    elif path in known:
                        removed.append(path)
                await self._apply(Changes(tuple(read), tuple(removed)), None)
            finally:
                self.phase = "idle"
                self.pending = 0

    async def rebuild(self, progress: Progress | None = None) -> None:
        """Index every file anew from the workspace; vectors that are still valid are kept."""
        async with self._turn:
            known = tuple(self._index.view().by_path)
            await self._index.apply((), known, (), {})
        await self.full_scan(progress)

    async def purge(self) -> None:
        """Remove every trace of text that left the corpus from the state, at once."""
        async with self._turn:
            await self._index.purge()

    async def _apply(self, changes: Changes, progress: Progress | None) -> None:
        total = len(changes.read)
        self.pending = total
        if changes.removed:
            self.work.files_removed += len(changes.removed)
            await self._index.apply((), changes.removed, (), {})
        if not total:
            return
        self.phase = "indexing"
        for batch in _batches(changes.read):
            await self._apply_batch(batch)
            self.pending -= len(batch)
            if progress is not None:
                progress(total - self.pending, total)

    async def _apply_batch(self, batch: Sequence[SourceFile]) -> None:
        known = self._index.view().by_path
        hashes = {file.path: known[file.path].content_hash for file in batch if file.path in known}
        outcomes = await self._offload.run(lambda: [self._read(file, hashes.get(file.path)) for file in batch])
        documents = [outcome for outcome in outcomes if isinstance(outcome, IndexDocument)]
        restamps = [
            (outcome.path, outcome.stamp, outcome.settled)
            for outcome in outcomes
            if isinstance(outcome, Unchanged)
        ]
        removed = [outcome for outcome in outcomes if isinstance(outcome, str) and outcome in known]
        for outcome in outcomes:
            if isinstance(outcome, Skipped):
                self.skipped_reads[outcome.path] = outcome
        self.work.files_read += len(batch)
        self.work.files_indexed += len(documents)
        self.work.files_removed += len(removed)
        vectors = await self._embed(documents)
        await self._index.apply(documents, removed, restamps, vectors)

    def _read(self, file: SourceFile, known_hash: bytes | None) -> IndexDocument | Unchanged | Skipped | str:
        """A document, "nothing changed", why it cannot be read, or the path of a file that is gone."""
        try:
            read = self._corpus.read(file)
        except CorpusError as error:
            return Skipped(file.path, error.reason)
        if read is None:
            return file.path
        self.skipped_reads.pop(file.path, None)
        settled = time.time_ns() - max(read.file.stamp.ctime_ns, read.file.stamp.mtime_ns) > SETTLED_NS
        return prepare_document(read, settled=settled, known_hash=known_hash)

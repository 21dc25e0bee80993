"""How an agent's memory is (spec §4.1, §5.4): one report for `memory.status`, `/readyz` and the command line.

It holds caller paths and counts, never text, host paths or secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from sidecar.corpus.watch import Watcher
from sidecar.domain.corpus import Skipped
from sidecar.domain.provider import Health
from sidecar.index.agent_index import AgentIndex
from sidecar.service.embeddings import Embeddings
from sidecar.service.indexing import Indexer
from sidecar.service.session_status import SessionStatus, SourceCount, named


class FileCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Files on disk (None before the first scan), in the index, and waiting for it."""

    on_disk: int | None
    indexed: int
    pending: int


class HealthReport:
    """Puts together what the parts of one agent know about themselves."""

    def __init__(
        self,
        *,
        index: AgentIndex,
        indexer: Indexer,
        watcher: Watcher,
        embeddings: Embeddings,
        sessions: SessionStatus | None = None,
        repairs: tuple[str, ...] = (),
    ) -> None:
        """`repairs` are told beside those that the index made of itself."""
        self._repairs = repairs
        self._index = index
        self._indexer = indexer
        self._watcher = watcher
        self._embeddings = embeddings
        self._sessions = sessions

    async def report(self) -> Health:
        """The status word, why it is not `ready`, and the details."""
        of_sessions = self._sessions.gaps() if self._sessions is not None else ()
        reasons = (*self._indexer.gaps(), *self._embeddings.gaps(), *of_sessions)
        return Health(
            status="degraded" if reasons else "ready",
            message="; ".join(reasons) or None,
            details=self._details(),
        )

    def ready(self) -> tuple[bool, dict[str, object]]:
        """Whether the first scan is indexed, and the counts."""
        if self._sessions is None:
            return self._indexer.first_scan.is_set(), self._files()
        both = self._indexer.first_scan.is_set() and self._sessions.ready
        return both, {**self._files(), "transcripts": self._sessions.files()}

    @property
    def watching(self) -> Literal["events", "polling"]:
        """How changes are noticed now."""
        return self._watcher.state.mode

    def files(self) -> FileCounts:
        """The files of the corpus by where they stand."""
        scan = self._indexer.last_scan
        return FileCounts(
            on_disk=None if scan is None else len(scan.files),
            indexed=self._index.view().total("memory").files,
            pending=self._indexer.pending,
        )

    def _files(self) -> dict[str, object]:
        counts = self.files()
        return {"onDisk": counts.on_disk, "indexed": counts.indexed, "pending": counts.pending}

    def _details(self) -> dict[str, object]:
        view = self._index.view()
        total = view.total("memory")
        scan = self._indexer.last_scan
        watch = self._watcher.state
        work = self._indexer.work
        skipped = [*(scan.skipped if scan else ()), *self._indexer.skipped_reads.values()]
        entries = view.documents.values()
        noted = [Skipped(entry.path, note) for entry in entries for note in entry.notes]
        return {
            "files": self._files(),
            "sourceCounts": [
                {"source": count.source, "files": count.files, "chunks": count.chunks}
                for count in (
                    SourceCount(source="memory", files=total.files, chunks=total.units),
                    *([self._sessions.count()] if self._sessions is not None else []),
                )
            ],
            "index": {
                "generation": view.generation,
                "units": total.units,
                "blocks": total.blocks,
                "pendingVectors": total.pending,
                "unsettled": sum(not entry.settled for entry in entries),
                "phase": self._indexer.phase,
                "repairs": [*self._repairs, *self._index.repairs],
            },
            "watch": _without_none({"mode": watch.mode, "reason": watch.reason, "folders": watch.folders}),
            "embeddings": self._embeddings.details(),
            "work": {
                "scans": work.scans,
                "filesRead": work.files_read,
                "filesIndexed": work.files_indexed,
                "filesRemoved": work.files_removed,
                "blocksEmbedded": self._embeddings.embedded,
            },
            "skipped": named(skipped),
            "skippedCount": len(skipped),
            "partlyIndexed": named(noted),
            "unreadable": named(scan.unreadable if scan else ()),
        } | ({"sessions": self._sessions.details()} if self._sessions is not None else {})


def _without_none(values: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}

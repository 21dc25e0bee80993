"""How the transcripts of an agent are: its part of the health report. Names and counts, never text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from sidecar.corpus.watch import Watcher
from sidecar.domain.corpus import Skipped
from sidecar.domain.memory import Source
from sidecar.index.agent_index import AgentIndex
from sidecar.service.embeddings import Embeddings
from sidecar.service.indexing import Indexer
from sidecar.service.transcript_documents import transcript_of
from sidecar.service.transcript_feed import TranscriptFeed

MOST_NAMED = 100
"""So many skipped files are named; the rest is counted."""


class SourceCount(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `sourceCounts` (U§13); `chunks` are the pieces that a hit can start from."""

    source: Source
    files: int
    chunks: int
    issues: list[str] = []


class SessionStatus:
    """What the parts that follow transcripts know about themselves."""

    def __init__(
        self,
        *,
        index: AgentIndex,
        indexer: Indexer,
        watcher: Watcher,
        feed: TranscriptFeed,
        embeddings: Embeddings,
    ) -> None:
        self._index = index
        self._indexer = indexer
        self._watcher = watcher
        self._feed = feed
        self._embeddings = embeddings

    @property
    def ready(self) -> bool:
        """Whether the first scan is indexed."""
        return self._indexer.first_scan.is_set()

    def gaps(self) -> tuple[str, ...]:
        """Why an answer may miss something just now."""
        gaps = (*self._indexer.gaps(), *self._embeddings.gaps())
        return tuple(f"transcripts: {gap}" for gap in gaps)

    def files(self) -> dict[str, object]:
        """How many transcripts there are, are indexed, and wait."""
        scan = self._indexer.last_scan
        return {
            "onDisk": None if scan is None else len(scan.files),
            "indexed": len(self._feed.known(self._index.view())),
            "pending": self._indexer.pending,
        }

    def count(self) -> SourceCount:
        """The source's line in `sourceCounts`; files that no conversation made are not among them."""
        view = self._index.view()
        remembered = sum(known.dropped is None for known in self._feed.transcripts(view).values())
        return SourceCount(source="sessions", files=remembered, chunks=view.total("sessions").units)

    def details(self) -> dict[str, object]:
        """The rest of the report. `notRemembered` counts files that no conversation made, by why."""
        view = self._index.view()
        total = view.total("sessions")
        scan = self._indexer.last_scan
        watch = self._watcher.state
        skipped = [*(scan.skipped if scan else ()), *self._indexer.skipped_reads.values()]
        known = self._feed.transcripts(view).values()
        dropped = Counter(each.dropped.removeprefix("store-") for each in known if each.dropped)
        notes = {
            (transcript_of(entry.path), note): None
            for entry in view.documents.values()
            for note in entry.notes
        }
        return {
            "files": self.files(),
            "generation": view.generation,
            "parts": total.files,
            "blocks": total.blocks,
            "pendingVectors": total.pending,
            "phase": self._indexer.phase,
            "watch": {"mode": watch.mode} | ({"reason": watch.reason} if watch.reason else {}),
            "notRemembered": dict(dropped),
            "skipped": named(skipped),
            "skippedCount": len(skipped),
            "partlyIndexed": named(Skipped(path, note) for path, note in notes),
        }


def named(skipped: Iterable[Skipped]) -> list[dict[str, str]]:
    """The first of them as JSON."""
    shown = []
    for item in list(skipped)[:MOST_NAMED]:
        shown.append({"path": item.path, "reason": item.reason} | ({"hint": item.hint} if item.hint else {}))
    return shown

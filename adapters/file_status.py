"""`status()` of the file-shaped manager: the fields of U§13 that there is something true to say about.

Host paths (`workspaceDir`, `dbPath`, `extraPaths`) are left out: none leaves the process (spec §4).
"""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.domain.memory import Source
from sidecar.index.agent_index import AgentIndex
from sidecar.service.embeddings import Embeddings
from sidecar.service.indexing import Indexer

_NO_FILES = "no eligible memory files found"


class FileStatus:
    """What a manager of one agent says about itself; cheap enough to be asked after every search."""

    def __init__(
        self,
        *,
        index: AgentIndex,
        indexer: Indexer,
        embeddings: Embeddings,
        sources: Sequence[Source],
    ) -> None:
        self._index = index
        self._indexer = indexer
        self._embeddings = embeddings
        self._sources = tuple(sources)

    def report(self) -> dict[str, object]:
        """The status object. `chunks` counts the pieces that a hit can start from."""
        view = self._index.view()
        totals = {source: view.total(source) for source in self._sources}
        gaps = (*self._indexer.gaps(), *self._embeddings.gaps())
        embeddings = self._embeddings.details()
        counts = [
            {"source": source, "files": total.files, "chunks": total.units, "issues": self._issues(source)}
            for source, total in totals.items()
        ]
        status: dict[str, object] = {
            "backend": "builtin",
            "files": sum(total.files for total in totals.values()),
            "chunks": sum(total.units for total in totals.values()),
            "dirty": not self._indexer.first_scan.is_set() or self._indexer.pending > 0,
            "provider": self._embeddings.provider,
            "requestedProvider": self._embeddings.provider,
            "sources": list(self._sources),
            "sourceCounts": counts,
            "fts": {"enabled": True, "available": True},
            "vector": self.vector(),
            "custom": {
                "searchMode": embeddings["searchMode"],
                "indexIdentity": {"status": "valid"},
            },
        }
        if gaps:
            status["lastSyncError"] = "; ".join(gaps)
        if "model" in embeddings:
            status["model"] = embeddings["model"]
        return status

    def vector(self) -> dict[str, object]:
        """Whether vectors are there: `index.state` is `empty`, `incomplete` or `complete`."""
        if not self._embeddings.enabled:
            return {"enabled": False, "available": False, "index": {"state": "empty"}}
        totals = [self._index.view().total(source) for source in self._sources]
        blocks = sum(total.blocks for total in totals)
        pending = sum(total.pending for total in totals)
        state = "empty" if blocks == pending else "incomplete" if pending else "complete"
        found: dict[str, object] = {
            "enabled": True,
            "available": True,
            "semanticAvailable": blocks > pending,
            "index": {"state": state},
        }
        model = self._index.model
        return found if model is None else found | {"dims": model.dimensions}

    def _issues(self, source: Source) -> list[str]:
        scan = self._indexer.last_scan
        if source != "memory" or scan is None:
            return []
        issues = [] if scan.files else [_NO_FILES]
        return issues + [f"skipped link: {item.path}" for item in scan.skipped if item.reason == "link"][:100]

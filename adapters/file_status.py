"""`status()` of the file-shaped manager: the fields of U§13 that there is something true to say about.

Host paths (`workspaceDir`, `dbPath`, `extraPaths`) are left out: none leaves the process (spec §4).
"""

from __future__ import annotations

import msgspec

from sidecar.index.agent_index import AgentIndex
from sidecar.service.embeddings import Embeddings
from sidecar.service.indexing import Indexer
from sidecar.service.session_status import SessionStatus, SourceCount

_NO_FILES = "no eligible memory files found"


class FileStatus:
    """What a manager of one agent says about itself; cheap enough to be asked after every search."""

    def __init__(
        self,
        *,
        index: AgentIndex,
        indexer: Indexer,
        embeddings: Embeddings,
        sessions: SessionStatus | None = None,
    ) -> None:
        self._index = index
        self._indexer = indexer
        self._embeddings = embeddings
        self._sessions = sessions

    def report(self) -> dict[str, object]:
        """The status object. `chunks` counts the pieces that a hit can start from."""
        total = self._index.view().total("memory")
        gaps = [*self._indexer.gaps(), *self._embeddings.gaps()]
        embeddings = self._embeddings.details()
        counts = [SourceCount(source="memory", files=total.files, chunks=total.units, issues=self._issues())]
        if self._sessions is not None:
            gaps += self._sessions.gaps()
            counts.append(self._sessions.count())
        status: dict[str, object] = {
            "backend": "builtin",
            "files": sum(count.files for count in counts),
            "chunks": sum(count.chunks for count in counts),
            "dirty": not self._indexer.first_scan.is_set() or self._indexer.pending > 0,
            "provider": self._embeddings.provider,
            "requestedProvider": self._embeddings.provider,
            "sources": [count.source for count in counts],
            "sourceCounts": [msgspec.to_builtins(count) for count in counts],
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
        total = self._index.view().total("memory")
        blocks, pending = total.blocks, total.pending
        state = "empty" if blocks == pending else "incomplete" if pending else "complete"
        found: dict[str, object] = {
            "enabled": True,
            "available": True,
            "semanticAvailable": blocks > pending,
            "index": {"state": state},
        }
        model = self._index.model
        return found if model is None else found | {"dims": model.dimensions}

    def _issues(self) -> list[str]:
        scan = self._indexer.last_scan
        if scan is None:
            return []
        issues = [] if scan.files else [_NO_FILES]
        return issues + [f"skipped link: {item.path}" for item in scan.skipped if item.reason == "link"][:100]

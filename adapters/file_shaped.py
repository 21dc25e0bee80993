"""The file-shaped contract (U§2) over the engine: what `memory.search` v1 answers from (spec §5.3)."""

from __future__ import annotations

from collections.abc import Callable

from sidecar.domain.authority import Authority
from sidecar.domain.errors import AccessDenied
from sidecar.domain.memory import FileShapedAnswer, SearchRequest
from sidecar.domain.sessions import TranscriptAuthoriser
from sidecar.policy.access import Deny, SandboxedAccess, read_memory
from sidecar.ranking.floor import FileShapedFloor
from sidecar.service.search import SearchService


class FileShapedManager:
    """A manager over one agent's index, for clients that know paths and line numbers."""

    def __init__(
        self,
        *,
        agent_id: str,
        search: SearchService,
        sandboxed_access: SandboxedAccess,
        transcripts: Callable[[Authority], TranscriptAuthoriser | None],
    ) -> None:
        self._agent_id = agent_id
        self._search = search
        self._sandboxed_access = sandboxed_access
        self._transcripts = transcripts

    async def search(
        self, query: str, *, max_results: int, min_score: float | None, authority: Authority
    ) -> FileShapedAnswer:
        """The best hits in engine order; keyword hits survive a minimum score (U§11)."""
        verdict = read_memory(authority, self._agent_id, sandboxed_access=self._sandboxed_access)
        if isinstance(verdict, Deny):
            raise AccessDenied(verdict.reason)
        result = await self._search.search(
            SearchRequest(query=query, max_results=max_results),
            FileShapedFloor(min_score),
            transcripts=self._transcripts(authority),
        )
        stale = "; ".join(result.partial) or None
        return FileShapedAnswer(
            provider=result.embedding_provider,
            search_mode="hybrid" if result.hybrid else "fts-only",
            hits=result.hits,
            stale=stale,
            action=f"Run: memory-sidecar index --agent {self._agent_id}." if stale else None,
        )

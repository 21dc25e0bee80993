"""The file-shaped memory manager of U§5 over the engine: raw hits, reads by path, status, candidates.

v1 answers from it (spec §5.3), the `legacy` provider adapts it (spec §5.2), and `manager.*` gives it to hosts
that only know this contract (spec §4.2). It asks no policy: whoever holds a manager may read the agent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sidecar.adapters.file_reading import FileReading
from sidecar.adapters.file_status import FileStatus
from sidecar.adapters.hit_filters import unknown_kind
from sidecar.adapters.origin_classes import OriginClasses

from sidecar.domain.authority import Authority
from sidecar.domain.corpus import OriginClass
from sidecar.domain.errors import CapabilityUnsupported, ProviderFailed, Unavailable
from sidecar.domain.file_shaped import (
    Acquired,
    AuthoriseHits,
    FileHit,
    FileHits,
    FileRead,
    FileSearch,
    FileText,
    HitFilter,
    Provenance,
    SessionKind,
)
from sidecar.domain.memory import AutomaticRecall, Hit, SearchRequest
from sidecar.domain.provider import CandidateRequest, Purpose
from sidecar.domain.sessions import TranscriptAuthoriser
from sidecar.index.agent_index import AgentIndex
from sidecar.index.view import View
from sidecar.ranking.floor import DefaultFloor, FileShapedFloor, Floor, StrictFloor
from sidecar.service.embeddings import Embeddings
from sidecar.service.offload import Offload
from sidecar.service.search import SearchResult, SearchService
from sidecar.service.workspace import TranscriptAccess, no_transcripts

CLOSED = "Memory index manager is closed"
READ_ONLY = "Memory status managers are read-only"
NO_RECALL = AutomaticRecall(eligible=False)


class CandidateHits(Protocol):
    """Whole entries, and why some may be missing."""

    @property
    def hits(self) -> Sequence[Hit]: ...

    @property
    def partial(self) -> Sequence[str]: ...


class CandidateSource(Protocol):
    """Where the entries come from that a host may inject by itself (U§10)."""

    async def candidates(self, request: CandidateRequest) -> CandidateHits:
        """The entries of one kind; the excerpt of each is the whole entry."""
        ...


class Refresh(Protocol):
    """One scan to completion."""

    async def __call__(self, *, rebuild: bool) -> object: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class FileServices:
    """What the managers of one agent share; it outlives every manager.

    `authorise` None: hits of transcripts are withheld. `candidates` None: they are not offered.
    """

    agent_id: str
    search: SearchService
    index: AgentIndex
    reading: FileReading
    status: FileStatus
    origins: OriginClasses
    offload: Offload
    refresh: Refresh
    embeddings: Embeddings
    candidates: CandidateSource | None = None
    authorise: AuthoriseHits | None = None
    transcripts: TranscriptAccess = no_transcripts
    session_kind: Callable[[str], SessionKind] = unknown_kind


class FileShapedRuntime:
    """Where the managers of one agent come from."""

    def __init__(self, services: FileServices) -> None:
        self._services = services
        self._shared = FileShapedManager(services, "default")

    @property
    def authorize_search_hits(self) -> AuthoriseHits | None:
        """The filter over hits, where one is wired."""
        return self._services.authorise

    def view(self, authority: Authority) -> TranscriptAuthoriser | None:
        """An authority's view of the transcripts, for `FileSearch`."""
        return self._services.transcripts(authority)

    async def acquire(self, agent_id: str, purpose: Purpose) -> Acquired:
        """The shared manager for `default`, else one of the caller's own, which the caller closes."""
        if agent_id != self._services.agent_id:
            return Acquired(manager=None, error="memory plugin unavailable")
        return Acquired(manager=self.manager(purpose))

    def manager(self, purpose: Purpose) -> FileShapedManager:
        """As `acquire`, for callers that know which agent this is."""
        return self._shared if purpose == "default" else FileShapedManager(self._services, purpose)

    async def admitted(self, asked: HitFilter) -> Sequence[FileHit]:
        """The hits that a caller may see (U§7); without a filter, none of a transcript."""
        if self._services.authorise is not None:
            return await self._services.authorise(asked)
        return without_transcripts(asked)

    async def classify(self, paths: Sequence[str]) -> list[tuple[str, OriginClass]]:
        """The origin class of each workspace path (U§8)."""
        origins = self._services.origins
        return await self._services.offload.run(lambda: [(path, origins.of_path(path)) for path in paths])


class FileShapedManager:
    """One manager. Its lifetime is the acquirer's business, the services are shared."""

    def __init__(self, services: FileServices, purpose: Purpose) -> None:
        self._services = services
        self._purpose = purpose
        self._closed = False

    async def search(self, query: str, options: FileSearch) -> FileHits:
        """Raw hits in engine order; hits that match words survive a minimum unless it is strict (U§11)."""
        self._enter()
        request = SearchRequest(
            query=query,
            max_results=options.max_results,
            min_score=options.min_score,
            sources=options.sources,
            active_project_keys=options.active_project_keys,
            lexical_only=options.lexical_only,
        )
        if options.min_score is None:
            result = await self._search(request, DefaultFloor(), options)
        elif options.strict:
            result = await self._search(request, StrictFloor(options.min_score), options)
        else:
            result = await self._search(request, FileShapedFloor(options.min_score), options)
        self._enter()
        # A source without an index gives nothing, whatever the legs were made of.
        hits = [hit for hit in result.hits if options.sources is None or hit.source in options.sources]
        return FileHits(
            hits=self._raw(hits), stale="; ".join(result.partial) or None, notices=tuple(result.notices)
        )

    async def _search(self, request: SearchRequest, floor: Floor, options: FileSearch) -> SearchResult:
        return await self._services.search.search(request, floor, transcripts=options.transcripts)

    async def read_file(self, request: FileRead) -> FileText:
        """A read by path (U§12)."""
        self._enter()
        return await self._services.offload.run(lambda: self._services.reading.read(request))

    def status(self) -> dict[str, object]:
        """How the manager is (U§13)."""
        self._enter()
        return self._services.status.report()

    async def sync(self, *, reason: str, force: bool = False) -> None:  # noqa: ARG002
        """One scan to completion; with `force` every file is indexed anew."""
        self._enter()
        if self._purpose == "status":
            raise Unavailable(READ_ONLY)
        await self._services.refresh(rebuild=force)

    async def candidates(self, request: CandidateRequest) -> FileHits:
        """The entries of one kind, with score 0 and the whole entry as snippet (U§10)."""
        self._enter()
        if self._services.candidates is None:
            raise CapabilityUnsupported(
                f"memory provider does not support the {request.kind} candidates capability"
            )
        found = await self._services.candidates.candidates(request)
        self._enter()
        return FileHits(hits=self._raw(found.hits), stale="; ".join(found.partial) or None)

    async def probe(self) -> dict[str, object]:
        """Whether embeddings answer now, and whether vectors can be searched."""
        self._enter()
        fault = await self._services.embeddings.probe()
        embedding = {"ok": True} if fault is None else {"ok": False, "error": fault}
        return {"embedding": embedding, "vector": self._services.status.vector()}

    async def close(self) -> None:
        """This manager answers no more. Idempotent."""
        self._closed = True

    def _enter(self) -> None:
        if self._closed:
            raise ProviderFailed(CLOSED)

    def _raw(self, hits: Sequence[Hit]) -> tuple[FileHit, ...]:
        view = self._services.index.view()
        return tuple(_raw(hit, self._provenance(hit, view)) for hit in hits)

    def _provenance(self, hit: Hit, view: View) -> Provenance:
        """Where a hit's text comes from: by its lines in a transcript, by its place and file time in a note.

        A host that recorded that the text is untrusted takes away the trust of either.
        """
        origins, path, named = self._services.origins, hit.path or "", hit.reference.revision
        if hit.origin is not None:
            return Provenance(
                origin_class=origins.of_text(path, named, hit.origin.origin_class),
                session_kind=self._services.session_kind(path),
                observed_at=hit.origin.observed_ms,
            )
        entry = view.paths.get(path)
        return Provenance(
            origin_class=origins.of_text(path, named, "untrusted" if entry is None else entry.origin),
            observed_at=0 if entry is None else entry.stamp.mtime_ns // 1_000_000,
        )


def without_transcripts(asked: HitFilter) -> tuple[FileHit, ...]:
    """What nobody has to authorise: notes, unless a recall pass is for transcripts alone (U§7)."""
    recall = asked.conversation_recall
    if recall is not None and recall.corpus == "sessions":
        return ()
    return tuple(hit for hit in asked.hits if hit.source != "sessions")


def _raw(hit: Hit, provenance: Provenance) -> FileHit:
    if hit.path is None or hit.lines is None:
        raise ProviderFailed("a hit without a file cannot be shown in the file-shaped contract")
    recall = hit.recall or NO_RECALL
    return FileHit(
        path=hit.path,
        start_line=hit.lines.start,
        end_line=hit.lines.end,
        score=hit.score or 0.0,
        snippet=hit.excerpt,
        source="sessions" if hit.source == "sessions" else "memory",
        vector_score=hit.parts.vector,
        text_score=hit.parts.text,
        importance=recall.importance,
        triggers=recall.triggers,
        project_key="; ".join(recall.project_keys) or None,
        provenance=provenance,
    )

"""What an agent with an index has beside its native provider: file-shaped managers, and who owns it."""

from __future__ import annotations

from sidecar.adapters.file_reading import FileReading
from sidecar.adapters.file_shaped import CandidateSource, FileServices, FileShapedRuntime, Refresh
from sidecar.adapters.file_status import FileStatus
from sidecar.adapters.hit_filters import HitFilters, unknown_kind
from sidecar.adapters.legacy_provider import LegacyProvider, LegacyServices
from sidecar.adapters.origin_classes import OriginClasses, RecordedOrigin, nothing_recorded
from sidecar.corpus.scan import Corpus
from sidecar.domain.provider import MemoryProvider
from sidecar.index.agent_index import AgentIndex
from sidecar.runtime.sessions import SessionRuntime
from sidecar.service.decisions import Decisions
from sidecar.service.embeddings import Embeddings
from sidecar.service.indexing import Indexer
from sidecar.service.offload import Offload
from sidecar.service.search import SearchService
from sidecar.service.workspace import TranscriptAccess, no_transcripts
from sidecar.settings.model import AgentSettings


def file_managers(
    settings: AgentSettings,
    *,
    corpus: Corpus,
    index: AgentIndex,
    indexer: Indexer,
    search: SearchService,
    embeddings: Embeddings,
    offload: Offload,
    refresh: Refresh,
    candidates: CandidateSource | None = None,
    filters: HitFilters | None = None,
    transcripts: TranscriptAccess = no_transcripts,
    sessions: SessionRuntime | None = None,
    recorded_origin: RecordedOrigin = nothing_recorded,
) -> FileShapedRuntime:
    """Where the file-shaped managers of one agent come from; without `filters`, no transcript leaves them."""
    status = FileStatus(
        index=index,
        indexer=indexer,
        embeddings=embeddings,
        sessions=sessions.status if sessions is not None else None,
    )
    return FileShapedRuntime(
        FileServices(
            agent_id=settings.id,
            search=search,
            index=index,
            reading=FileReading(corpus),
            status=status,
            origins=OriginClasses(corpus, recorded_origin),
            offload=offload,
            refresh=refresh,
            embeddings=embeddings,
            candidates=candidates,
            authorise=filters.authorise if filters is not None else None,
            transcripts=transcripts,
            session_kind=filters.kind if filters is not None else unknown_kind,
        )
    )


def owning_provider(
    settings: AgentSettings,
    native: MemoryProvider,
    managers: FileShapedRuntime,
    *,
    decisions: Decisions,
    filters: HitFilters | None = None,
) -> MemoryProvider:
    """Which of the two providers over one index owns the agent (spec §5)."""
    if settings.provider != "legacy":
        return native
    return LegacyProvider(
        LegacyServices(
            agent_id=settings.id,
            runtime=managers,
            decisions=decisions,
            provider_id=settings.provider_id,
            sees=filters.sees if filters is not None else None,
            view=managers.view,
        )
    )

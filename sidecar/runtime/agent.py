"""One configured agent: its parts, built once, started together and closed in the opposite order."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from datetime import date
from pathlib import Path

from sidecar.adapters.hit_filters import HitFilters
from sidecar.corpus.rules import ExtraPath
from sidecar.corpus.scan import Corpus
from sidecar.domain.authority import Authority
from sidecar.domain.errors import SettingsError, SidecarError
from sidecar.domain.memory import Note
from sidecar.domain.session_rows import NO_ROWS, SessionRows
from sidecar.domain.why import Why, WhyRequest
from sidecar.embedding.guarded import GuardedEmbedder
from sidecar.index.entries import DocumentEntry
from sidecar.policy.transcripts import TranscriptRules
from sidecar.runtime.file_side import file_managers, owning_provider
from sidecar.runtime.indexed import IndexedSource
from sidecar.runtime.sessions import SessionRuntime
from sidecar.service.audit import Audit
from sidecar.service.candidates import CandidateService
from sidecar.service.decisions import Decisions
from sidecar.service.documents import LAYOUT
from sidecar.service.feeds import NoteFeed
from sidecar.service.health import HealthReport
from sidecar.service.hits import HitMaker, RecordedOrigin
from sidecar.service.indexing import Progress
from sidecar.service.offload import Offload
from sidecar.service.paging import Pager
from sidecar.service.preparing import Preparers
from sidecar.service.reading import Reader
from sidecar.service.search import SearchService
from sidecar.service.shelf import Shelf
from sidecar.service.walks import Walks
from sidecar.service.why import WhyService
from sidecar.service.why_ranks import verdict
from sidecar.service.workspace import (
    TranscriptAccess,
    WorkspaceProvider,
    WorkspaceServices,
    no_transcripts,
)
from sidecar.settings.model import AgentSettings, EmbeddingSettings, WatchSettings
from sidecar.text.transcript_names import identity_of

log = logging.getLogger(__name__)

MAINTAIN_SECONDS = 300.0


class AgentRuntime:
    """The parts of one agent. `open` builds them, `start` sets the indexer going, `close` ends all."""

    gate = None
    """Its providers decide by themselves: they know which source a hit is of."""

    def __init__(
        self,
        *,
        settings: AgentSettings,
        notes: IndexedSource,
        corpus: Corpus,
        shelf: Shelf,
        offload: Offload,
        audit: Audit,
        recorded_origin: RecordedOrigin,
        transcripts: TranscriptAccess,
        rows: Callable[[], SessionRows],
        sessions: SessionRuntime | None,
        repairs: tuple[str, ...],
    ) -> None:
        self._id = settings.id
        self._notes = notes
        self._index = index = notes.index
        self._sessions = sessions
        self._shelf = shelf
        self._tasks: list[asyncio.Task[None]] = []
        self.embeddings = embeddings = notes.embeddings
        self.indexer = notes.indexer
        self.health = self._report(notes, repairs)
        hits = HitMaker(settings.provider_id, recorded_origin)
        search = self._search_over(settings, hits, corpus, offload)
        self.legs = search.legs
        candidates = CandidateService(
            index=index, indexer=self.indexer, shelf=shelf, hits=hits, offload=offload
        )
        self._why = WhyService(
            corpus=corpus, index=index, indexer=self.indexer, search=search, shelf=shelf, offload=offload
        )
        self._why_session = sessions.why(search, offload) if sessions is not None else None
        self._transcripts = transcripts
        self._pager = self._pages(search, hits, corpus, offload)
        self.serves_v1 = settings.serve_v1
        filters = HitFilters(
            agent_id=settings.id,
            rules=transcript_rules(settings),
            rows=rows,
            identify=identity_of,
            reset_cutoff=sessions.reset_of if sessions is not None else None,
        )
        self.manager = file_managers(
            settings,
            corpus=corpus,
            index=index,
            indexer=self.indexer,
            search=search,
            embeddings=embeddings,
            offload=offload,
            refresh=self.refresh,
            candidates=candidates,
            filters=filters,
            transcripts=transcripts,
            sessions=sessions,
            recorded_origin=recorded_origin,
        )
        self.decisions = Decisions.of(settings, audit, rows)
        native = WorkspaceProvider(
            self._native(settings, candidates, Reader(corpus, settings.provider_id), offload, transcripts)
        )
        self.provider = owning_provider(
            settings, native, self.manager, decisions=self.decisions, filters=filters
        )

    def _report(self, notes: IndexedSource, repairs: tuple[str, ...]) -> HealthReport:
        return HealthReport(
            index=notes.index,
            indexer=notes.indexer,
            watcher=notes.watcher,
            embeddings=notes.embeddings,
            sessions=self._sessions.status if self._sessions is not None else None,
            repairs=repairs,
        )

    def _search_over(
        self, settings: AgentSettings, hits: HitMaker, corpus: Corpus, offload: Offload
    ) -> SearchService:
        return SearchService(
            hits=hits,
            index=self._index,
            corpus=corpus,
            shelf=self._shelf,
            indexer=self.indexer,
            embeddings=self.embeddings,
            offload=offload,
            search_sources=settings.search_sources,
            sessions=self._sessions.search if self._sessions is not None else None,
        )

    def _native(
        self,
        settings: AgentSettings,
        candidates: CandidateService,
        reader: Reader,
        offload: Offload,
        transcripts: TranscriptAccess,
    ) -> WorkspaceServices:
        """What the handles of the native provider share."""
        return WorkspaceServices(
            agent_id=settings.id,
            pager=self._pager,
            candidates=candidates,
            refresh=self.refresh,
            reader=reader,
            health=self.health,
            offload=offload,
            decisions=self.decisions,
            transcripts=transcripts,
            session_reader=self._sessions.reader if self._sessions is not None else None,
        )

    def _pages(self, search: SearchService, hits: HitMaker, corpus: Corpus, offload: Offload) -> Pager:
        return Pager(
            search=search,
            walks=Walks(offload=offload, quiet=search.quiet),
            hits=hits,
            index=self._index,
            indexer=self.indexer,
            corpus=corpus,
            shelf=self._shelf,
            offload=offload,
            sessions=self._sessions.reader if self._sessions is not None else None,
        )

    @classmethod
    async def open(
        cls,
        settings: AgentSettings,
        *,
        directory: Path,
        watch: WatchSettings,
        embeddings: EmbeddingSettings,
        embedder: GuardedEmbedder | None,
        offload: Offload,
        preparers: Preparers,
        audit: Audit,
        recorded_origin: RecordedOrigin,
        transcripts: TranscriptAccess = no_transcripts,
        rows: Callable[[], SessionRows] = lambda: NO_ROWS,
        repairs: tuple[str, ...] = (),
    ) -> AgentRuntime:
        """Open the agent's index, repairing what needs it, and build everything over it.

        `repairs` were made before, and are told in status beside the index's own.
        """
        if settings.workspace is None:
            raise SettingsError(f"agents.{settings.id}.workspace: a folder is needed")
        corpus = Corpus(
            settings.workspace,
            [ExtraPath(extra.path, extra.pattern) for extra in settings.extra_paths],
            settings.exclude,
        )
        shelf = Shelf(corpus)
        notes = await IndexedSource.open(
            "notes",
            directory,
            agent_id=settings.id,
            layout=LAYOUT,
            corpus=corpus,
            feed=NoteFeed(corpus, preparers),
            forget=shelf.clear,
            watch=watch,
            embeddings=embeddings,
            embedder=embedder,
            offload=offload,
        )
        try:
            sessions = await SessionRuntime.open(
                settings,
                provider_id=settings.provider_id,
                directory=directory,
                watch=watch,
                embeddings=embeddings,
                embedder=embedder,
                offload=offload,
            )
        except BaseException:
            await notes.close()
            raise
        return cls(
            settings=settings,
            notes=notes,
            corpus=corpus,
            shelf=shelf,
            offload=offload,
            sessions=sessions,
            transcripts=transcripts,
            rows=rows,
            recorded_origin=recorded_origin,
            audit=audit,
            repairs=repairs,
        )

    def start(self) -> None:
        """Begin to follow the workspace."""
        self._tasks = [
            *self._notes.start(),
            asyncio.create_task(self._maintain(), name="maintenance"),
        ]
        if self._sessions is not None:
            self._tasks += self._sessions.start()

    async def refresh(
        self,
        *,
        rebuild: bool = False,
        purge: bool = False,
        vectors: bool = True,
        progress: Progress | None = None,
    ) -> dict[str, object]:
        """One scan to completion, with `vectors` also those of an endpoint unless it fails; gives counts."""
        for source in (self._notes, self._sessions):
            if source is not None:
                await source.refresh(rebuild=rebuild, purge=purge, vectors=vectors, progress=progress)
        _, files = self.health.ready()
        totals = self._index.view().total("memory")
        return {"files": files["indexed"], "units": totals.units, "blocks": totals.blocks}

    def notes(self, after: str, most: int) -> list[Note]:
        """The first `most` indexed notes whose paths come after `after`."""
        entries = [entry for entry in self._index.view().documents.values() if entry.source == "memory"]
        found = heapq.nsmallest(most, (entry for entry in entries if entry.path > after), key=_path)
        return [
            Note(path=entry.path, day=None if entry.day is None else date.fromordinal(entry.day))
            for entry in found
        ]

    async def why(self, asked: WhyRequest, authority: Authority) -> Why:
        """Why a line of a note or a transcript is found by a query, or is not."""
        if identity_of(asked.path) is None or asked.path.endswith(".md"):
            return await self._why.why(asked)
        if self._why_session is None:
            return verdict(
                asked, "not-indexed", "transcripts are not indexed",
                f"set [agents.{self._id}.sessions] enabled = true",
            )  # fmt: skip
        return await self._why_session.why(asked, self._transcripts(authority))

    def readiness(self) -> tuple[bool, dict[str, object]]:
        """Whether the first scan is indexed, and the counts."""
        return self.health.ready()

    async def rest(self) -> None:
        """End the tasks: nothing is followed any more, searches and reads still work."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        """End the tasks, then close watcher and index; what was published stays."""
        await self.rest()
        await self._pager.close()
        await self._notes.close()
        if self._sessions is not None:
            await self._sessions.close()

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(MAINTAIN_SECONDS)
            try:
                await self._index.maintain()
                if self._sessions is not None:
                    await self._sessions.index.maintain()
            except SidecarError as error:
                log.warning("clean-up failed: %s", error.message)


def transcript_rules(settings: AgentSettings) -> TranscriptRules:
    """What the settings say about who may see an agent's transcripts."""
    return TranscriptRules(
        visibility=settings.sessions.visibility, sandboxed_access=settings.sandboxed_access
    )


def _path(entry: DocumentEntry) -> str:
    return entry.path

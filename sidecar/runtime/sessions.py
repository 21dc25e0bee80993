"""The transcripts of one agent: a corpus, an index and a writer of their own beside those of its notes.

Of their own, so that nothing about them (text, statistics, vectors, work to be done) can touch what a search
over notes gives.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from sidecar.corpus.transcripts import TranscriptCorpus
from sidecar.embedding.guarded import GuardedEmbedder
from sidecar.index.private_files import remove_tree
from sidecar.index.view import View
from sidecar.runtime.indexed import IndexedSource
from sidecar.service.indexing import Work
from sidecar.service.offload import Offload
from sidecar.service.search import SearchService
from sidecar.service.session_reading import SessionReader
from sidecar.service.session_search import SessionSearch
from sidecar.service.session_shelf import SessionShelf
from sidecar.service.session_status import SessionStatus
from sidecar.service.session_why import SessionWhy
from sidecar.service.transcript_documents import LAYOUT
from sidecar.service.transcript_feed import TranscriptFeed
from sidecar.settings.model import AgentSettings, EmbeddingSettings, WatchSettings

DIRECTORY = "sessions"


class SessionRuntime:
    """The parts that serve transcripts; opened, started, refreshed and closed as any `IndexedSource`."""

    def __init__(
        self,
        source: IndexedSource,
        *,
        provider_id: str,
        corpus: TranscriptCorpus,
        feed: TranscriptFeed,
        shelf: SessionShelf,
    ) -> None:
        self._source = source
        self._feed = feed
        self._shelf = shelf
        self.index = index = source.index
        self.start = source.start
        self.refresh = source.refresh
        self.close = source.close
        self.search = SessionSearch(
            provider_id=provider_id,
            index=index,
            corpus=corpus,
            feed=feed,
            shelf=shelf,
            indexer=source.indexer,
        )
        self.reader = SessionReader(provider_id=provider_id, index=index, feed=feed, shelf=shelf)
        self.status = SessionStatus(
            index=index,
            indexer=source.indexer,
            watcher=source.watcher,
            feed=feed,
            embeddings=source.embeddings,
        )

    @classmethod
    async def open(
        cls,
        settings: AgentSettings,
        *,
        provider_id: str,
        directory: Path,
        watch: WatchSettings,
        embeddings: EmbeddingSettings,
        embedder: GuardedEmbedder | None,
        offload: Offload,
    ) -> SessionRuntime | None:
        """The parts over the agent's `directory`; None where transcripts are off, and then no text stays."""
        if not settings.sessions.enabled:
            await asyncio.to_thread(remove_tree, directory / DIRECTORY)
            return None
        corpus = TranscriptCorpus(
            settings.sessions.directory,
            settings.id,
            include_reset_archives=settings.sessions.include_reset_archives,
        )
        feed, shelf = TranscriptFeed(corpus), SessionShelf(corpus)
        source = await IndexedSource.open(
            "transcripts",
            directory / DIRECTORY,
            agent_id=settings.id,
            layout=LAYOUT,
            corpus=corpus,
            feed=feed,
            forget=shelf.clear,
            watch=watch,
            embeddings=embeddings,
            embedder=embedder,
            offload=offload,
        )
        return cls(source, provider_id=provider_id, corpus=corpus, feed=feed, shelf=shelf)

    def why(self, search: SearchService, offload: Offload) -> SessionWhy:
        """Explains these transcripts by the agent's own search."""
        return SessionWhy(
            index=self.index,
            indexer=self._source.indexer,
            feed=self._feed,
            shelf=self._shelf,
            search=search,
            offload=offload,
        )

    def reset_of(self, path: str) -> int | None:
        """The physical line of the last reset of the transcript at a caller path, where there was one."""
        known = self._feed.transcripts(self.index.view()).get(path)
        return None if known is None else known.reset

    def view(self) -> View:
        """What is indexed now."""
        return self.index.view()

    @property
    def work(self) -> Work:
        """What was done since the start."""
        return self._source.indexer.work

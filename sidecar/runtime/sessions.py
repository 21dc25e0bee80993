"""The transcripts of one agent: a corpus, an index and a writer of their own beside those of its notes.

Of their own, so that nothing about them (text, statistics, vectors, work to be done) can touch what a search
over notes gives.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from sidecar.corpus.transcripts import TranscriptCorpus
from sidecar.corpus.watch import Watcher
from sidecar.domain.errors import SidecarError
from sidecar.embedding.guarded import GuardedEmbedder
from sidecar.index.agent_index import AgentIndex
from sidecar.index.private_files import remove_tree
from sidecar.index.view import View
from sidecar.service.embeddings import Embeddings
from sidecar.service.indexing import Indexer, Progress, Work
from sidecar.service.offload import Offload
from sidecar.service.session_reading import SessionReader
from sidecar.service.session_search import SessionSearch
from sidecar.service.session_shelf import SessionShelf
from sidecar.service.session_status import SessionStatus
from sidecar.service.transcript_documents import LAYOUT
from sidecar.service.transcript_feed import TranscriptFeed
from sidecar.settings.model import AgentSettings, EmbeddingSettings, WatchSettings

log = logging.getLogger(__name__)

DIRECTORY = "sessions"


class SessionRuntime:
    """The parts that serve transcripts. `open` builds them, `start` sets them going, `close` ends all."""

    def __init__(
        self,
        *,
        provider_id: str,
        corpus: TranscriptCorpus,
        index: AgentIndex,
        watch: WatchSettings,
        embeddings: Embeddings,
        offload: Offload,
    ) -> None:
        self._feed = feed = TranscriptFeed(corpus)
        self._embeddings = embeddings
        self.index = index
        self._shelf = SessionShelf(corpus)
        self._watcher = Watcher(corpus, mode=watch.mode, poll_seconds=watch.poll_seconds)
        self._indexer = Indexer(
            feed=feed, index=index, watcher=self._watcher, embeddings=embeddings, offload=offload
        )
        self.search = SessionSearch(
            provider_id=provider_id,
            index=index,
            corpus=corpus,
            feed=feed,
            shelf=self._shelf,
            indexer=self._indexer,
        )
        self.reader = SessionReader(provider_id=provider_id, index=index, feed=feed, shelf=self._shelf)
        self.status = SessionStatus(
            index=index, indexer=self._indexer, watcher=self._watcher, feed=feed, embeddings=embeddings
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
        model = embedder.identity if embedder is not None else None
        index = await AgentIndex.open(
            directory / DIRECTORY,
            layout=LAYOUT,
            model=model,
            awaits_model=embedder is not None and model is None,
        )
        for repair in index.repairs:
            log.warning("repaired: %s", repair, extra={"agent": settings.id, "source": "sessions"})
        return cls(
            provider_id=provider_id,
            corpus=corpus,
            index=index,
            watch=watch,
            embeddings=Embeddings(
                provider=embeddings.provider,
                embedder=embedder,
                index=index,
                on_failure=embeddings.on_failure,
            ),
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
        return self._indexer.work

    def start(self) -> list[asyncio.Task[None]]:
        """Begin to follow the folder; the tasks are the caller's to end."""
        return [
            asyncio.create_task(self._indexer.run(), name="transcripts"),
            asyncio.create_task(self._embeddings.run(), name="vectors of transcripts"),
        ]

    async def refresh(
        self,
        *,
        rebuild: bool = False,
        purge: bool = False,
        vectors: bool = True,
        progress: Progress | None = None,
    ) -> None:
        """One scan to completion."""
        if rebuild:
            await self._indexer.rebuild(progress)
        else:
            await self._indexer.full_scan(progress)
        if purge:
            self._shelf.clear()
            await self._indexer.purge()
        await self._embeddings.catch_up(whole=vectors)

    async def maintain(self) -> None:
        """The bounded clean-up of the index."""
        await self.index.maintain()

    async def close(self) -> None:
        """Close watcher and index, after the tasks have ended."""
        await self._watcher.close()
        try:
            await self.index.close()
        except SidecarError as error:
            log.warning("the index of transcripts did not close cleanly: %s", error.message)

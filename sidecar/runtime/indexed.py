"""One source of an agent with an index of its own: what opens, follows, refreshes and closes it.

The notes of an agent are one, its transcripts another; they differ in their corpus and feed alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from sidecar.corpus.watch import Watchable, Watcher
from sidecar.domain.errors import SidecarError
from sidecar.embedding.guarded import GuardedEmbedder
from sidecar.index.agent_index import AgentIndex
from sidecar.index.documents import LexicalLayout
from sidecar.service.embeddings import Embeddings
from sidecar.service.feeds import Feed
from sidecar.service.indexing import Indexer, Progress
from sidecar.service.offload import Offload
from sidecar.settings.model import EmbeddingSettings, WatchSettings

log = logging.getLogger(__name__)


class IndexedSource:
    """An index, its writer, watcher and vectors; `named` says in logs and task names whose they are."""

    def __init__(
        self,
        named: str,
        *,
        index: AgentIndex,
        watcher: Watcher,
        embeddings: Embeddings,
        indexer: Indexer,
        forget: Callable[[], None],
    ) -> None:
        self._named = named
        self._forget = forget
        self.index = index
        self.watcher = watcher
        self.embeddings = embeddings
        self.indexer = indexer

    @classmethod
    async def open(
        cls,
        named: str,
        directory: Path,
        *,
        agent_id: str,
        layout: LexicalLayout,
        corpus: Watchable,
        feed: Feed,
        forget: Callable[[], None],
        watch: WatchSettings,
        embeddings: EmbeddingSettings,
        embedder: GuardedEmbedder | None,
        offload: Offload,
    ) -> IndexedSource:
        """Open the index in `directory`, repairing what needs it; `forget` drops what is held of texts."""
        model = embedder.identity if embedder is not None else None
        index = await AgentIndex.open(
            directory, layout=layout, model=model, awaits_model=embedder is not None and model is None
        )
        for repair in index.repairs:
            log.warning("repaired: %s", repair, extra={"agent": agent_id, "source": named})
        watcher = Watcher(corpus, mode=watch.mode, poll_seconds=watch.poll_seconds)
        vectors = Embeddings(
            provider=embeddings.provider,
            embedder=embedder,
            index=index,
            on_failure=embeddings.on_failure,
        )
        indexer = Indexer(feed=feed, index=index, watcher=watcher, embeddings=vectors, offload=offload)
        return cls(named, index=index, watcher=watcher, embeddings=vectors, indexer=indexer, forget=forget)

    def start(self) -> list[asyncio.Task[None]]:
        """Begin to follow the source; the tasks are the caller's to end."""
        return [
            asyncio.create_task(self.indexer.run(), name=f"indexer of {self._named}"),
            asyncio.create_task(self.embeddings.run(), name=f"vectors of {self._named}"),
        ]

    async def refresh(
        self,
        *,
        rebuild: bool = False,
        purge: bool = False,
        vectors: bool = True,
        progress: Progress | None = None,
    ) -> None:
        """One scan to completion, with `vectors` also those of an endpoint unless it fails."""
        if rebuild:
            await self.indexer.rebuild(progress)
        else:
            await self.indexer.full_scan(progress)
        if purge:
            self._forget()
            await self.indexer.purge()
        await self.embeddings.catch_up(whole=vectors)

    async def close(self) -> None:
        """Close watcher and index, after the tasks have ended; what was published stays."""
        await self.watcher.close()
        try:
            await self.index.close()
        except SidecarError as error:
            log.warning("the index of %s did not close cleanly: %s", self._named, error.message)

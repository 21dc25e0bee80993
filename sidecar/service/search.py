"""Search from top to bottom: terms, one view, two legs, one score, windows proven against the disk (spec §7).

A search makes one hop off the event loop. It sees one generation from beginning to end, and every hit it
releases was checked against its file on the way out (spec §1.5).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Callable
from unicodedata import normalize

import msgspec
import numpy as np
from numpy.typing import NDArray

from sidecar.corpus.scan import Corpus
from sidecar.domain.memory import Hit, SearchRequest, Source
from sidecar.index.agent_index import AgentIndex
from sidecar.index.view import View
from sidecar.ranking.floor import Floor
from sidecar.ranking.fusion import fuse
from sidecar.ranking.parameters import DEFAULT, Parameters
from sidecar.service.descent import Descent
from sidecar.service.embeddings import Embeddings
from sidecar.service.filters import covered
from sidecar.service.hits import HitMaker
from sidecar.service.indexing import Indexer
from sidecar.service.legs import WeightedTerm, lexical_leg, vector_leg, weigh, weighted_words
from sidecar.service.offload import Offload
from sidecar.service.ordering import order
from sidecar.service.shelf import Shelf
from sidecar.service.showing import Windows
from sidecar.text.terms import QUERY_TERMS, query_terms

MOST_QUERY_CHARACTERS = 8192
HELD_SECONDS = 0.001
"""What a first page spends at most on reading files for its walk; hardly anything once they are kept."""


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, best first. `partial` says why some may be missing, `notices` what was done to the query.

    `rest` is what the next page comes from, where more was asked for and there is more.
    """

    hits: tuple[Hit, ...]
    partial: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    hybrid: bool = False
    embedding_provider: str = "none"
    rest: Descent | None = None


class _Walked(msgspec.Struct, frozen=True):
    """What one pass down the ranking gave: hits, files that changed, whether folders did, and the rest."""

    hits: tuple[Hit, ...]
    dropped: frozenset[str]
    moved: bool
    rest: Descent | None


class SearchService:
    """Searches one agent."""

    def __init__(
        self,
        *,
        hits: HitMaker,
        index: AgentIndex,
        corpus: Corpus,
        shelf: Shelf,
        indexer: Indexer,
        embeddings: Embeddings,
        offload: Offload,
        search_sources: tuple[Source, ...],
        today: Callable[[], datetime.date] = datetime.date.today,
        parameters: Parameters = DEFAULT,
    ) -> None:
        self._hits = hits
        self._index = index
        self._corpus = corpus
        self._shelf = shelf
        self._indexer = indexer
        self._embeddings = embeddings
        self._offload = offload
        self._search_sources = search_sources
        self._today = today
        self._parameters = parameters
        self._running = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    def sources(self, request: SearchRequest) -> tuple[Source, ...]:
        """The sources that a request covers."""
        return request.sources or self._search_sources

    async def quiet(self, most_seconds: float) -> None:
        """Wait until no search runs, but no longer than this."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_seconds):
                await self._quiet.wait()

    async def search(self, request: SearchRequest, floor: Floor, *, paged: bool = False) -> SearchResult:
        """The hits of a query that the floor keeps. No text is an error; mere signs find nothing.

        `paged` asks for the rest of the ranking too, should there be more hits than asked for.
        """
        self._running += 1
        self._quiet.clear()
        try:
            return await self._search(request, floor, paged)
        finally:
            self._running -= 1
            if not self._running:
                self._quiet.set()

    async def _search(self, request: SearchRequest, floor: Floor, paged: bool) -> SearchResult:
        # Normalised before it is cut: some single characters stand for a whole phrase.
        query = normalize("NFKC", request.query[:MOST_QUERY_CHARACTERS])[:MOST_QUERY_CHARACTERS]
        terms = query_terms(query)
        notices = []
        if len(request.query) > MOST_QUERY_CHARACTERS:
            notices.append(f"only the first {MOST_QUERY_CHARACTERS} characters of the query were used")
        if len(terms) >= QUERY_TERMS:
            notices.append(f"only {QUERY_TERMS} distinct terms of the query were used")
        partial = list(self._indexer.gaps())
        view = self._index.view()
        sources = self.sources(request)
        weighted = weigh(view, sources, terms)
        vector = None
        hybrid = self._embeddings.enabled and not request.lexical_only
        if hybrid and weighted:
            meaning = await self._embeddings.of_query(view, query, weighted_words(query, weighted))
            vector = meaning.vector
            hybrid = vector is not None
            partial += meaning.gaps
        walked = await self._offload.run(
            lambda: self._walk(view, sources, weighted, vector, request, floor, paged)
        )
        partial += self._noticed(walked)
        return SearchResult(
            hits=walked.hits,
            partial=tuple(dict.fromkeys(partial)),
            notices=tuple(notices),
            hybrid=hybrid,
            embedding_provider=self._embeddings.provider,
            rest=walked.rest,
        )

    def _noticed(self, walked: _Walked) -> list[str]:
        """What the search saw to be out of date is looked at again at once, and said."""
        if walked.moved:
            self._indexer.look_again(None)
        elif walked.dropped:
            self._indexer.look_again(walked.dropped)
        if walked.dropped:
            return [f"{len(walked.dropped)} files changed since they were indexed; their hits were left out"]
        return ["files came or went; they are being indexed"] if walked.moved else []

    def _walk(
        self,
        view: View,
        sources: tuple[Source, ...],
        terms: list[WeightedTerm],
        vector: NDArray[np.float32] | None,
        request: SearchRequest,
        floor: Floor,
        paged: bool,
    ) -> _Walked:
        descent = Descent(floor)
        moved = self._corpus.folders_changed(self._indexer.folders)
        only = covered(view, request.within)
        for source in sources if terms else ():
            words = lexical_leg(view, source, terms, self._parameters, only)
            blocks = vector_leg(view, vector, self._parameters, only)
            scored = fuse(words.units, words.passages, blocks, words.attainable, self._parameters)
            ranking = order(
                view,
                scored,
                query=request.query,
                today=self._today(),
                projects=request.active_project_keys,
                parameters=self._parameters,
            )
            windows = Windows(scored=scored, shelf=self._shelf, hits=self._hits, hybrid=vector is not None)
            descent.take(ranking, windows, request.max_results)
        hits, dropped = descent.hits, frozenset(descent.dropped)
        more = paged and len(hits) >= request.max_results and descent.has_more()
        if more:
            descent.park()
            descent.hold(HELD_SECONDS)
        return _Walked(hits, dropped, moved, descent if more else None)

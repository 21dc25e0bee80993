"""Search from top to bottom: terms, one view, two legs, one score, windows proven against the disk (spec §7).

A search makes one hop off the event loop. It sees one generation from beginning to end, and every hit it
releases was checked against its file on the way out (spec §1.5).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import numpy as np

from sidecar.corpus.scan import Corpus
from sidecar.domain.errors import Unavailable
from sidecar.domain.memory import Hit, SearchRequest, Source
from sidecar.embedding.contract import Embedder
from sidecar.index.agent_index import AgentIndex
from sidecar.index.view import View
from sidecar.ranking.floor import Floor
from sidecar.ranking.fusion import Scored, fuse
from sidecar.ranking.parameters import DEFAULT, Parameters
from sidecar.service.indexing import Indexer
from sidecar.service.legs import Legs, lexical_leg, vector_leg
from sidecar.service.offload import Offload
from sidecar.service.ordering import order
from sidecar.service.shelf import Shelf
from sidecar.service.showing import Shown, Window, show
from sidecar.text.terms import QueryTerm, query_terms

MOST_QUERY_CHARACTERS = 8192
MOST_QUERY_TERMS = 64


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, best first. `partial` says why some may be missing, `notices` what was done to the query."""

    hits: tuple[Hit, ...]
    partial: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    hybrid: bool = False
    embedding_provider: str = "none"


@dataclass
class _Walk:
    """What one search gathers while it walks down the ranking."""

    hits: list[Hit] = field(default_factory=list)
    dropped: set[str] = field(default_factory=set)


class SearchService:
    """Searches one agent."""

    def __init__(
        self,
        *,
        provider_id: str,
        index: AgentIndex,
        corpus: Corpus,
        shelf: Shelf,
        indexer: Indexer,
        embedder: Embedder | None,
        embedding_provider: str,
        offload: Offload,
        search_sources: tuple[Source, ...],
        today: Callable[[], datetime.date] = datetime.date.today,
        parameters: Parameters = DEFAULT,
    ) -> None:
        self._provider_id = provider_id
        self._index = index
        self._corpus = corpus
        self._shelf = shelf
        self._indexer = indexer
        self._embedder = embedder
        self._embedding_provider = embedding_provider
        self._offload = offload
        self._search_sources = search_sources
        self._today = today
        self._parameters = parameters

    async def search(self, request: SearchRequest, floor: Floor) -> SearchResult:
        """The hits of a query that the floor keeps; never an error for any text."""
        query = request.query[:MOST_QUERY_CHARACTERS]
        terms = query_terms(query)
        notices = []
        if len(query) < len(request.query):
            notices.append(f"only the first {MOST_QUERY_CHARACTERS} characters of the query were used")
        if len(terms) >= MOST_QUERY_TERMS:
            notices.append(f"only {MOST_QUERY_TERMS} distinct terms of the query were used")
        partial = list(self._indexer.gaps())
        vector = None
        if self._embedder is not None and not request.lexical_only and terms:
            try:
                vector = (await self._embedder.embed([query], "query"))[0]
            except Unavailable as error:
                partial.append(f"meaning was not searched: {error.message}")
        view = self._index.view()
        walk, moved = await self._offload.run(lambda: self._walk(view, request, terms, vector, floor))
        if walk.dropped:
            partial.append(f"{len(walk.dropped)} files changed since they were indexed; their hits were left out")
        if moved and not walk.dropped:
            partial.append("the folders changed; what is new is being indexed")
        if walk.dropped or moved:
            self._indexer.look_again(walk.dropped if not moved else None)
        return SearchResult(
            hits=tuple(walk.hits),
            partial=tuple(dict.fromkeys(partial)),
            notices=tuple(notices),
            hybrid=self._embedder is not None,
            embedding_provider=self._embedding_provider if self._embedder is not None else "none",
        )

    def _walk(
        self,
        view: View,
        request: SearchRequest,
        terms: list[QueryTerm],
        vector: np.ndarray | None,
        floor: Floor,
    ) -> tuple[_Walk, bool]:
        walk = _Walk()
        folders = self._indexer.folders
        moved = bool(folders) and self._corpus.folders_changed(folders)
        for source in request.sources or self._search_sources:
            scored = self._score(view, source, terms, vector)
            self._show(view, scored, request, floor, walk)
        return walk, moved

    def _score(
        self, view: View, source: Source, terms: list[QueryTerm], vector: np.ndarray | None
    ) -> Scored:
        words = lexical_leg(view, source, terms, self._parameters)
        blocks = vector_leg(view, source, vector, self._parameters)
        legs = Legs(words=words, blocks=blocks)
        return fuse(legs.words.units, legs.words.passages, legs.blocks, legs.words.attainable, self._parameters)

    def _show(
        self, view: View, scored: Scored, request: SearchRequest, floor: Floor, walk: _Walk
    ) -> None:
        ordered = order(
            view, scored, today=self._today(), projects=request.active_project_keys, parameters=self._parameters
        )
        windows = Window(view=view, scored=scored, shelf=self._shelf, provider_id=self._provider_id)
        best: float | None = None
        for ranked in ordered:
            if len(walk.hits) >= request.max_results:
                return
            if best is not None and not floor.keeps(ranked.score, ranked.text, best):
                continue
            shown = show(windows, ranked)
            if shown is Shown.STALE:
                walk.dropped.add(ranked.entry.path)
            elif isinstance(shown, Hit):
                if best is None:
                    best = ranked.score
                    if not floor.keeps(ranked.score, ranked.text, best):
                        return
                walk.hits.append(shown)

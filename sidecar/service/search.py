"""Search from top to bottom: terms, one view, two legs, one score, windows proven against the disk (spec §7).

A search makes one hop off the event loop. It sees one generation from beginning to end, and every hit it
releases was checked against its file on the way out (spec §1.5).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from unicodedata import normalize

import msgspec
import numpy as np
from numpy.typing import NDArray

from sidecar.corpus.scan import Corpus
from sidecar.domain.errors import Unavailable
from sidecar.domain.memory import Hit, SearchRequest, Source
from sidecar.embedding.contract import Embedder
from sidecar.index.agent_index import AgentIndex
from sidecar.index.view import View
from sidecar.ranking.collapse import LOOK_AHEAD, NEAR_SCORE, Collapse, Placed
from sidecar.ranking.floor import Floor
from sidecar.ranking.fusion import fuse
from sidecar.ranking.parameters import DEFAULT, Parameters
from sidecar.service.indexing import Indexer
from sidecar.service.legs import WeightedTerm, lexical_leg, vector_leg, weigh, weighted_words
from sidecar.service.offload import Offload
from sidecar.service.ordering import Ranked, order
from sidecar.service.shelf import Shelf
from sidecar.service.showing import NoHit, Windows
from sidecar.text.prepare import CURATED
from sidecar.text.terms import QUERY_TERMS, query_terms

MOST_QUERY_CHARACTERS = 8192


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Hits, best first. `partial` says why some may be missing, `notices` what was done to the query."""

    hits: tuple[Hit, ...]
    partial: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    hybrid: bool = False
    embedding_provider: str = "none"


class _Walked(msgspec.Struct, frozen=True):
    """What one pass down the ranking gave: hits, files that changed, and whether folders did."""

    hits: tuple[Hit, ...]
    dropped: frozenset[str]
    moved: bool


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
        """The hits of a query that the floor keeps. No text is an error; mere signs find nothing."""
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
        sources = request.sources or self._search_sources
        weighted = weigh(view, sources, terms)
        vector = None
        if self._embedder is not None and weighted and not request.lexical_only:
            try:
                vector = await self._embedder.embed_query(query, weighted_words(query, weighted))
            except Unavailable as error:
                partial.append(f"meaning was not searched: {error.message}")
        walked = await self._offload.run(lambda: self._walk(view, sources, weighted, vector, request, floor))
        partial += self._noticed(walked)
        return SearchResult(
            hits=walked.hits,
            partial=tuple(dict.fromkeys(partial)),
            notices=tuple(notices),
            hybrid=self._embedder is not None,
            embedding_provider=self._embedding_provider if self._embedder is not None else "none",
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
    ) -> _Walked:
        found = Collapse()
        dropped: set[str] = set()
        moved = self._corpus.folders_changed(self._indexer.folders)
        if not terms:
            return _Walked((), frozenset(), moved)
        for source in sources:
            words = lexical_leg(view, source, terms, self._parameters)
            blocks = vector_leg(view, vector, self._parameters)
            scored = fuse(words.units, words.passages, blocks, words.attainable, self._parameters)
            ranking = order(
                view,
                scored,
                query=request.query,
                today=self._today(),
                projects=request.active_project_keys,
                parameters=self._parameters,
            )
            windows = Windows(
                scored=scored,
                shelf=self._shelf,
                provider_id=self._provider_id,
                hybrid=vector is not None,
            )
            dropped |= _take(ranking, windows, floor, request.max_results, found)
        return _Walked(found.hits, frozenset(dropped), moved)


def _take(ranking: Iterator[Ranked], windows: Windows, floor: Floor, most: int, found: Collapse) -> set[str]:
    """Fill `found` from the ranking as far as the floor and `most` allow; gives the files that changed."""
    dropped: set[str] = set()
    best = last = 0.0
    ahead = LOOK_AHEAD
    for ranked in ranking:
        full = len(found) >= most
        if full:
            ahead -= 1
            if ahead < 0 or ranked.score < NEAR_SCORE * last:
                break
        elif not floor.keeps(len(found), ranked.score, ranked.text, best or ranked.score):
            if floor.final:
                break
            continue
        shown = windows.show(ranked)
        if shown is NoHit.STALE:
            dropped.add(ranked.entry.path)
        elif isinstance(shown, Hit):
            best = best or ranked.score
            last = ranked.score
            entry = ranked.entry
            found.add(Placed(shown, entry.path in CURATED, entry.day or 0), only_twins=full)
    return dropped

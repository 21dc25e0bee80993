"""Search from top to bottom: terms, one view, two legs, one score, windows proven against the disk (spec §7).

A search makes one hop off the event loop. It sees one generation from beginning to end, and every hit it
releases was checked against its file on the way out (spec §1.5).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Callable
from functools import partial
from unicodedata import normalize

import msgspec
import numpy as np
from numpy.typing import NDArray

from sidecar.corpus.scan import Corpus
from sidecar.domain.memory import Hit, SearchRequest, Source
from sidecar.domain.sessions import TranscriptAuthoriser
from sidecar.index.agent_index import AgentIndex
from sidecar.index.view import View
from sidecar.ranking.floor import Floor
from sidecar.ranking.parameters import DEFAULT, Parameters
from sidecar.service.blend import Blend
from sidecar.service.descent import Descent
from sidecar.service.embeddings import Embeddings
from sidecar.service.hits import HitMaker
from sidecar.service.indexing import Indexer
from sidecar.service.legs import QUERY_TERMS, WeightedTerm, weigh, weighted_words
from sidecar.service.note_search import NoteSearch
from sidecar.service.offload import Offload
from sidecar.service.session_search import SessionSearch, Visible
from sidecar.service.shelf import Shelf
from sidecar.service.timings import LegTimes
from sidecar.service.walks import Rest
from sidecar.text.counting import changed
from sidecar.text.terms import QueryTerm, TakenApart, query_terms

MOST_QUERY_CHARACTERS = 8192
IN_PLACE_CHARACTERS = 512
"""A longer query is taken apart in a thread: a paste takes many times what a question does."""
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
    rest: Rest | None = None


class _Seen(msgspec.Struct, frozen=True):
    """What was seen of a source to be out of date: files that changed, and whether some came or went."""

    source: Source
    dropped: frozenset[str]
    moved: bool


class _Walked(msgspec.Struct, frozen=True):
    """What one pass down the rankings gave: hits, what was seen of each source, and the rest."""

    hits: tuple[Hit, ...]
    seen: tuple[_Seen, ...]
    rest: Rest | None


class _Asked(msgspec.Struct, frozen=True):
    """A query, ready for one source: its terms as rare as they are there."""

    source: Source
    terms: list[WeightedTerm]
    visible: Visible | None = None


class _Understood(msgspec.Struct, frozen=True):
    """A query for each source that is searched, how many terms it has, and the words that make its vector."""

    of: list[_Asked]
    terms: int
    words: list[tuple[str, float]]


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
        sessions: SessionSearch | None = None,
        today: Callable[[], datetime.date] = datetime.date.today,
        parameters: Parameters = DEFAULT,
    ) -> None:
        self.legs = LegTimes()
        self._notes = NoteSearch(hits=hits, shelf=shelf, legs=self.legs)
        self._index = index
        self._corpus = corpus
        self._indexer = indexer
        self._embeddings = embeddings
        self._offload = offload
        self._search_sources = search_sources
        self._sessions = sessions
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

    async def search(
        self,
        request: SearchRequest,
        floor: Floor,
        *,
        paged: bool = False,
        transcripts: TranscriptAuthoriser | None = None,
    ) -> SearchResult:
        """The hits of a query that the floor keeps. No text is an error; mere signs find nothing.

        `paged` asks for the rest of the ranking too, should there be more hits than asked for. Without
        `transcripts` none of them is seen.
        """
        self._running += 1
        self._quiet.clear()
        try:
            return await self._search(request, floor, paged, transcripts)
        finally:
            self._running -= 1
            if not self._running:
                self._quiet.set()

    async def _search(
        self, request: SearchRequest, floor: Floor, paged: bool, transcripts: TranscriptAuthoriser | None
    ) -> SearchResult:
        # Normalised before it is cut: some single characters stand for a whole phrase.
        query = normalize("NFKC", request.query[:MOST_QUERY_CHARACTERS])[:MOST_QUERY_CHARACTERS]
        sources = self.sources(request)
        view = self._index.view()
        asked = await self._understood(view, sources, query, transcripts)
        notices = []
        if len(request.query) > MOST_QUERY_CHARACTERS:
            notices.append(f"only the first {MOST_QUERY_CHARACTERS} characters of the query were used")
        if asked.terms > QUERY_TERMS:
            notices.append(f"only {QUERY_TERMS} distinct terms of the query were used")
        gaps = list(self._indexer.gaps()) if "memory" in sources else []
        if "sessions" in sources and self._sessions is not None and transcripts is not None:
            gaps += self._sessions.gaps()
        vector = None
        hybrid = self._embeddings.enabled and not request.lexical_only
        if hybrid and asked.of and asked.terms:
            with self.legs.measured("embedding"):
                meaning = await self._embeddings.of_query(view, query, asked.words)
            vector = meaning.vector
            hybrid = vector is not None
            gaps += meaning.gaps
        walked = await self._offload.run(lambda: self._walk(view, asked.of, vector, request, floor, paged))
        for seen in walked.seen:
            gaps += self._noticed(seen)
        return SearchResult(
            hits=walked.hits,
            partial=tuple(dict.fromkeys(gaps)),
            notices=tuple(notices),
            hybrid=hybrid,
            embedding_provider=self._embeddings.provider,
            rest=walked.rest,
        )

    async def _understood(
        self, view: View, sources: tuple[Source, ...], query: str, transcripts: TranscriptAuthoriser | None
    ) -> _Understood:
        understand = partial(self._understand, view, sources, query, transcripts)
        if "sessions" in sources or len(query) > IN_PLACE_CHARACTERS:
            return await self._offload.run(understand)
        return understand()

    def _understand(
        self, view: View, sources: tuple[Source, ...], query: str, transcripts: TranscriptAuthoriser | None
    ) -> _Understood:
        apart = TakenApart()
        terms = query_terms(query, apart)
        asked: list[_Asked] = []
        for source in dict.fromkeys(sources):
            if source == "memory":
                asked.append(_Asked(source, weigh(view, ("memory",), terms)))
            elif self._sessions is not None and transcripts is not None:
                asked.append(_asked_of(self._sessions, transcripts, terms))
        # One vector serves both sources: they are embedded by the same model.
        words = weighted_words(query, asked[0].terms, apart) if asked else []
        return _Understood(asked, len(terms), words)

    def _noticed(self, seen: _Seen) -> list[str]:
        """What the search saw to be out of date is looked at again at once, and said."""
        if seen.source == "sessions":
            sessions = self._sessions
            return [] if sessions is None else sessions.noticed(seen.dropped, moved=seen.moved)
        if seen.moved:
            self._indexer.look_again(None)
        elif seen.dropped:
            self._indexer.look_again(seen.dropped)
        if seen.dropped:
            return [changed(len(seen.dropped), "file", "after being indexed")]
        return ["files came or went; they are being indexed"] if seen.moved else []

    def _walk(
        self,
        view: View,
        asked: list[_Asked],
        vector: NDArray[np.float32] | None,
        request: SearchRequest,
        floor: Floor,
        paged: bool,
    ) -> _Walked:
        descents: list[Descent] = []
        seen: list[_Seen] = []
        for each in asked:
            if each.visible is not None and request.within is not None:
                continue  # paths and days of notes say nothing of a transcript
            if each.visible is not None and self._sessions is not None:
                with self.legs.measured("transcripts"):
                    descent = self._sessions.descend(
                        each.visible,
                        each.terms,
                        vector,
                        request,
                        floor,
                        today=self._today(),
                        parameters=self._parameters,
                    )
                moved = self._sessions.moved()
            else:
                still = self._corpus.folders_still(self._indexer.folders)
                moved = still is None
                descent = self._notes.descend(
                    view,
                    each.terms,
                    vector,
                    request,
                    floor,
                    today=self._today(),
                    parameters=self._parameters,
                    still=still or frozenset(),
                )
            seen.append(_Seen(each.source, frozenset(descent.dropped), moved))
            descents.append(descent)
        rest: Rest = descents[0] if len(descents) == 1 else Blend(descents, request.max_results)
        hits = rest.hits
        more = paged and len(hits) >= request.max_results and rest.has_more()
        if more:
            rest.park()
            rest.hold(HELD_SECONDS)
        return _Walked(hits, tuple(seen), rest if more else None)


def _asked_of(sessions: SessionSearch, transcripts: TranscriptAuthoriser, terms: list[QueryTerm]) -> _Asked:
    visible = sessions.visible(transcripts)
    return _Asked("sessions", sessions.weigh(visible, terms), visible)

"""Pages: the first ranks, the others follow its walk with every text proven again (spec §5.1, Cursor)."""

from __future__ import annotations

import msgspec

from sidecar.corpus.scan import Corpus
from sidecar.domain.authority import CallerContext
from sidecar.domain.memory import Hit, Page, SearchRequest, Source
from sidecar.domain.sessions import TranscriptAuthoriser
from sidecar.index.agent_index import AgentIndex
from sidecar.ranking.floor import DefaultFloor, StrictFloor
from sidecar.service.cursors import CursorMint, Owner, binding, owner_of
from sidecar.service.hits import HitMaker
from sidecar.service.indexing import Indexer
from sidecar.service.offload import Offload
from sidecar.service.presence import Present
from sidecar.service.search import SearchService
from sidecar.service.session_reading import SessionReader
from sidecar.service.shelf import Shelf
from sidecar.service.walks import MOST_HITS, KeptHit, Walks
from sidecar.text.annotations import normalise_project_key
from sidecar.text.counting import changed


class Pager:
    """Answers searches of one agent page by page."""

    def __init__(
        self,
        *,
        search: SearchService,
        walks: Walks,
        hits: HitMaker,
        index: AgentIndex,
        indexer: Indexer,
        corpus: Corpus,
        shelf: Shelf,
        offload: Offload,
        sessions: SessionReader | None = None,
    ) -> None:
        self._search = search
        self._walks = walks
        self._hits = hits
        self._index = index
        self._indexer = indexer
        self._corpus = corpus
        self._shelf = shelf
        self._offload = offload
        self._sessions = sessions
        self._mint = CursorMint()

    def sources(self, request: SearchRequest) -> tuple[Source, ...]:
        """The sources that a request covers."""
        return self._search.sources(request)

    async def page(
        self, request: SearchRequest, context: CallerContext, transcripts: TranscriptAuthoriser | None = None
    ) -> Page:
        """The page that a request asks for; raises `CursorInvalid` and `CursorExpired`.

        `transcripts` is the caller's view of them now; without it none is seen.
        """
        bound_to = binding(context, request, self._search.sources(request))
        if request.cursor is None:
            return await self._first(request, bound_to, owner_of(context), transcripts)
        walk_id, position = self._mint.read(request.cursor, bound_to)
        return await self._following(request, bound_to, (walk_id, position), transcripts)

    async def _first(
        self,
        request: SearchRequest,
        bound_to: bytes,
        owner: Owner,
        transcripts: TranscriptAuthoriser | None,
    ) -> Page:
        floor = DefaultFloor() if request.min_score is None else StrictFloor(request.min_score)
        most = min(request.max_results, MOST_HITS)
        result = await self._search.search(
            msgspec.structs.replace(request, max_results=most),
            floor,
            paged=most < MOST_HITS,
            transcripts=transcripts,
        )
        cursor = None
        if result.rest is not None:
            walk_id = self._walks.begin(result.rest, result.partial, owner)
            cursor = self._mint.make(walk_id, most, bound_to)
        return Page(
            hits=result.hits,
            next_cursor=cursor,
            coverage="partial" if result.partial else "complete",
            warning="; ".join([*result.partial, *result.notices]) or None,
        )

    async def _following(
        self,
        request: SearchRequest,
        bound_to: bytes,
        at: tuple[bytes, int],
        transcripts: TranscriptAuthoriser | None,
    ) -> Page:
        walk_id, position = at
        walk = await self._walks.get(walk_id)
        begin = position - walk.first
        kept = walk.hits[begin : begin + request.max_results]
        present = Present(
            view=self._index.view(),
            shelf=self._shelf,
            corpus=self._corpus,
            hits=self._hits,
            projects=frozenset(map(normalise_project_key, request.active_project_keys or ())),
        )
        hits = await self._offload.run(
            lambda: tuple(
                hit for each in kept if (hit := self._again(each, present, transcripts)) is not None
            )
        )
        if present.unindexed:
            self._indexer.look_again(present.unindexed)
        lost = present.lost | walk.dropped
        partial = list(walk.partial)
        if lost:
            partial.append(changed(len(lost), "file", "after the search began"))
        following = begin + len(kept)
        more = following < len(walk.hits)
        return Page(
            hits=hits,
            next_cursor=self._mint.make(walk_id, walk.first + following, bound_to) if more else None,
            coverage="partial" if partial else "complete",
            warning="; ".join(partial) or None,
        )

    def _again(self, kept: KeptHit, present: Present, transcripts: TranscriptAuthoriser | None) -> Hit | None:
        if kept.source != "sessions":
            return present.hit(kept)
        if self._sessions is None:
            return None
        places = (kept.place, *kept.twins)
        found = [
            hit
            for place in places
            if (hit := self._sessions.again(place.path, place.where, place.revision, transcripts)) is not None
        ]
        if not found:
            return None
        citations = tuple(citation for hit in found for citation in hit.citations)
        return msgspec.structs.replace(found[0], score=kept.score, parts=kept.parts, citations=citations)

    async def close(self) -> None:
        """Forget every walk; cursors are expired from then on."""
        await self._walks.close()

"""Where a line stands among the results of a query: the last step of every explanation."""

from __future__ import annotations

import msgspec

from sidecar.domain.memory import Hit, NoteFilter, SearchRequest, Source
from sidecar.domain.sessions import TranscriptAuthoriser
from sidecar.domain.why import Why, WhyRequest
from sidecar.ranking.floor import DefaultFloor, Floor, StrictFloor
from sidecar.service.search import SearchService
from sidecar.text.globs import exactly

PAGE = 50
"""The most that a caller gets in one page."""
WALK = 200
"""The most that a caller gets in all pages."""

_EVERYTHING = StrictFloor(0.0)


class Ranks:
    """The results of one source, as `transcripts` lets see them."""

    def __init__(
        self, search: SearchService, source: Source, transcripts: TranscriptAuthoriser | None = None
    ) -> None:
        self._search = search
        self._source = source
        self._transcripts = transcripts

    async def of(self, asked: WhyRequest) -> Why:
        """Whether the line is found, and at which place; else what it lacks."""
        shown = await self._hits(asked, DefaultFloor())
        best = shown[0].score if shown else None
        for rank, hit in enumerate(shown, 1):
            if _covers(hit, asked):
                return self._found(asked, rank, hit, best)
        every = await self._hits(asked, _EVERYTHING)
        best = every[0].score if every else None
        for rank, hit in enumerate(every, 1):
            if _covers(hit, asked):
                return self._below(asked, rank, hit, best)
        if self._source == "memory":
            for hit in await self._hits(asked, _EVERYTHING, within=NoteFilter(path=exactly(asked.path))):
                if _covers(hit, asked):
                    return self._below(asked, None, hit, best)
        return verdict(
            asked, "no-match", "it has none of the words of the query and is not close to it in meaning",
            "ask in words that stand there" + (
                ", or write the missing ones into the note" if self._source == "memory" else ""
            ), best=best,
        )  # fmt: skip

    async def _hits(
        self, asked: WhyRequest, floor: Floor, within: NoteFilter | None = None
    ) -> tuple[Hit, ...]:
        request = SearchRequest(
            query=asked.query,
            max_results=WALK,
            sources=(self._source,),
            active_project_keys=asked.active_project_keys,
            within=within,
        )
        return (await self._search.search(request, floor, transcripts=self._transcripts)).hits

    def _found(self, asked: WhyRequest, rank: int, hit: Hit, best: float | None) -> Why:
        place = hit.citations[0].label if hit.citations else hit.reference.id
        action = None
        if self._source not in self._search.sources(SearchRequest(query=asked.query)):
            action = f"search with --source {self._source}"
        elif rank > PAGE:
            action = f"page on: it stands behind the first {PAGE} results"
        return verdict(
            asked, "found", f"it is result {rank}, shown as {place}", action,
            rank=rank, score=hit.score, best=best,
        )  # fmt: skip

    def _below(self, asked: WhyRequest, rank: int | None, hit: Hit, best: float | None) -> Why:
        score = hit.score or 0.0
        if rank is None:
            reason = f"more than {WALK} others come before it"
            action = self._narrower(asked)
        elif not hit.parts.text:
            reason = f"it shares no word with the query and is weak in meaning ({score:.3f})"
            action = "ask in words that stand there"
        else:
            reason = (
                f"it would be result {rank}, but is too weak beside the best ({score:.3f} to {best or 0:.3f})"
            )
            action = f"ask with --min-score {max(0.0, score - 0.001):.3f} --max-results {min(PAGE, rank)}"
            if rank > PAGE:
                action = self._narrower(asked)
        return verdict(asked, "below-cut", reason, action, rank=rank, score=hit.score, best=best)

    def _narrower(self, asked: WhyRequest) -> str:
        if self._source == "memory":
            return f"narrow the search: --path '{exactly(asked.path)}'"
        return "ask in more of the words that stand there"


def _covers(hit: Hit, asked: WhyRequest) -> bool:
    places = [(hit.path, hit.lines.start, hit.lines.end)] if hit.lines is not None else []
    for citation in hit.citations:
        if citation.reference is not None and citation.start_line and citation.end_line:
            places.append((citation.reference.id, citation.start_line, citation.end_line))
    return any(
        path == asked.path and (asked.line is None or first <= asked.line <= last)
        for path, first, last in places
    )


def verdict(asked: WhyRequest, verdict: str, reason: str, action: str | None = None, **more: object) -> Why:
    """One verdict; `more` are further fields of it."""
    fields = {"path": asked.path, "line": asked.line, "verdict": verdict, "reason": reason, "action": action}
    return msgspec.convert({**fields, **more}, Why)

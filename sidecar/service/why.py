"""Why a line is not found, or where it ranks: the way of a search, asked of one line (spec §2).

File, line, visibility, rank: the first step that the line does not pass is the answer.
"""

from __future__ import annotations

import msgspec

from sidecar.corpus import rules
from sidecar.corpus.scan import Corpus
from sidecar.domain.corpus import Annotations, Skipped, SourceFile
from sidecar.domain.errors import CorpusError
from sidecar.domain.memory import Hit, NoteFilter, SearchRequest
from sidecar.domain.why import Why, WhyRequest
from sidecar.index.agent_index import AgentIndex
from sidecar.index.entries import DocumentEntry
from sidecar.ranking.floor import DefaultFloor, Floor, StrictFloor
from sidecar.service.advice import remedy
from sidecar.service.indexing import Indexer
from sidecar.service.offload import Offload
from sidecar.service.search import SearchService
from sidecar.service.shelf import Shelf
from sidecar.text.annotations import normalise_project_key
from sidecar.text.counting import counted
from sidecar.text.globs import exactly

PAGE = 50
"""The most that a caller gets in one page."""
WALK = 200
"""The most that a caller gets in all pages."""

_EVERYTHING = StrictFloor(0.0)


class WhyService:
    """Explains one agent's notes."""

    def __init__(
        self,
        *,
        corpus: Corpus,
        index: AgentIndex,
        indexer: Indexer,
        search: SearchService,
        shelf: Shelf,
        offload: Offload,
    ) -> None:
        self._corpus = corpus
        self._index = index
        self._indexer = indexer
        self._search = search
        self._shelf = shelf
        self._offload = offload

    async def why(self, asked: WhyRequest) -> Why:
        """The verdict on a path, or on one line of it, for a query."""
        known = await self._offload.run(lambda: self._corpus.look(asked.path))
        if not isinstance(known, SourceFile):
            return self._not_in_corpus(asked, known)
        asked = msgspec.structs.replace(asked, path=known.path)
        entry = self._index.view().paths.get(known.path)
        lines = None if entry is None else await self._offload.run(lambda: self._shelf.lines(entry))
        if entry is None or lines is None:
            return await self._not_indexed_yet(asked)
        if asked.line is not None and asked.line > len(lines):
            reason = f"the note has {counted(len(lines), 'line')}"
            return _verdict(asked, "no-such-line", reason, "correct the line")
        hidden = _hidden(asked, entry)
        return hidden or await self._ranked(asked)

    def _not_in_corpus(self, asked: WhyRequest, skipped: Skipped | None) -> Why:
        if asked.path.startswith("sessions/") and not asked.path.endswith(".md"):
            return _verdict(
                asked, "not-indexed", "it names a transcript, and only notes are explained",
                "search with --source sessions",
            )  # fmt: skip
        above = self._passed_over(asked.path)
        known = skipped or above
        if known is None:
            reason = self._corpus.why_absent(asked.path)
            return _verdict(asked, "not-indexed", _SPOKEN.get(reason, reason), remedy(reason))
        if known.reason == rules.DUPLICATE:
            return _verdict(asked, "not-indexed", f"duplicate: {known.hint}", "ask about that name")
        hint = known.hint if above is None or known.hint is not None else above.hint
        spoken = _SPOKEN.get(known.reason, known.reason)
        return _verdict(asked, "not-indexed", spoken, remedy(known.reason, hint))

    def _passed_over(self, path: str) -> Skipped | None:
        """What the last scan left out that the path names or lies below."""
        scan = self._indexer.last_scan
        for item in scan.skipped if scan is not None else ():
            if path == item.path or path.startswith(f"{item.path}/"):
                return item
        return None

    async def _not_indexed_yet(self, asked: WhyRequest) -> Why:
        skipped = self._indexer.skipped_reads.get(asked.path)
        if skipped is not None:
            return _verdict(asked, "not-indexed", skipped.reason, remedy(skipped.reason, skipped.hint))
        try:
            await self._offload.run(lambda: self._corpus.read(asked.path, max_bytes=1))
        except CorpusError as error:
            return _verdict(asked, "not-indexed", error.reason, remedy(error.reason))
        self._indexer.look_again({asked.path})
        reason = "; ".join(self._indexer.gaps()) or "it changed a moment ago and is being indexed"
        return _verdict(asked, "not-indexed-yet", reason, "ask again in a moment")

    async def _ranked(self, asked: WhyRequest) -> Why:
        shown = await self._hits(asked, DefaultFloor())
        best = shown[0].score if shown else None
        for rank, hit in enumerate(shown, 1):
            if _covers(hit, asked):
                return self._found(asked, rank, hit, best)
        every = await self._hits(asked, _EVERYTHING)
        best = every[0].score if every else None
        for rank, hit in enumerate(every, 1):
            if _covers(hit, asked):
                return _below(asked, rank, hit, best)
        for hit in await self._hits(asked, _EVERYTHING, within=NoteFilter(path=exactly(asked.path))):
            if _covers(hit, asked):
                return _below(asked, None, hit, best)
        return _verdict(
            asked, "no-match", "it has none of the words of the query and is not close to it in meaning",
            "ask in words that stand there, or write the missing ones into the note", best=best,
        )  # fmt: skip

    def _found(self, asked: WhyRequest, rank: int, hit: Hit, best: float | None) -> Why:
        place = hit.citations[0].label if hit.citations else hit.reference.id
        action = None
        if rank > PAGE:
            action = f"page on: it stands behind the first {PAGE} results"
        return _verdict(
            asked, "found", f"it is result {rank}, shown as {place}", action,
            rank=rank, score=hit.score, best=best,
        )  # fmt: skip

    async def _hits(
        self, asked: WhyRequest, floor: Floor, within: NoteFilter | None = None
    ) -> tuple[Hit, ...]:
        request = SearchRequest(
            query=asked.query,
            max_results=WALK,
            sources=("memory",),
            active_project_keys=asked.active_project_keys,
            within=within,
        )
        return (await self._search.search(request, floor)).hits


_SPOKEN = {
    "outside": "it is not among the places that are read: MEMORY.md, USER.md, memory/ and extra_paths",
    "pattern": "the pattern of its extra path does not fit it",
    "missing": "there is no such file",
    "excluded": "a pattern in exclude fits it",
    "link": "it is a link or lies behind one",
}


def _hidden(asked: WhyRequest, entry: DocumentEntry) -> Why | None:
    """What the line's own annotations keep it from."""
    marked = [] if asked.line is None else [
        entry.units.annotations(ordinal) for ordinal in entry.units.between(asked.line, asked.line)
    ]  # fmt: skip
    if asked.line is not None and not marked:
        return _verdict(
            asked, "no-such-line", "nothing to find stands in that line", "name a line that has words"
        )
    if any(each.malformed for each in marked):
        return _verdict(
            asked, "hidden", "its project annotation is malformed, so it is in no result",
            "write it as <!-- project: host/path -->",
        )  # fmt: skip
    keys = _keys(marked)
    active = frozenset(map(normalise_project_key, asked.active_project_keys or ()))
    if active and not active.issuperset(keys):
        return _verdict(
            asked, "other-project", "it belongs to a project that is not active", "search with its keys",
            project_keys=keys,
        )  # fmt: skip
    return None


def _keys(marked: list[Annotations]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for each in marked for key in each.project_keys))


def _covers(hit: Hit, asked: WhyRequest) -> bool:
    places = [(hit.path, hit.lines.start, hit.lines.end)] if hit.lines is not None else []
    for citation in hit.citations:
        if citation.reference is not None and citation.start_line and citation.end_line:
            places.append((citation.reference.id, citation.start_line, citation.end_line))
    return any(
        path == asked.path and (asked.line is None or first <= asked.line <= last)
        for path, first, last in places
    )


def _below(asked: WhyRequest, rank: int | None, hit: Hit, best: float | None) -> Why:
    score = hit.score or 0.0
    if rank is None:
        reason = f"more than {WALK} others come before it"
        action = f"narrow the search: --path '{exactly(asked.path)}'"
    elif not hit.parts.text:
        reason = f"it shares no word with the query and is weak in meaning ({score:.3f})"
        action = "ask in words that stand there"
    else:
        reason = (
            f"it would be result {rank}, but is too weak beside the best ({score:.3f} to {best or 0:.3f})"
        )
        action = f"ask with --min-score {max(0.0, score - 0.001):.3f} --max-results {min(PAGE, rank)}"
        if rank > PAGE:
            action = f"narrow the search: --path '{exactly(asked.path)}'"
    return _verdict(asked, "below-cut", reason, action, rank=rank, score=hit.score, best=best)


def _verdict(asked: WhyRequest, verdict: str, reason: str, action: str | None = None, **more: object) -> Why:
    fields = {"path": asked.path, "line": asked.line, "verdict": verdict, "reason": reason, "action": action}
    return msgspec.convert({**fields, **more}, Why)

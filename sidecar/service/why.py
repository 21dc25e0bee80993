"""Why a line is not found, or where it ranks: the way of a search, asked of one line (spec §2).

File, line, visibility, rank: the first step that the line does not pass is the answer.
"""

from __future__ import annotations

import msgspec

from sidecar.corpus import rules
from sidecar.corpus.scan import Corpus
from sidecar.domain.corpus import Annotations, Skipped, SourceFile
from sidecar.domain.errors import CorpusError
from sidecar.domain.why import Why, WhyRequest
from sidecar.index.agent_index import AgentIndex
from sidecar.index.entries import DocumentEntry
from sidecar.service.advice import remedy
from sidecar.service.indexing import Indexer
from sidecar.service.offload import Offload
from sidecar.service.search import SearchService
from sidecar.service.shelf import Shelf
from sidecar.service.why_ranks import Ranks, verdict
from sidecar.text.annotations import normalise_project_key
from sidecar.text.counting import counted


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
        self._ranks = Ranks(search, "memory")
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
            return verdict(asked, "no-such-line", reason, "correct the line")
        hidden = _hidden(asked, entry)
        return hidden or await self._ranks.of(asked)

    def _not_in_corpus(self, asked: WhyRequest, skipped: Skipped | None) -> Why:
        above = self._passed_over(asked.path)
        known = skipped or above
        if known is None:
            reason = self._corpus.why_absent(asked.path)
            return verdict(asked, "not-indexed", _SPOKEN.get(reason, reason), remedy(reason))
        if known.reason == rules.DUPLICATE:
            return verdict(asked, "not-indexed", f"duplicate: {known.hint}", "ask about that name")
        hint = known.hint if above is None or known.hint is not None else above.hint
        spoken = _SPOKEN.get(known.reason, known.reason)
        return verdict(asked, "not-indexed", spoken, remedy(known.reason, hint))

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
            return verdict(asked, "not-indexed", skipped.reason, remedy(skipped.reason, skipped.hint))
        try:
            await self._offload.run(lambda: self._corpus.read(asked.path, max_bytes=1))
        except CorpusError as error:
            return verdict(asked, "not-indexed", error.reason, remedy(error.reason))
        self._indexer.look_again({asked.path})
        reason = "; ".join(self._indexer.gaps()) or "it changed a moment ago and is being indexed"
        return verdict(asked, "not-indexed-yet", reason, "ask again in a moment")


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
        return verdict(
            asked, "no-such-line", "nothing to find stands in that line", "name a line that has words"
        )
    if any(each.malformed for each in marked):
        return verdict(
            asked, "hidden", "its project annotation is malformed, so it is in no result",
            "write it as <!-- project: host/path -->",
        )  # fmt: skip
    keys = _keys(marked)
    active = frozenset(map(normalise_project_key, asked.active_project_keys or ()))
    if active and not active.issuperset(keys):
        return verdict(
            asked, "other-project", "it belongs to a project that is not active", "search with its keys",
            project_keys=keys,
        )  # fmt: skip
    return None


def _keys(marked: list[Annotations]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for each in marked for key in each.project_keys))

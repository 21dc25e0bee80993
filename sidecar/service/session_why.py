"""Why a line of a transcript is found by a query, or is not: a search, asked of one line (spec §2).

What the caller may not see is answered as if it were not there.
"""

from __future__ import annotations

from sidecar.domain.sessions import TranscriptAuthoriser
from sidecar.domain.why import Why, WhyRequest
from sidecar.index.agent_index import AgentIndex
from sidecar.service.advice import remedy
from sidecar.service.indexing import Indexer
from sidecar.service.offload import Offload
from sidecar.service.search import SearchService
from sidecar.service.session_shelf import SessionShelf
from sidecar.service.transcript_documents import facts_of
from sidecar.service.transcript_feed import TranscriptFeed
from sidecar.service.why_ranks import Ranks, verdict
from sidecar.text.transcript_names import identity_of


class SessionWhy:
    """Explains one agent's transcripts."""

    def __init__(
        self,
        *,
        index: AgentIndex,
        indexer: Indexer,
        feed: TranscriptFeed,
        shelf: SessionShelf,
        search: SearchService,
        offload: Offload,
    ) -> None:
        self._index = index
        self._indexer = indexer
        self._feed = feed
        self._shelf = shelf
        self._search = search
        self._offload = offload

    async def why(self, asked: WhyRequest, transcripts: TranscriptAuthoriser | None) -> Why:
        """The verdict on a transcript, or on one physical line of it, for a query."""
        known = self._feed.transcripts(self._index.view()).get(asked.path)
        identity = identity_of(asked.path)
        if known is None:
            return self._unknown(asked)
        grant = None if identity is None or transcripts is None else transcripts.grant(
            identity, reset_cutoff=known.reset
        )  # fmt: skip
        if grant is None or not grant.allowed:
            return self._absent(asked)
        if known.dropped is not None:
            kind = known.dropped.removeprefix("store-")
            return verdict(asked, "not-indexed", f"no conversation made it ({kind}), so it is not remembered")
        chunks = [
            entry
            for entry in known.chunks
            if grant.before_line is None or facts_of(entry).last_line < grant.before_line
        ]
        if asked.line is not None:
            line, last = asked.line, max((facts_of(entry).last_line for entry in chunks), default=0)
            if line > last:
                return verdict(
                    asked, "no-such-line", f"the last line that can be found is {last}", "correct the line"
                )
            said = await self._offload.run(
                lambda: any(
                    record.line == line
                    for entry in chunks
                    if facts_of(entry).start.line <= line <= facts_of(entry).last_line
                    for record in self._shelf.records(entry) or ()
                )
            )
            if not said:
                return verdict(
                    asked, "no-such-line",
                    "neither the user nor the assistant says anything in that line",
                    "name a line of a message",
                )  # fmt: skip
        return await Ranks(self._search, "sessions", transcripts).of(asked)

    def _unknown(self, asked: WhyRequest) -> Why:
        scan = self._indexer.last_scan
        skipped = [*(scan.skipped if scan else ()), *self._indexer.skipped_reads.values()]
        for item in skipped:
            if item.path == asked.path:
                return verdict(asked, "not-indexed", item.reason, remedy(item.reason, item.hint))
        waiting = "; ".join(self._indexer.gaps())
        if waiting:
            return verdict(asked, "not-indexed-yet", waiting, "ask again in a moment")
        return self._absent(asked)

    def _absent(self, asked: WhyRequest) -> Why:
        return verdict(
            asked, "not-indexed", "there is no such transcript", "correct the path, or see status --json"
        )

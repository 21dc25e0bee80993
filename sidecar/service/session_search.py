"""Search over transcripts: as over notes, but every number of it is made from what the caller may see.

Hidden chunks are left out inside both legs. Rarity and length of text are counted over the visible ones, and
a piece's own score is the sum over the words that it holds, so what is hidden shapes neither order nor score.
(Beyond 40,000 blocks the vector graph is an approximation that hidden blocks take part in.)
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from sidecar.corpus.transcripts import TranscriptCorpus
from sidecar.domain.memory import SearchRequest
from sidecar.domain.sessions import TranscriptAuthoriser
from sidecar.index.agent_index import AgentIndex
from sidecar.index.entries import DocumentEntry
from sidecar.index.view import View
from sidecar.ranking.floor import Floor
from sidecar.ranking.fusion import FoundUnits, best_attainable, fuse
from sidecar.ranking.parameters import K1, B, Parameters
from sidecar.ranking.spread import Spans
from sidecar.service.descent import Descent
from sidecar.service.documents import PASSAGE_FIELD, UNIT_FIELD
from sidecar.service.indexing import Indexer
from sidecar.service.legs import WeightedTerm, Words, most_telling, vector_leg
from sidecar.service.ordering import order
from sidecar.service.query_words import QueryWords
from sidecar.service.session_shelf import SessionShelf
from sidecar.service.session_windows import SessionWindows
from sidecar.service.transcript_documents import facts_of, transcript_of
from sidecar.service.transcript_feed import TranscriptFeed
from sidecar.text.counting import changed
from sidecar.text.terms import QueryTerm
from sidecar.text.transcript_names import identity_of

CANDIDATES = 2000
"""Pieces asked of the engine, before their length is counted in."""

COUNTED = 512
"""Terms of a query that are counted among the visible pieces."""


class Visible(msgspec.Struct, frozen=True, kw_only=True):
    """The chunks that a caller may see; `only` is None when that is all of them."""

    view: View
    only: frozenset[int] | None
    units: int
    terms: int

    def may_see(self, document_id: int) -> bool:
        """Whether a chunk is among them."""
        return self.only is None or document_id in self.only


class SessionSearch:
    """Searches the transcripts of one agent. All methods but `gaps` and `noticed` block."""

    def __init__(
        self,
        *,
        provider_id: str,
        index: AgentIndex,
        corpus: TranscriptCorpus,
        feed: TranscriptFeed,
        shelf: SessionShelf,
        indexer: Indexer,
    ) -> None:
        self._provider_id = provider_id
        self._index = index
        self._corpus = corpus
        self._feed = feed
        self._shelf = shelf
        self._indexer = indexer

    def gaps(self) -> tuple[str, ...]:
        """Why an answer may miss something just now."""
        return tuple(f"transcripts: {gap}" for gap in self._indexer.gaps())

    def noticed(self, dropped: Collection[str], *, moved: bool) -> list[str]:
        """What a search saw to be out of date is looked at again at once, and said.

        That transcripts came or went is not said: it would tell of those that the caller may not see.
        """
        stale = {transcript_of(path) for path in dropped}
        if moved:
            self._indexer.look_again(None)
        if stale:
            self._indexer.look_again(stale)
            return [changed(len(stale), "transcript", "after being indexed")]
        return []

    def moved(self) -> bool:
        """Whether transcripts came or went since they were indexed."""
        return self._corpus.names_differ(self._feed.known(self._index.view()))

    def visible(self, authoriser: TranscriptAuthoriser) -> Visible:
        """The chunks of now that a caller may see, asked once for each transcript."""
        view = self._index.view()
        seen: list[DocumentEntry] = []
        for path, known in self._feed.transcripts(view).items():
            identity = identity_of(path)
            if identity is None or known.dropped is not None:
                continue
            grant = authoriser.grant(identity, reset_cutoff=known.reset)
            if grant.allowed:
                before = grant.before_line
                seen += [
                    entry for entry in known.chunks if before is None or facts_of(entry).last_line < before
                ]
        only = frozenset(entry.document_id for entry in seen)
        return Visible(
            view=view,
            only=None if len(only) == len(view.documents) else only,
            units=sum(entry.searchable_units for entry in seen),
            terms=sum(entry.term_count for entry in seen),
        )

    def weigh(self, visible: Visible, terms: Sequence[QueryTerm]) -> list[WeightedTerm]:
        """The terms with their rarity among the visible pieces, as `legs.weigh`.

        Counting visible pieces is a search by itself, so that of a long paste only the `COUNTED` heaviest
        terms are looked at.
        """
        units = visible.view.lexicon("sessions").units
        if len(terms) > COUNTED:
            terms = sorted(terms, key=lambda term: -term.weight)[:COUNTED]
        held_by = [units.count_matching(UNIT_FIELD, term.term, visible.only) for term in terms]
        return most_telling(terms, held_by, visible.units)

    def descend(
        self,
        visible: Visible,
        terms: Sequence[WeightedTerm],
        vector: NDArray[np.float32] | None,
        request: SearchRequest,
        floor: Floor,
        *,
        today: datetime.date,
        parameters: Parameters,
    ) -> Descent:
        """The hits that the floor keeps, best first, taken to `request.max_results`."""
        descent = Descent(floor, demoted=parameters.near_equal, words=QueryWords(terms))
        if not terms or not visible.units:
            return descent
        words = _lexical_leg(visible, terms, parameters)
        blocks = vector_leg(visible.view, vector, parameters, visible.only)
        scored = fuse(words.units, words.passages, blocks, words.attainable, parameters)
        ranking = order(
            visible.view,
            scored,
            query=request.query,
            today=today,
            projects=None,
            parameters=parameters,
        )
        windows = SessionWindows(
            scored=scored,
            shelf=self._shelf,
            provider_id=self._provider_id,
            hybrid=vector is not None,
            reach=parameters.window_reach,
        )
        seen = (ranked for ranked in ranking if visible.may_see(ranked.entry.document_id))
        descent.take(seen, windows, request.max_results)
        return descent


def _lexical_leg(visible: Visible, terms: Sequence[WeightedTerm], parameters: Parameters) -> Words:
    lexicon = visible.view.lexicon("sessions")
    asked = [(weighted.term.term, weighted.weight) for weighted in terms if weighted.weight > 0]
    spread = parameters.spread
    found = lexicon.units.matching(
        [(UNIT_FIELD, *term) for term in asked], CANDIDATES, visible.only, spread=spread
    )
    around = lexicon.passages.matching(
        [(PASSAGE_FIELD, *term) for term in asked], parameters.passages, visible.only, spread=spread
    )
    mean = visible.terms / max(1, visible.units)
    # The engine's own form of BM25, which `fuse` expects, with each word counted once.
    length = 1 + K1 * (1 - B + B * found.sizes.astype(np.float32) / max(mean, 1e-9))
    scores = np.asarray(found.scores * np.float32(K1 + 1) / length, np.float32)
    return Words(
        units=FoundUnits(found.keys.astype(np.int64), scores, found.sizes, mean),
        passages=Spans(around.keys.astype(np.int64), around.sizes, around.scores),
        attainable=best_attainable(weighted.weight for weighted in terms),
    )

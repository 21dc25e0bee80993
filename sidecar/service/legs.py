"""The two legs of a search: words by Tantivy, meaning by vectors, both over one view of one source."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import nlargest
from operator import itemgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from sidecar.domain.memory import Source
from sidecar.index.documents import ORDINAL_BITS
from sidecar.index.view import View
from sidecar.ranking.fusion import FoundUnits, best_attainable, idf
from sidecar.ranking.parameters import Parameters
from sidecar.ranking.spread import NO_SPANS, Spans
from sidecar.service.documents import PASSAGE_FIELD, UNIT_FIELD
from sidecar.text.terms import QueryTerm, TakenApart

QUERY_TERMS = 64
"""Most distinct terms of one query (spec §3)."""

VECTOR_WORDS = 32
"""Most words of one query that make its vector; further ones hardly turn a mean of so many."""

_SIGNS = "'\"`.,;:!?()[]{}<>*_~"


class WeightedTerm(msgspec.Struct, frozen=True):
    """A query term with what it weighs in this corpus: its own weight times its rarity; `held_by` units."""

    term: QueryTerm
    rarity: float
    held_by: int

    @property
    def weight(self) -> float:
        """What a unit that says it can gain, in units of `k1 + 1`."""
        return self.term.weight * self.rarity


class Words(msgspec.Struct, frozen=True):
    """What the lexical leg found; `attainable` is the scale that makes scores comparable across queries."""

    units: FoundUnits
    passages: Spans
    attainable: float


def weigh(view: View, sources: Sequence[Source], terms: Sequence[QueryTerm]) -> list[WeightedTerm]:
    """The terms with their rarity among the units of the first source (memory, where it is searched).

    Of more than `QUERY_TERMS` those stay that tell most, from wherever they stand in the query.
    """
    units = view.lexicon(sources[0]).units
    return most_telling(
        terms, [units.document_frequency(UNIT_FIELD, term.term) for term in terms], units.count
    )


def most_telling(terms: Sequence[QueryTerm], held_by: Sequence[int], count: int) -> list[WeightedTerm]:
    """The terms with their rarity, given how many of `count` units hold each; at most `QUERY_TERMS`.

    Of more, the heaviest of those that some unit holds come first, so that a long paste finds what any of
    its words finds.
    """
    weighted = [WeightedTerm(term, idf(held, count), held) for term, held in zip(terms, held_by, strict=True)]
    if len(weighted) <= QUERY_TERMS:
        return weighted
    order = sorted(range(len(weighted)), key=lambda at: (held_by[at] > 0, weighted[at].weight), reverse=True)
    return [weighted[at] for at in sorted(order[:QUERY_TERMS])]


def weighted_words(
    query: str, terms: Sequence[WeightedTerm], apart: TakenApart | None = None
) -> list[tuple[str, float]]:
    """The words of a query as they are written, each with the weight of its heaviest term.

    Words without a term (stop words) are left out: a static model that averages words would drown in them. So
    are, of a paste, all but the heaviest `VECTOR_WORDS`.
    """
    apart = TakenApart() if apart is None else apart
    weights = {weighted.term.term: weighted.weight for weighted in terms}
    words: dict[str, float] = {}
    for token in query.split():
        found = [weights[term] for term in apart.index_terms(token) if term in weights]
        word = token.strip(_SIGNS)
        if found and word:
            words[word] = max(found)
    if len(words) > VECTOR_WORDS:
        words = dict(nlargest(VECTOR_WORDS, words.items(), key=itemgetter(1)))
    return list(words.items())


def lexical_leg(
    view: View,
    source: Source,
    terms: Sequence[WeightedTerm],
    parameters: Parameters,
    only: Collection[int] | None = None,
) -> Words:
    """Units and passages that hold any of the terms, of the documents `only` where given."""
    lexicon = view.lexicon(source)
    asked = [(weighted.term.term, weighted.term.weight) for weighted in terms]
    found = lexicon.units.search(
        [(UNIT_FIELD, *term) for term in asked], parameters.candidates, only, spread=parameters.spread
    )
    around = lexicon.passages.search(
        [(PASSAGE_FIELD, *term) for term in asked], parameters.passages, only, spread=parameters.spread
    )
    return Words(
        units=FoundUnits(
            found.keys.astype(np.int64), found.scores, found.sizes, view.mean_unit_terms(source)
        ),
        passages=Spans(around.keys.astype(np.int64), around.sizes, around.scores),
        attainable=best_attainable(weighted.weight for weighted in terms),
    )


def vector_leg(
    view: View,
    vector: NDArray[np.float32] | None,
    parameters: Parameters,
    only: Collection[int] | None = None,
) -> Spans:
    """The blocks nearest by meaning, of the documents `only` where given; none without a vector."""
    if vector is None:
        return NO_SPANS
    snapshot = view.vectors
    if snapshot is None:
        return NO_SPANS
    rows, cosines = snapshot.search(vector, parameters.blocks, only)
    first = snapshot.first_unit[rows]
    return Spans(
        (snapshot.document_id[rows] << ORDINAL_BITS) | first, snapshot.last_unit[rows] - first + 1, cosines
    )

"""How far each idea of the ranking took us: the same questions with one of them left out at a time.

A variant is a value: other parameters, no vectors, other documents in the index, or other terms of a query.
Those that change documents are indexed apart. Everything runs in `laboratory`, unchanged code throughout.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from sidecar.benchmark.laboratory import Alter, Laboratory, Terms, excerpts
from sidecar.benchmark.questions import Question
from sidecar.benchmark.scoring import Score, Summary, score, summarise
from sidecar.domain.memory import Hit, LineRange
from sidecar.index.documents import IndexDocument, IndexPassage, IndexUnit
from sidecar.ranking.floor import DefaultFloor, Floor, StrictFloor
from sidecar.ranking.parameters import DEFAULT, Parameters
from sidecar.service.documents import PASSAGE_FIELD, UNIT_FIELD
from sidecar.text.terms import QueryTerm, index_terms, query_terms

# The first six hits and the first 4,000 characters are what is scored.
_HITS = 12

Pair = tuple[Path, tuple[Question, ...]]
_Replace = msgspec.structs.replace


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table; the defaults are the product."""

    name: str
    parameters: Parameters = DEFAULT
    meaning: bool = True
    alter: Alter | None = None
    terms: Terms = query_terms
    floor: Floor = StrictFloor(0)


class Row(msgspec.Struct, frozen=True):
    """What a variant finds of all questions together."""

    name: str
    found: Summary


def without_names(document: IndexDocument) -> IndexDocument:
    """Passages without what stands before their units: file name, spoken date, heading path."""
    return _with_passages(document, [_said(document, passage) for passage in document.passages])


def without_dates(document: IndexDocument) -> IndexDocument:
    """No canonical date terms (`d2023-05-08`) in units and passages."""
    units = tuple(_worded(unit, _undated(unit.fields.get(UNIT_FIELD, ""))) for unit in document.units)
    texts = [_undated(passage.fields.get(PASSAGE_FIELD, "")) for passage in document.passages]
    return _with_passages(_Replace(document, units=units), texts)


def in_chunks(document: IndexDocument) -> IndexDocument:
    """What has a vector of its own, about a window each, as the unit that is indexed and shown."""
    if not document.blocks:
        return document
    units: list[IndexUnit] = []
    blocks = []
    for block in document.blocks:
        held = document.units[block.first_unit : block.last_unit + 1]
        lines = LineRange(held[0].lines.start, held[-1].lines.end)
        terms = " ".join(filter(None, (unit.fields.get(UNIT_FIELD) for unit in held)))
        size = sum(unit.size + 1 for unit in held) - 1
        blocks.append(_Replace(block, first_unit=len(units), last_unit=len(units)))
        units.append(_Replace(_worded(held[0], terms), lines=lines, size=size, kind="paragraph"))
    whole = " ".join(filter(None, (passage.fields.get(PASSAGE_FIELD) for passage in document.passages)))
    passage = IndexPassage(first_unit=0, unit_count=len(units), fields={PASSAGE_FIELD: whole})
    return _Replace(document, units=tuple(units), passages=(passage,), blocks=tuple(blocks))


def undated_terms(query: str) -> list[QueryTerm]:
    """The terms of a query without canonical dates."""
    return [term for term in query_terms(query) if term.kind != "date"]


def alike_terms(query: str) -> list[QueryTerm]:
    """Every index term of a query with the same weight: stop words stay, identifiers count as words."""
    return [QueryTerm(term, 1.0, at, "word") for at, term in enumerate(dict.fromkeys(index_terms(query)))]


VARIANTS: tuple[Variant, ...] = (
    Variant(name="as it is"),
    Variant(name="words only", meaning=False),
    Variant(name="default cut", floor=DefaultFloor()),
    Variant(name="the unit alone is shown", parameters=_Replace(DEFAULT, window_reach=0)),
    Variant(name="without neighbours", parameters=_Replace(DEFAULT, near=0.0)),
    Variant(name="without passages", parameters=_Replace(DEFAULT, passage=0.0, seed_passages=0)),
    Variant(
        name="without neighbours and passages",
        parameters=_Replace(DEFAULT, near=0.0, passage=0.0, seed_passages=0),
    ),
    Variant(name="engine's own length normalisation", parameters=_Replace(DEFAULT, length_b=0.75)),
    Variant(name="without recency", parameters=_Replace(DEFAULT, recency=0.0)),
    Variant(name="without near-equal demotion", parameters=_Replace(DEFAULT, near_equal=1.0)),
    Variant(name="stop words and all terms alike", terms=alike_terms),
    Variant(name="without file name, date, headings", alter=without_names),
    Variant(name="without canonical dates", alter=without_dates, terms=undated_terms),
    Variant(name="chunks of a window instead of units", alter=in_chunks),
    Variant(
        name="chunks, words only, no neighbours or passages",
        alter=in_chunks,
        meaning=False,
        parameters=_Replace(DEFAULT, near=0.0, passage=0.0, seed_passages=0),
    ),
)


async def ablate(pairs: Sequence[Pair], variants: Sequence[Variant] = VARIANTS) -> AsyncIterator[Row]:
    """The rows of the table, each as soon as it is measured."""
    for alter, group in groupby(variants, key=lambda variant: variant.alter):
        together = list(group)
        scored: dict[str, list[tuple[Question, Score]]] = {variant.name: [] for variant in together}
        for workspace, questions in pairs:
            async with Laboratory.over(workspace, alter) as laboratory:
                for variant in together:
                    scored[variant.name] += [
                        (question, score(question, excerpts(_asked(laboratory, variant, question.query))))
                        for question in questions
                    ]
        for variant in together:
            yield Row(variant.name, summarise(scored[variant.name]))


def _asked(laboratory: Laboratory, variant: Variant, query: str) -> Sequence[Hit]:
    return laboratory.ask(
        query,
        variant.floor,
        most=_HITS,
        parameters=variant.parameters,
        meaning=variant.meaning,
        terms=variant.terms,
    )


def _said(document: IndexDocument, passage: IndexPassage) -> str:
    """The terms of a passage's units alone."""
    held = document.units[passage.first_unit : passage.first_unit + passage.unit_count]
    return " ".join(filter(None, (unit.fields.get(UNIT_FIELD) for unit in held)))


def _worded(unit: IndexUnit, terms: str) -> IndexUnit:
    return _Replace(unit, fields={UNIT_FIELD: terms} if terms else {})


def _with_passages(document: IndexDocument, texts: Sequence[str]) -> IndexDocument:
    passages = tuple(
        _Replace(passage, fields={PASSAGE_FIELD: text} if text else {})
        for passage, text in zip(document.passages, texts, strict=True)
    )
    return _Replace(document, passages=passages)


def _undated(terms: str) -> str:
    """The terms without those that only a written date can give."""
    return " ".join(term for term in terms.split(" ") if not _is_date(term))


def _is_date(term: str) -> bool:
    return term[:1] in ("d", "m") and term[1:2].isdigit() and "-" in term

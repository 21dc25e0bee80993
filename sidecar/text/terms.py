"""The terms under which text is kept and asked for (spec §7). Query text is never parsed as a language.

A term holds no white space and at most 200 bytes. A text found as a whole token of another always shares
that token's terms, whatever punctuation stands around it. English words are stemmed; Han and kana runs are
kept as pairs and single characters, Hangul words and Thai-like runs whole and as pairs; identifiers, paths,
addresses and versions whole and in part; dates also in a canonical form (see `dates`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Literal

import msgspec

from sidecar.text.dates import WrittenDate, worded_dates
from sidecar.text.stopwords import STOP_WORDS
from sidecar.text.tokens import Atom, atoms, stem

TermKind = Literal["word", "whole", "part", "gram", "emoji", "date"]

_FIGURES = re.compile(r"[0-9./-]+\Z")
_PLAIN_WORD = re.compile(r"""["'(*\[]{0,3}([A-Z]?[a-z]+)[.,;:!?)*"\]]{0,4}\Z""")
_TOKEN_CACHE = 16_384
_CACHED_LENGTH = 48

# Weights of query terms. A plain word is 1; what names one thing exactly counts more, its fragments less.
_WORD = 1.0
_IDENTIFIER = 2.0
_COMPOUND = 1.2
_COMPONENT = 1.0
_COMPOUND_PART = 0.7
_IDENTIFIER_PART = 0.5
_PARTS_TOTAL = 1.5
_RUN_WHOLE = 1.0
_GRAMS_MOST = 2.0
_GRAM_STEP = 0.25
_HANGUL_GRAMS = 0.7
_DAY = 2.0
_MONTH = 1.5
_ANNIVERSARY = 1.2
_WIDER = 0.3
_PLAIN_LETTERS = 0.3


class QueryTerm(msgspec.Struct, frozen=True):
    """A term to look for. Terms of one word, identifier, run or date of the query share their `group`.

    `weight` multiplies the term's own rarity. `kind` says what the term is of its group: a plain `word`, the
    `whole` of an identifier or run, a `part` of one, a `gram` (overlapping pair of a run), an `emoji`, or a
    canonical `date`.
    """

    term: str
    weight: float
    group: int
    kind: TermKind


def index_terms(text: str) -> list[str]:
    """The terms of a text in order, as often as they stand in it; linear in its length, never raises."""
    found = list(chain.from_iterable(map(_known.__getitem__, text.split())))
    for written in worded_dates(text):
        found.append(written.term)
        found.extend(written.wider_terms())
    return found


class TakenApart(dict[str, tuple[Atom, ...]]):
    """The atoms of a query's tokens, each token taken apart once: of a paste that is what costs most."""

    def __missing__(self, token: str) -> tuple[Atom, ...]:
        found = self[token] = tuple(atoms(token))
        return found

    def index_terms(self, token: str) -> list[str]:
        """The terms of one token, as `index_terms` gives them."""
        if len(token) <= _CACHED_LENGTH:
            return index_terms(token)
        found = list(chain.from_iterable(atom.terms() for atom in self[token]))
        for written in worded_dates(token):
            found += (written.term, *written.wider_terms())
        return found


def query_terms(text: str, apart: TakenApart | None = None) -> list[QueryTerm]:
    """The distinct terms of a query in the order of its words; [] for mere signs. Linear in its length.

    `apart` keeps the atoms of its tokens for whoever goes on with them.

    Stop words are left out unless nothing else is there. A paste has more terms than a search takes; which
    of them tell most depends on what is searched.
    """
    tokens = dict.fromkeys(text.split())
    apart = TakenApart() if apart is None else apart
    telling = list(_atoms_of(tokens, apart, stop=False)) or list(_atoms_of(tokens, apart, stop=True))
    found: dict[str, QueryTerm] = {}
    group = 0
    for group, atom in enumerate(telling):
        for term, weight, kind in _weighted(atom):
            _keep(found, QueryTerm(term, weight, group, kind))
    for number, written in enumerate(worded_dates(text), start=group + 1):
        for term, weight in _dated(written):
            _keep(found, QueryTerm(term, weight, number, "date"))
    return list(found.values())


def _atoms_of(tokens: Iterable[str], apart: TakenApart, *, stop: bool) -> Iterator[Atom]:
    return (atom for token in tokens for atom in apart[token] if atom.stop is stop)


def _terms(token: str) -> tuple[str, ...]:
    plain = _PLAIN_WORD.match(token)
    if plain is not None:
        # Most tokens of most notes: one word, of which nothing else can be made.
        return (stem(plain[1].lower()),)
    return tuple(chain.from_iterable(atom.terms() for atom in atoms(token)))


class _Known(dict[str, tuple[str, ...]]):
    """The terms of tokens met before, without a call of ours for one that is known. Emptied when full."""

    def __missing__(self, token: str) -> tuple[str, ...]:
        found = _terms(token)
        if len(token) <= _CACHED_LENGTH:
            if len(self) >= _TOKEN_CACHE:
                self.clear()
            self[token] = found
        return found


_known = _Known()


def _keep(found: dict[str, QueryTerm], term: QueryTerm) -> None:
    known = found.get(term.term)
    if known is None or known.weight < term.weight:
        found[term.term] = term


def _weighted(atom: Atom) -> Iterator[tuple[str, float, TermKind]]:
    if atom.kind == "word" or atom.kind == "emoji":
        yield from _word_weights(atom)
        return
    if atom.kind in ("han", "hangul", "unspaced"):
        yield from _run_weights(atom)
        return
    compound = atom.kind == "compound"
    if atom.whole is not None:
        # A date written in figures is better found by its canonical term, which every spelling of it has.
        figures = bool(atom.dates) and _FIGURES.match(atom.whole) is not None
        yield atom.whole, _WORD if figures else _COMPOUND if compound else _IDENTIFIER, "whole"
    for component in atom.components:
        yield component, _COMPONENT, "part"
    parts = [part for part in atom.parts if part not in STOP_WORDS]
    if parts:
        each = min(_COMPOUND_PART if compound else _IDENTIFIER_PART, _PARTS_TOTAL / len(parts))
        for part in parts:
            yield part, each, "part"
    for written in atom.dates:
        for term, weight in _dated(written):
            yield term, weight, "date"


def _word_weights(atom: Atom) -> Iterator[tuple[str, float, TermKind]]:
    """A word with umlauts is asked for as they are written out, for the index keeps both under that."""
    kind: TermKind = "emoji" if atom.kind == "emoji" else "word"
    if atom.spelled is not None:
        yield atom.spelled, _WORD, kind
    if atom.whole is not None:
        yield atom.whole, _WORD if atom.spelled is None else _PLAIN_LETTERS, kind


def _run_weights(atom: Atom) -> Iterator[tuple[str, float, TermKind]]:
    """A run counts like a word or two, however many pairs it has."""
    if atom.whole is not None:
        yield atom.whole, _RUN_WHOLE, "whole"
    elif not atom.grams:
        yield from ((single, _WORD, "gram") for single in atom.singles)
    if atom.grams:
        total = min(_GRAMS_MOST, _WORD + _GRAM_STEP * (len(atom.grams) - 1))
        if atom.kind == "hangul":
            total = _HANGUL_GRAMS
        for gram in dict.fromkeys(atom.grams):
            yield gram, total / len(atom.grams), "gram"


def _dated(written: WrittenDate) -> Iterator[tuple[str, float]]:
    if written.kind == "day":
        yield written.term, _DAY
        yield written.wider_terms()[0], _WIDER
    elif written.kind == "month":
        yield written.term, _MONTH
    else:
        yield written.term, _ANNIVERSARY

"""One white-space token taken apart: words, identifiers with their parts, runs of unspaced scripts (spec §7).

What a token yields never depends on its neighbours, so equal tokens always match, and each can be cached.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Literal

import msgspec
import snowballstemmer

from sidecar.text import scripts
from sidecar.text.dates import WrittenDate, numeric_dates
from sidecar.text.irregular import BASE_FORMS
from sidecar.text.stopwords import STOP_WORDS

AtomKind = Literal["word", "compound", "identifier", "han", "hangul", "unspaced", "emoji"]

TERM_BYTES = 200
"""Longest term as UTF-8; a longer one is replaced by a digest of itself, which still matches only itself."""

_STEM_FROM = 4
_STEM_TO = 40
_STEM_CACHE = 16_384

_SPECIAL = re.compile(
    f"([{scripts.HAN_KANA}]+)|([{scripts.HANGUL}]+)|([{scripts.UNSPACED}]+)"
    f"|([{scripts.REGIONAL}]{{1,2}}|[{scripts.EMOJI}])"
)
_SPECIAL_KINDS: tuple[AtomKind, ...] = ("han", "hangul", "unspaced", "emoji")
_CLUSTER = re.compile(f"[^{scripts.MARKS}]?[{scripts.MARKS}]*")

_JOINERS = r"[-_./:@\\'&+~]"
_LETTER = rf"(?:[^\W_]|[{scripts.MARKS}])"
_PLAIN = re.compile(rf"(#?)([A-Za-z0-9]+(?:{_JOINERS}+[A-Za-z0-9]+)*)(\+\+|#)?")
_WIDE = re.compile(rf"(#?)({_LETTER}+(?:{_JOINERS}+{_LETTER}+)*)(\+\+|#)?")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://([^\s<>\"'`()\[\]{}|\\^]+)")
_URL_TAIL = ".,;:!?*_~/&=#-+"

_JOINER_RUN = re.compile(rf"{_JOINERS}+")
_COMPONENT_BORDER = re.compile(r"[/\\:@]+")
_VERSION = re.compile(r"v([0-9]+(?:\.[0-9]+)+.*)", re.DOTALL)
_ORDINAL = re.compile(r"([0-9]+)(?:st|nd|rd|th)\Z")
_SEGMENT = re.compile(r"[0-9]+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^0-9A-Za-z]+")
_ANY_DIGIT = re.compile(r"[0-9]")
_HEX = re.compile(r"[0-9a-f]+\Z")
_HASH_FROM = 8
_SHORT_HASHES = range(7, 13)
_SHORTENED_FROM = 32
_SHORTENED_TO = 128
_SEGMENTED_TO = 40
_SEGMENTS_TO = 8
_GROUPED_NUMBER = re.compile(r"(?<![0-9.,])([0-9]{1,3}(?:,[0-9]{3})+)(?![0-9,])")
_CONTRACTED = frozenset({"s", "re", "ve", "ll", "d", "m"})
_ELIDED = frozenset({"l", "d", "j", "c", "n", "m", "t", "s", "qu", "o"})


class Atom(msgspec.Struct, frozen=True):
    """A word, identifier, script run or emoji of a token.

    `whole` is the term of all of it (None where only grams stand for it), `spelled` the same with its
    umlauts written out (`koenig` for `könig`), `components` its larger parts (file name of a path, host of an
    address), `parts` its words, `grams` overlapping pairs, `singles` what only the index keeps: the single
    characters of a run, the beginnings of a hash. `dates` are days named in it. `stop`: says nothing by
    itself.
    """

    kind: AtomKind
    whole: str | None
    spelled: str | None = None
    components: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    grams: tuple[str, ...] = ()
    singles: tuple[str, ...] = ()
    dates: tuple[WrittenDate, ...] = ()
    stop: bool = False

    def terms(self) -> Iterator[str]:
        """All terms under which the index keeps this atom: each once, but pairs of a run as they come."""
        if self.kind == "word" and self.whole is not None:
            yield self.whole
            if self.spelled is not None:
                yield self.spelled
            return
        found: dict[str, None] = {}
        for whole in (self.whole, self.spelled):
            if whole is not None:
                found[whole] = None
        for group in (self.components, self.parts):
            found.update(dict.fromkeys(group))
        for written in self.dates:
            found[written.term] = None
            found.update(dict.fromkeys(written.wider_terms()))
        yield from found
        yield from (gram for gram in self.grams if gram not in found)
        yield from self.singles


def atoms(token: str) -> Iterator[Atom]:
    """The atoms of a token without white space; linear in its length, and never raises."""
    if not token.isascii() and (spelled := scripts.spell_out(token)) is not None:
        yield from _with_spelling(list(_atoms(token)), list(_atoms(spelled)))
    else:
        yield from _atoms(token)


def _with_spelling(plain: list[Atom], spelled: list[Atom]) -> Iterator[Atom]:
    """Each atom with how it is written where its umlauts cannot be typed."""
    for atom, other in zip(plain, spelled, strict=True) if len(plain) == len(spelled) else ():
        parts = tuple(dict.fromkeys((*atom.parts, *other.parts)))
        different = other.whole if other.whole != atom.whole else None
        yield msgspec.structs.replace(atom, spelled=different, parts=parts)
    if len(plain) != len(spelled):
        yield from plain


def _atoms(token: str) -> Iterator[Atom]:
    cleaned = scripts.clean(token)
    if "," in cleaned:
        cleaned = _GROUPED_NUMBER.sub(lambda found: found[1].replace(",", ""), cleaned)
    if cleaned.isascii():
        yield from _spelled(cleaned, _PLAIN)
        return
    for piece in cleaned.split():
        at = 0
        for run in _SPECIAL.finditer(piece):
            if run.start() > at:
                yield from _spelled(piece[at : run.start()], _WIDE)
            yield _special(_SPECIAL_KINDS[(run.lastindex or 1) - 1], run[0])
            at = run.end()
        if at < len(piece):
            yield from _spelled(piece[at:], _WIDE)


def bounded(term: str) -> str:
    """The term itself, or `=` and a digest when it is over `TERM_BYTES`; `=` begins no other term."""
    if len(term) * 4 <= TERM_BYTES:
        return term
    raw = term.encode("utf-8", "surrogatepass")
    if len(raw) <= TERM_BYTES:
        return term
    return "=" + blake2b(raw, digest_size=20).hexdigest()


def stem(word: str) -> str:
    """The stem by which an English word is kept; other words, and short ones, stay as they are."""
    word = BASE_FORMS.get(word, word)
    if _STEM_FROM <= len(word) <= _STEM_TO and word.isascii() and word.isalpha():
        return _stemmed(word)
    return bounded(word)


class _Stemmer(threading.local):
    """The stemmer keeps its state in itself, so each thread has its own."""

    def __init__(self) -> None:
        self.english: Any = snowballstemmer.stemmer("english")


_stemmer = _Stemmer()


@lru_cache(maxsize=_STEM_CACHE)
def _stemmed(word: str) -> str:
    return str(_stemmer.english.stemWord(word))


def _special(kind: AtomKind, run: str) -> Atom:
    """A run of a script that is written without spaces, or an emoji."""
    if kind == "emoji":
        return Atom(kind, run)
    if kind == "han":
        return Atom(kind, None, grams=tuple(map("".join, pairwise(run))), singles=tuple(run))
    clusters = list(run) if kind == "hangul" else [found for found in _CLUSTER.findall(run) if found]
    grams = tuple(bounded("".join(pair)) for pair in pairwise(clusters))
    return Atom(kind, bounded(run), grams=grams if len(clusters) > 2 else ())


def _spelled(piece: str, pattern: re.Pattern[str]) -> Iterator[Atom]:
    """Words and identifiers of spaced scripts; addresses are taken out first, for their signs are theirs."""
    if "://" in piece:
        at = 0
        for found in _URL.finditer(piece):
            yield from _matched(piece[at : found.start()], pattern)
            yield from _address(found[1], pattern)
            at = found.end()
        piece = piece[at:]
    yield from _matched(piece, pattern)


def _matched(piece: str, pattern: re.Pattern[str]) -> Iterator[Atom]:
    for found in pattern.finditer(piece):
        sign, body, suffix = found.groups()
        if suffix and len(body) <= 2 and body.isalpha():
            yield Atom("identifier", scripts.fold(body) + suffix, parts=(stem(scripts.fold(body)),))
        elif sign:
            inner = _atom(body)
            whole = f"#{scripts.fold(body)}"
            kept = inner.parts if inner.whole is None else (inner.whole, *inner.parts)
            yield Atom(
                "identifier", bounded(whole), components=inner.components, parts=kept, dates=inner.dates
            )
        else:
            yield _atom(body)


def _address(rest: str, pattern: re.Pattern[str]) -> Iterator[Atom]:
    """A URL, known by all after its scheme, so that it is also found without it."""
    whole = scripts.fold(rest.rstrip(_URL_TAIL)).removeprefix("www.")
    components: dict[str, None] = {}
    parts: dict[str, None] = {}
    dates: dict[WrittenDate, None] = {}
    for found in pattern.finditer(rest):
        inner = _atom(found[2])
        for component in (inner.whole, *inner.components):
            if component is not None and inner.kind != "word":
                components[component] = None
            elif component is not None:
                parts[component] = None
        parts.update(dict.fromkeys(inner.parts))
        dates.update(dict.fromkeys(inner.dates))
    if whole:
        yield Atom(
            "identifier",
            bounded(whole),
            components=tuple(components),
            parts=tuple(parts),
            dates=tuple(dates),
        )


def _atom(body: str) -> Atom:
    """A run of letters, digits and inner joiners."""
    if "'" in body:
        body, elided = _without_apostrophes(body)
        if elided:
            return Atom("compound", stem(scripts.fold(body)), parts=(stem(scripts.fold(elided)),))
    pieces = _JOINER_RUN.split(body)
    if len(pieces) == 1:
        return _single(body)
    folded = scripts.fold(body)
    parts: dict[str, None] = {}
    for piece in pieces:
        parts[stem(scripts.fold(piece))] = None
        parts.update(dict.fromkeys(_segments(piece)))
    compound = body.count("-") == len(pieces) - 1 and all(map(str.isalpha, pieces))
    if compound and len(pieces) <= 3:
        parts[stem(scripts.fold("".join(pieces)))] = None
    components = {
        bounded(part): None
        for part in _COMPONENT_BORDER.split(folded)
        if part != folded and _JOINER_RUN.search(part)
    }
    if version := _VERSION.match(folded):
        components[bounded(version[1])] = None
    return Atom(
        "compound" if compound or body.replace("/", "").isalpha() else "identifier",
        bounded(folded),
        components=tuple(components),
        parts=tuple(parts),
        dates=tuple(numeric_dates(folded)) if len(folded) >= 6 else (),
    )


def _single(body: str) -> Atom:
    folded = scripts.fold(body)
    segments = _segments(body)
    if _ORDINAL.match(folded):
        return Atom("compound", folded, parts=segments)
    if segments or (not body.isdigit() and _ANY_DIGIT.search(body)):
        return Atom("identifier", stem(folded), parts=segments, singles=_beginnings(folded))
    return Atom("word", stem(folded), stop=folded in STOP_WORDS)


def _segments(piece: str) -> tuple[str, ...]:
    """The words inside `camelCase`, `HTTPServer`, `E1234`, `8th`; none in hashes and other random text."""
    if len(piece) < 2 or len(piece) > _SEGMENTED_TO or piece.isdigit():
        return ()
    lettered = not _ANY_DIGIT.search(piece)
    if lettered and (piece.islower() or piece.isupper() or piece[1:].islower() or not piece.isalpha()):
        return ()
    lower = piece.lower()
    if ordinal := _ORDINAL.match(lower):
        return (ordinal[1],)
    if len(piece) >= _HASH_FROM and _HEX.match(lower):
        return ()
    found = _SEGMENT.findall(piece)
    if len(found) < 2 or len(found) > _SEGMENTS_TO or (len(found) > 3 and len(piece) < 2.5 * len(found)):
        return ()
    return tuple(dict.fromkeys(stem(scripts.fold(part)) for part in found if len(part) > 1 or part.isdigit()))


def _beginnings(folded: str) -> tuple[str, ...]:
    """The short forms in which people name a hash; no query asks for them by the whole, which is exact."""
    if len(folded) < _SHORTENED_FROM or len(folded) > _SHORTENED_TO or not _HEX.match(folded):
        return ()
    return tuple(stem(folded[:length]) for length in _SHORT_HASHES)


def _without_apostrophes(body: str) -> tuple[str, str | None]:
    """The word without possessive, contraction and apostrophes, and the noun behind a French elision."""
    pieces = [piece for piece in body.split("'") if piece]
    if len(pieces) > 1 and pieces[-1].lower() in _CONTRACTED:
        pieces.pop()
    if len(pieces) == 2 and pieces[0].lower() in _ELIDED and pieces[1].isalpha():
        return "".join(pieces), pieces[1]
    return "".join(pieces), None

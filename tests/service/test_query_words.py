"""How many of a query's words a hit holds."""

from __future__ import annotations

import datetime

import pytest

from sidecar.service.legs import VECTOR_WORDS, WeightedTerm, weighted_words
from sidecar.service.query_words import QueryWords
from sidecar.text.terms import query_terms

DAY = datetime.date(2026, 5, 18).toordinal()


def words_of(query: str, *, held_by: int) -> QueryWords:
    """A query, each of whose terms so many units hold."""
    return QueryWords([WeightedTerm(term, 1.0, held_by) for term in query_terms(query)])


@pytest.mark.parametrize(
    ("query", "excerpt", "path", "lone"),
    [
        ("Who repaired the kiln?", "- The kiln is in the shed.", "memory/n.md", True),
        ("Who repaired the kiln?", "- Nothing of it.", "memory/n.md", False),
        ("Who repaired the kiln?", "- Anna repairs kilns.", "memory/n.md", False),
        ("kiln", "- The kiln is in the shed.", "memory/n.md", False),
        ("the kiln, a kiln", "- The kiln is in the shed.", "memory/n.md", False),
        ("kiln repair", "- It was done on Monday.", "memory/kiln-repair.md", False),
        ("plumber on 18 May 2026", "- The plumber came.", "memory/2026-05-18.md", False),
        ("ERR_CONN_4711", "- The conn broke.", "memory/n.md", False),
        ("build ERR_CONN_4711", "- It failed with ERR_CONN_4711.", "memory/n.md", True),
        ("望遠鏡 流星群", "昨夜は望遠鏡を出した", "memory/n.md", True),
        ("望遠鏡 流星群", "望遠鏡で流星群を観察した", "memory/n.md", False),
    ],
)
def test_one_word_of_several_is_told_from_two_wherever_they_stand_unless_it_is_rare(
    query: str, excerpt: str, path: str, lone: bool
) -> None:
    assert words_of(query, held_by=50).lone(excerpt, path, DAY) is lone
    assert not words_of(query, held_by=3).lone(excerpt, path, DAY)


def test_of_no_words_nothing_is_missed() -> None:
    assert not QueryWords().lone("anything", "memory/n.md", None)


def test_of_a_paste_the_heaviest_words_make_the_vector() -> None:
    paste = " ".join(f"word{number}x" for number in range(100))
    rarities = {f"word{number}x": float(number) for number in range(100)}
    terms = [WeightedTerm(term, rarities.get(term.term, 0.0), 1) for term in query_terms(paste)]
    words = [word for word, _ in weighted_words(paste, terms)]
    assert words == [f"word{number}x" for number in range(99, 99 - VECTOR_WORDS, -1)]

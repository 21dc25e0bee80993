"""The lexical engine by itself: exact terms, filters, limits."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.index.entries import split_key
from sidecar.index.lexical import LexicalIndex, LexicalSnapshot


def parts_of(texts: list[str]) -> list[tuple[int, int, list[str]]]:
    return [(ordinal, len(text.split()), [text]) for ordinal, text in enumerate(texts)]


def filled(directory: Path, texts: dict[int, list[str]]) -> LexicalIndex:
    index = LexicalIndex(directory, ("text",))
    index.stage((), [(number, parts_of(parts)) for number, parts in texts.items()])
    index.commit()
    return index


def search(
    snapshot: LexicalSnapshot, *terms: str, limit: int = 100, only: set[int] | None = None
) -> list[tuple[int, int]]:
    found = snapshot.search([("text", term, 1.0) for term in terms], limit, only)
    assert list(found.scores) == sorted(found.scores, reverse=True)
    return [split_key(int(key)) for key in found.keys]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> LexicalSnapshot:
    """600 documents of one to four units, in several segments, some of them deleted."""
    rng = random.Random(5)  # noqa: S311
    words = [f"w{int(rng.paretovariate(0.6))}" for _ in range(3000)]
    index = LexicalIndex(tmp_path_factory.mktemp("crowd"), ("text",))
    for start in range(0, 600, 150):
        units = {
            n: [" ".join(rng.sample(words, 9)) for _ in range(n % 4 + 1)] for n in range(start, start + 150)
        }
        index.stage((), [(number, parts_of(texts)) for number, texts in units.items()])
        index.commit()
    index.stage(range(0, 600, 7), ())
    index.commit()
    index.close_writer()
    return index.snapshot()


TERMS = st.lists(st.integers(1, 40).map("w{}".format), min_size=1, max_size=6)


@settings(max_examples=60)
@given(terms=TERMS, small=st.integers(1, 30), more=st.integers(0, 300))
def test_a_smaller_limit_gives_a_prefix_of_a_larger_one(
    crowd: LexicalSnapshot, terms: list[str], small: int, more: int
) -> None:
    wide = search(crowd, *terms, limit=small + more)
    assert search(crowd, *terms, limit=small) == wide[:small]
    assert len(set(wide)) == len(wide)


@settings(max_examples=40)
@given(terms=TERMS, only=st.sets(st.integers(0, 599), min_size=1, max_size=200))
def test_a_filter_hides_documents_without_taking_places_or_changing_scores(
    crowd: LexicalSnapshot, terms: list[str], only: set[int]
) -> None:
    pairs = [("text", term, 1.0) for term in terms]
    found = crowd.search(pairs, 2000)
    everything = {int(k): float(s) for k, s in zip(found.keys, found.scores, strict=True)}
    found = crowd.search(pairs, 2000, only)
    narrowed = {int(k): float(s) for k, s in zip(found.keys, found.scores, strict=True)}
    assert narrowed == pytest.approx(
        {k: s for k, s in everything.items() if split_key(k)[0] in only}, rel=1e-5
    )
    assert all(split_key(key)[0] % 7 for key in everything)


def test_terms_are_taken_as_they_are_and_split_at_white_space_only(tmp_path: Path) -> None:
    long = "x" * 5000
    index = filled(tmp_path, {1: ["Foo-Bar a.b/c", "日本 語", f"😀 {long}"], 2: ["foo"]})
    snapshot = index.snapshot()
    for term, where in [
        ("Foo-Bar", [(1, 0)]),
        ("foo", [(2, 0)]),
        ("Bar", []),
        ("a.b/c", [(1, 0)]),
        ("日本", [(1, 1)]),
        ("😀", [(1, 2)]),
        (long, [(1, 2)]),
        ("AND", []),
        ('text:"foo"', []),
    ]:
        assert search(snapshot, term) == where
    assert snapshot.document_frequency("text", "foo") == 1
    assert snapshot.document_frequency("text", "Foo") == 0


def test_nothing_asked_for_is_nothing_found(tmp_path: Path) -> None:
    snapshot = filled(tmp_path, {1: ["a"]}).snapshot()
    assert search(snapshot) == []
    assert search(snapshot, "a", limit=0) == []
    assert search(snapshot, "a", only=set()) == []
    assert search(snapshot, "a", only={2}) == []
    assert search(snapshot, "a", only={1}) == [(1, 0)]


def test_a_boosted_term_counts_for_more(tmp_path: Path) -> None:
    snapshot = filled(tmp_path, {1: ["a"], 2: ["b"]}).snapshot()
    found = snapshot.search([("text", "a", 1.0), ("text", "b", 3.0)], 10)
    keys, scores = found.keys, found.scores
    assert [split_key(int(key))[0] for key in keys] == [2, 1]
    assert scores[0] == pytest.approx(3 * scores[1], rel=1e-5)


def test_staging_the_same_documents_again_changes_nothing(tmp_path: Path) -> None:
    index = filled(tmp_path, {1: ["a", "b"], 2: ["a"]})
    index.stage([1], [(1, parts_of(["a", "b"])), (2, parts_of(["a"]))])
    index.commit()
    assert search(index.snapshot(), "a") == [(2, 0), (1, 0)] or search(index.snapshot(), "a") == [
        (1, 0),
        (2, 0),
    ]
    assert index.snapshot().count == 3
    index.stage([1], ())
    index.abandon_writer()
    assert index.snapshot().count == 3
    index.stage([1], ())
    index.commit()
    assert index.snapshot().documents() == {2}


def test_one_document_that_repeats_a_word_does_not_hide_the_others_that_hold_it(tmp_path: Path) -> None:
    logs = {number: ["kiln kiln kiln kiln"] * 300 for number in (1, 2, 3)}
    notes = {number: ["the old kiln of the potter in the village by the mill"] for number in range(10, 20)}
    snapshot = filled(tmp_path, {**logs, **notes}).snapshot()
    crowded = snapshot.search([("text", "kiln", 1.0)], 100)
    assert len({split_key(int(key))[0] for key in crowded.keys}) == 1
    found = snapshot.search([("text", "kiln", 1.0)], 100, spread=20)
    assert list(found.keys[:100]) == list(crowded.keys)
    assert {split_key(int(key))[0] for key in found.keys} == {*logs, *notes}
    assert len(set(found.keys.tolist())) == len(found.keys) == len(found.sizes) == 310
    assert list(found.scores) == sorted(found.scores, reverse=True)
    some = {1, 2, 10, 11}
    only = snapshot.search([("text", "kiln", 1.0)], 100, some, spread=20)
    assert {split_key(int(key))[0] for key in only.keys} == some

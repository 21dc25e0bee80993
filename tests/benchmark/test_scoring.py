"""What a list of hits is worth: evidence counts where a reader can see it, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sidecar.benchmark.questions import Line, Question, read_questions
from sidecar.benchmark.scoring import BUDGET, Cited, Excerpt, score, summarise
from sidecar.domain.errors import SettingsError

KEY = Line("memory/a.md", 3, "the key hangs in the shed")
TEA = Line("memory/b.md", 1, "tea before ten")
BOTH = Question("q", "where is the key, when is tea", ((KEY,), (TEA,)))


def shown(path: str, start: int, end: int, text: str) -> Excerpt:
    return Excerpt(text, (Cited(path, start, end),))


OTHER = shown("memory/z.md", 1, 1, "nothing of the kind")
SEEN = shown("memory/a.md", 2, 4, "first\nthe key  hangs\tin the shed\nlast")


def test_evidence_in_the_first_hit_counts_for_every_measure() -> None:
    found = score(BOTH, [SEEN])
    assert (found.any_1, found.any_6, found.part_6, found.part_budget) == (1, 1, 0.5, 0.5)


@pytest.mark.parametrize(
    "hit",
    [
        shown("memory/a.md", 2, 4, "first\nthe key hangs"),
        shown("memory/a.md", 4, 6, "the key hangs in the shed"),
        shown("memory/c.md", 2, 4, "the key hangs in the shed"),
    ],
    ids=["cut off", "other lines", "other file"],
)
def test_evidence_that_cannot_be_read_where_it_is_cited_does_not_count(hit: Excerpt) -> None:
    assert score(BOTH, [hit]).part_6 == 0


def test_the_sixth_hit_counts_and_the_seventh_only_for_the_budget() -> None:
    sixth = score(BOTH, [*[OTHER] * 5, SEEN])
    assert (sixth.any_1, sixth.any_6) == (0, 1)
    seventh = score(BOTH, [*[OTHER] * 6, SEEN])
    assert (seventh.any_6, seventh.part_6, seventh.part_budget) == (0, 0, 0.5)


def test_what_ends_behind_four_thousand_characters_is_not_read() -> None:
    end = "first the key hangs in the shed"
    filling = shown("memory/z.md", 1, 1, "x" * (BUDGET - len(end)))
    assert score(BOTH, [filling, SEEN]).part_budget == 0.5
    assert score(BOTH, [shown("memory/z.md", 1, 1, filling.text + "x"), SEEN]).part_budget == 0


def test_any_line_of_a_group_serves_and_any_place_that_a_hit_cites() -> None:
    either = Question("q", "key", ((KEY, TEA),))
    assert score(either, [shown("memory/b.md", 1, 1, "tea before ten")]).part_6 == 1
    twice = Excerpt("tea before ten", (Cited("memory/y.md", 9, 9), Cited("memory/b.md", 1, 1)))
    assert score(either, [twice]).any_1 == 1


def test_means_are_taken_over_the_answerable_questions_and_hits_over_both_kinds() -> None:
    none = Question("n", "what is not there", ())
    summary = summarise(
        [(BOTH, score(BOTH, [SEEN])), (BOTH, score(BOTH, [])), (none, score(none, [OTHER] * 3))]
    )
    assert (summary.answerable, summary.unanswerable) == (2, 1)
    assert (summary.any_1, summary.part_6, summary.hits, summary.unanswerable_hits) == (50, 25, 0.5, 3)
    assert summarise([(none, score(none, []))]).any_6 is None


def question(**fields: object) -> str:
    return json.dumps({"id": "a", "query": "key?", "evidence": [["memory/a.md", 2]]} | fields)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (["{"], ":1: not a question"),
        ([question(), question()], ":2: the id 'a' is taken"),
        ([question(evidence=[["memory/a.md", 1]])], "memory/a.md has no text on line 1"),
        ([question(evidence=[["memory/a.md", 9]])], "memory/a.md has no text on line 9"),
        ([question(evidence=[["memory/a.md", 0]])], "memory/a.md has no text on line 0"),
        ([question(evidence=[["memory/none.md", 1]])], "none.md: cannot be read"),
        ([question(groups=[[]])], ":1: a group without lines"),
        ([question(query=3)], ":1: not a question"),
        ([""], "no questions"),
    ],
)
def test_a_question_file_that_cannot_be_trusted_is_refused_with_its_line(
    tmp_path: Path, rows: list[str], complaint: str
) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "a.md").write_text("\nthe key\n", encoding="utf-8")
    queries = tmp_path / "queries.jsonl"
    queries.write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(SettingsError) as refused:
        read_questions(tmp_path, queries)
    assert complaint in refused.value.message


def test_groups_stand_in_for_single_lines_where_they_are_given(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("one  line\ntwo\n", encoding="utf-8")
    row = question(evidence=[["a.md", 1], ["a.md", 2]])
    grouped = question(id="b", evidence=[["a.md", 1]], groups=[[["a.md", 1], ["a.md", 2]]])
    queries = tmp_path / "queries.jsonl"
    queries.write_text(f"{row}\n\n{grouped}\n", encoding="utf-8")
    one, two = Line("a.md", 1, "one line"), Line("a.md", 2, "two")
    first, second = read_questions(tmp_path, queries)
    assert (first.groups, second.groups) == (((one,), (two,)), ((one, two),))

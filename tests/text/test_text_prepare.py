"""A file as the index wants it."""

from __future__ import annotations

import hashlib
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.domain.corpus import FileStamp
from sidecar.domain.errors import Halted
from sidecar.domain.memory import Source
from sidecar.text.prepare import PreparedDocument, prepare
from sidecar.text.terms import index_terms, query_terms
from sidecar.text.windows import BLOCKED

STAMP = FileStamp(1, 2, 3, 4, 5)


def prepared(text: str, path: str = "memory/note.md", source: Source = "memory") -> PreparedDocument:
    """A file with this text."""
    return prepare(path, source, text.encode(), STAMP)


def unit_terms(document: PreparedDocument) -> str:
    """The terms of every unit that may be shown."""
    return " ".join(unit.terms for unit in document.units if unit.group != BLOCKED)


def passage_terms(document: PreparedDocument) -> set[str]:
    """The terms of all passages."""
    return {term for passage in document.passages for term in passage.terms.split()}


@pytest.mark.parametrize(
    "text",
    [
        "word " * 200_000,
        "> > a\n" + "a\n" * 20_000,
        "- a\n" * 20_000,
        "a\n\n" * 20_000,
        "|a|\n|-|\n" + "|b|\n" * 9000,
    ],
    ids=["line", "quote", "list", "paragraphs", "table"],
)
def test_preparing_a_long_file_is_given_up_soon_whatever_it_holds(text: str) -> None:
    asked = 0

    def give_up() -> None:
        nonlocal asked
        asked += 1
        if asked == 50:
            raise Halted("enough")

    with pytest.raises(Halted):
        prepare("memory/a.md", "memory", text.encode(), STAMP, give_up)
    assert asked == 50


@given(
    st.binary(max_size=200), st.sampled_from(["MEMORY.md", "USER.md", "memory/2023-05-08.md", "../x/y z.md"])
)
@settings(max_examples=150, deadline=None)
def test_any_bytes_become_a_document_whose_blocks_cover_all_that_may_be_shown(data: bytes, path: str) -> None:
    """Nothing raises, the document travels between processes, and each visible unit is in one block."""
    document = prepare(path, "memory", data, STAMP)
    assert pickle.loads(pickle.dumps(document)) == document  # noqa: S301
    assert document.content_hash == hashlib.sha256(data).digest()
    in_blocks = [index for block in document.blocks for index in range(block.first_unit, block.last_unit + 1)]
    assert len(in_blocks) == len(set(in_blocks))
    visible = {i for i, unit in enumerate(document.units) if unit.group != BLOCKED and unit.unit.text.strip()}
    assert visible <= set(in_blocks)
    assert all(document.units[index].group != BLOCKED for index in in_blocks)


def test_a_unit_is_found_by_its_own_words_and_its_headings_by_theirs() -> None:
    """Own terms, heading terms and name terms stand apart, so that they can weigh differently."""
    document = prepared(
        "# Boat\n\n## Engine\n\n- Oil changed at the harbour\n", "memory/trips/2023-05-08-sea.md"
    )
    unit = document.units[-1]
    assert unit.terms == "oil chang at the harbour"
    assert unit.head == "boat engin"
    names = {"trip", "sea", "2023-05-08-sea.md", "may", "monday", "2023", "d2023-05-08", "d2023-05"}
    assert names <= passage_terms(document)
    assert unit.terms in unit_terms(document)
    assert document.day is not None
    assert prepared("x", "memory/evergreen.md").day is None


@pytest.mark.parametrize(
    "query", ["2026-05-18", "2026-05-18.md", '"2026-05-18"', "memory/2026-05-18.md", "18 May 2026", "2026-05"]
)
def test_a_daily_note_is_found_by_its_date_and_name(query: str) -> None:
    """Although its text holds neither (BR-26)."""
    names = passage_terms(prepared("Paid the plumber", "memory/2026-05-18.md"))
    assert max(query_terms(query), key=lambda term: term.weight).term in names


def test_annotations_are_read_only_in_memory_files_that_may_carry_them() -> None:
    """Triggers in curated files only, no project in USER.md, nothing in transcripts (U§10)."""
    text = "- a <!-- trigger: t --> <!-- project: p -->\n"
    assert prepared(text, "MEMORY.md").units[0].unit.annotations.triggers == ("t",)
    assert prepared(text, "MEMORY.md").units[0].unit.annotations.project_keys == ("p",)
    assert prepared(text, "USER.md").units[0].unit.annotations.project_keys == ()
    assert prepared(text, "users/x/USER.md").units[0].unit.annotations.triggers == ()
    assert prepared(text, "memory/MEMORY.md").units[0].unit.entry is None
    assert prepared(text, "sessions/s", "sessions").units[0].unit.annotations.project_keys == ()


def test_annotation_words_are_not_search_terms() -> None:
    """Neither keys nor triggers leak into what is found."""
    document = prepared("- fact <!-- trigger: zebra --> <!-- project: giraffe -->\n", "MEMORY.md")
    assert document.units[0].terms == "fact"
    assert document.blocks[0].text == "- fact"


def test_malformed_entries_stay_listed_but_out_of_blocks_and_body() -> None:
    """They are kept to be counted, and excluded from every result (U§10)."""
    document = prepared("- open\n- hidden <!-- project: ; -->\n  - nested\n- end\n")
    assert [unit.group == BLOCKED for unit in document.units] == [False, True, True, False]
    assert "hidden" not in unit_terms(document)
    assert "hidden" not in passage_terms(document)
    assert "nested" not in "".join(block.text for block in document.blocks)


def test_an_ordinary_note_has_about_four_blocks_and_equal_text_equal_hashes() -> None:
    """Blocks are window-sized and even; moving text changes no hash, so nothing is embedded again."""
    sections = [
        f"## Part {part}\n\n"
        + "".join(f"- item {item} of part {part}, {'word ' * 12}\n" for item in range(7))
        for part in range(4)
    ]
    document = prepared("# Day\n\n" + "\n".join(sections))
    assert 2000 < len(document.text) < 2600
    assert 3 <= len(document.blocks) <= 5
    assert all(len(block.text) <= 800 for block in document.blocks)
    moved = prepared("# Day\n\n" + "\n" * 40 + "\n".join(sections))
    assert [block.hash for block in moved.blocks] == [block.hash for block in document.blocks]
    assert len({block.hash for block in document.blocks}) == len(document.blocks)


def test_passages_share_out_all_units_evenly_and_carry_name_date_and_heading() -> None:
    """A word of the file's name is found beside each part of a long note."""
    text = "# Sea\n\n" + "".join(f"- item {item} {'word ' * 12}\n" for item in range(100))
    document = prepared(text, "memory/2023-05-08-sailing.md")
    spans = [(passage.first_unit, passage.first_unit + passage.unit_count) for passage in document.passages]
    assert [first for first, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == len(document.units)
    assert len(spans) == 3
    for passage in document.passages:
        assert {"sail", "sea", "d2023-05-08"} <= set(passage.terms.split())


def test_curated_entries_have_blocks_of_their_own() -> None:
    """What is close in meaning is then one entry, not a mixture of neighbours."""
    document = prepared("- one\n- two\n  more\n- three\n", "MEMORY.md")
    assert [(block.first_unit, block.last_unit) for block in document.blocks] == [(0, 0), (1, 1), (2, 2)]
    assert document.blocks[1].text == "- two\n  more"


@pytest.mark.parametrize(
    "token",
    ["deadbeef" * 30, "x" * 5000, "/".join(["segment"] * 300), "望遠鏡" * 700, "ทะเล" * 600, "naïveté" * 200],
)
@pytest.mark.parametrize("lead", [0, 555, 599, 600])
def test_a_token_that_is_cut_across_pieces_is_still_found_whole(token: str, lead: int) -> None:
    """Over-long lines lose no word at their cuts (BR-30)."""
    line = "w " * (lead // 2) + "," * (lead % 2) + token + " tail" * 200
    document = prepared(line)
    assert len(document.units) > 1
    wanted = {term.term for term in query_terms(token)}
    if len(token) > 1500 and not token.isascii():
        wanted = {term for term in wanted if not term.startswith("=")}
    body = unit_terms(document).split()
    assert wanted <= set(body)
    if token.isascii():
        whole = max(query_terms(token), key=lambda term: term.weight).term
        assert body.count(whole) == 1


def test_two_words_at_a_cut_are_not_counted_twice() -> None:
    """A clean cut between words adds nothing to either side."""
    document = prepared("alpha beta " * 300)
    assert sorted(unit_terms(document).split()) == sorted(index_terms(document.text))

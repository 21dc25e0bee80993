"""Notes cut into units."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.domain.corpus import Unit
from sidecar.text.annotations import strip
from sidecar.text.cutting import CODE_LINES, UNIT_LIMIT
from sidecar.text.lines import split_lines, utf16_length
from sidecar.text.markdown import units

LINE = st.one_of(
    st.sampled_from(
        [
            "",
            "   ",
            "- bullet",
            "  - nested",
            "    deeper",
            "* star",
            "1. one",
            "2) two",
            "-",
            "- ",
            "-\ttab",
            "# H",
            "## Two",
            "#notag",
            "===",
            "---",
            "***",
            "```",
            "~~~~",
            "````md",
            "| a | b |",
            "|---|---|",
            "> quote",
            "> > deep",
            ">",
            "> - in quote",
            "    code",
            "\tcode",
            "<div>",
            "<!--",
            "-->",
            "<!-- project: a/b -->",
            "<!-- project: x",
            "text",
            "lazy text",
            "[ref]: http://x",
            "\r",
            "text\r",
            "a\rb",
            "\u2028",
            "\x0c",
            "\xa0",
            "\0",
            "word " * 150,
            "x" * 1500,
            "望" * 900,
            "😀" * 800,
            "- " * 40,
        ]
    ),
    st.text(max_size=12).map(lambda text: text.replace("\n", "")),
)
NOTES = st.lists(LINE, max_size=25).map("\n".join)


def plain(text: str) -> list[Unit]:
    """Units of an ordinary note."""
    return units(text, curated=False, recall=False, projects=True)


def curated(text: str) -> list[Unit]:
    """Units of MEMORY.md."""
    return units(text, curated=True, recall=True, projects=True)


def shape(found: list[Unit]) -> list[tuple[str, int, int]]:
    """Kinds and lines, for comparison."""
    return [(unit.kind, unit.lines.start, unit.lines.end) for unit in found]


@given(NOTES, st.booleans())
@settings(max_examples=250, deadline=None)
def test_every_line_with_text_is_in_exactly_one_unit(note: str, per_entry: bool) -> None:
    """Units come in file order, never overlap, miss nothing, and hold exactly the text of their lines."""
    lines = split_lines(note)
    covered: dict[int, list[tuple[int, int] | None]] = {}
    position = (0, 0)
    for unit in units(note, curated=per_entry, recall=per_entry, projects=True):
        where = unit.lines
        assert (where.start, where.chars[0] if where.chars else 0) >= position
        position = (where.end, where.chars[1]) if where.chars else (where.end + 1, 0)
        raw = "\n".join(lines[where.start - 1 : where.end])
        if where.chars:
            raw = raw[slice(*where.chars)]
        assert raw.strip()
        assert unit.text == strip(raw)
        assert utf16_length(raw) <= UNIT_LIMIT
        assert (unit.entry is None) != per_entry
        for number in range(where.start, where.end + 1):
            covered.setdefault(number, []).append(where.chars)
    for number, line in enumerate(lines, start=1):
        pieces = covered.get(number, [])
        if not line.strip():
            continue
        if pieces == [None]:
            continue
        assert utf16_length(line) > UNIT_LIMIT
        kept = "".join(line[slice(*piece)] for piece in pieces if piece)
        assert kept.split() == line.split() or "".join(kept.split()) == "".join(line.split())


def test_a_note_becomes_headings_bullets_paragraphs_rows_and_code() -> None:
    """Nested bullets are units of their own; continuation and lazy lines stay with theirs."""
    note = """---
title: Boat
tags: [a]
---
# Boat

Some text
over two lines.

- mast
  oak, and
lazy pine
  - sail
    red
  - rope

  after the nested ones
- keel

| part | age |
|------|-----|
| mast | 4 |

```sh
# not a heading
make
```

> quoted
>
> - in quote
***
Setext
title
=====
tail"""
    found = plain(note)
    assert shape(found) == [
        ("front_matter", 1, 4),
        ("heading", 5, 5),
        ("paragraph", 7, 8),
        ("bullet", 10, 12),
        ("bullet", 13, 14),
        ("bullet", 15, 15),
        ("bullet", 17, 17),
        ("bullet", 18, 18),
        ("row", 20, 21),
        ("row", 22, 22),
        ("code", 24, 27),
        ("paragraph", 29, 30),
        ("bullet", 31, 31),
        ("paragraph", 32, 32),
        ("heading", 33, 35),
        ("paragraph", 36, 36),
    ]
    assert [unit.heading for unit in found[1:3]] == [(), ("Boat",)]
    assert found[-1].heading == ("Setext title",)
    assert found[-1].section == 2


def test_fenced_text_is_never_a_heading_and_later_sections_keep_their_parents() -> None:
    """Fences in fences, tilde fences, setext, empty headings and long gaps (BR-46)."""
    note = "\n".join(
        [
            "# Attic",
            "",
            "````",
            "```",
            "# fetch parts",
            "```",
            "````",
            "",
            "~~~",
            "## also not",
            "~~~",
            "",
            "Rafters",
            "---",
        ]
        + ["beam", "", "### Deep", "", "##"]
        + [""] * 200
        + ["# Attic two", "### Insulation", "glasswool"]
    )
    found = plain(note)
    code = next(unit for unit in found if "fetch parts" in unit.text)
    assert (code.kind, code.heading, code.lines.start, code.lines.end) == ("code", ("Attic",), 3, 7)
    assert next(unit for unit in found if unit.text == "beam").heading == ("Attic", "Rafters")
    assert found[-1].heading == ("Attic two", "Insulation")
    assert all(unit.text.strip() for unit in found)
    assert found[-1].lines.start == len(split_lines(note))


def test_skipped_levels_and_siblings_give_the_right_heading_path() -> None:
    """A heading ends all headings of its level and below."""
    note = "# A\n#### D\nx\n## B\ny\n## C <!-- project: k -->\nz\n- # not a section\n"
    found = [unit for unit in plain(note) if unit.kind != "heading"]
    assert [unit.heading for unit in found] == [("A", "D"), ("A", "B"), ("A", "C"), ("A", "C")]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("front", ["", "---\ntitle: x\n---\n"])
@pytest.mark.parametrize("last_newline", [True, False])
@pytest.mark.parametrize("indent", ["", "\t"])
def test_lines_are_exact_in_a_long_handbook(ending: str, front: str, last_newline: bool, indent: str) -> None:
    """The unit with the word holds its line: front matter, tabs, CRLF, no last newline (BR-40)."""
    body = [f"- step {number}" if number % 3 else f"{indent}para {number}" for number in range(1, 401)]
    body[316] = "- the zymurgy valve"
    text = ending.join((front + "\n".join(body)).split("\n")) + (ending if last_newline else "")
    line = 317 + front.count("\n")
    hits = [unit for unit in plain(text) if "zymurgy" in unit.text]
    assert [(unit.lines.start <= line <= unit.lines.end) for unit in hits] == [True]
    assert max(unit.lines.end for unit in plain(text)) == 400 + front.count("\n")


def test_a_rule_and_a_setext_heading_are_not_front_matter() -> None:
    """Only what looks like keys between the first lines counts."""
    assert [unit.kind for unit in plain("---\n\nJust text\n---\nmore")] == [
        "paragraph",
        "heading",
        "paragraph",
    ]
    assert plain("---\nkey: open end\ntext")[0].kind == "paragraph"


def test_long_code_is_split_and_keeps_its_kind() -> None:
    """No unit of code is longer than a screen."""
    note = "```\n" + "\n".join(f"x = {number}" for number in range(100)) + "\n```\n"
    found = plain(note)
    assert {unit.kind for unit in found} == {"code"}
    assert all(unit.lines.end - unit.lines.start < CODE_LINES for unit in found)


def test_an_endless_line_becomes_character_ranges_cut_at_spaces() -> None:
    """Pieces cover the line, end after white space where there is some, and never part an annotation."""
    line = "word " * 400 + "<!-- project: a/b -->" + " tail" * 200
    found = plain(f"before\n\n{line}\n\nafter")
    pieces = [unit.lines.chars for unit in found if unit.lines.chars]
    assert len(pieces) == len(found) - 2 >= 5
    assert pieces[0] is not None
    assert pieces[0][0] == 0
    for left, right in pairwise(pieces):
        assert left is not None
        assert right is not None
        assert left[1] == right[0]
        assert line[left[1] - 1] == " "
    assert not any("<!--" in unit.text or "-->" in unit.text for unit in found)
    assert {unit.annotations.project_keys for unit in found[1:-1]} == {("a/b",)}
    solid = [unit.lines.chars for unit in plain("é" * 2000)]
    assert solid[0] == (0, 600)
    stops = [unit.text[-1] for unit in plain(("望遠鏡を出した" * 30 + "。") * 6)]
    assert stops == ["。"] * len(stops)


@pytest.mark.parametrize("lead", range(560, 625, 5))
def test_a_cut_never_parts_an_annotation_comment(lead: int) -> None:
    """Wherever the comment stands in the line, no piece shows a part of it."""
    line = "x" * lead + "<!-- importance:  9 -->" + "y" * 900
    found = plain(line)
    assert "".join(unit.text for unit in found) == "x" * lead + "y" * 900


def test_entries_of_curated_files_start_at_dashes_and_headings_at_column_zero() -> None:
    """Everything up to the next start is one entry and shares its annotations (U§9)."""
    note = """preamble <!-- importance: 2 -->
# Rules
text under rules
- first <!-- project: a/b -->
  more of first
  - nested in first

  still first <!-- trigger: one -->
- second
* not a start
## Next
"""
    found = curated(note)
    assert [(unit.lines.start, unit.entry) for unit in found] == [
        (1, 0),
        (2, 1),
        (3, 1),
        (4, 2),
        (6, 2),
        (8, 2),
        (9, 3),
        (10, 3),
        (11, 4),
    ]
    assert {unit.annotations.project_keys for unit in found if unit.entry == 2} == {("a/b",)}
    assert {unit.annotations.triggers for unit in found if unit.entry == 2} == {("one",)}
    assert found[0].annotations.importance == 2
    assert not found[-1].annotations.project_keys
    assert "<!--" not in "".join(unit.text for unit in found)


def test_entry_borders_cut_even_code_so_that_no_unit_belongs_to_two_entries() -> None:
    """A dash at column 0 inside a fence starts an entry, as every reader of the file takes it (U§9)."""
    found = curated("- a\n\n```\nx\n- y\n```\n")
    assert [(unit.lines.start, unit.lines.end, unit.entry) for unit in found] == [
        (1, 1, 1),
        (3, 4, 1),
        (5, 6, 2),
    ]


def test_elsewhere_annotations_hold_for_the_whole_top_level_item_and_no_further() -> None:
    """A nested bullet cannot escape its parent's project, the next item is free (U§10)."""
    note = "- top <!-- project: a/b -->\n  - nested\n\n  more\n- free\n\npara <!-- project: ; -->\n\nlast\n"
    found = plain(note)
    assert [unit.annotations.project_keys for unit in found] == [("a/b",), ("a/b",), ("a/b",), (), (), ()]
    assert [unit.annotations.malformed for unit in found] == [False, False, False, False, True, False]
    assert [unit.entry for unit in found] == [None] * 6


def test_one_malformed_project_comment_marks_every_unit_of_its_item() -> None:
    """Fail closed: the nested bullet is hidden with its parent (U§10)."""
    found = plain("- secret\n  - nested <!-- project: a\n- open\n")
    assert [unit.annotations.malformed for unit in found] == [True, True, False]


def test_absurd_nesting_loses_no_line() -> None:
    """Past the parser's depth, lines stay where they are and are found."""
    deep = "".join("  " * level + f"- level{level}\n" for level in range(300)) + "\n# after\n\nlast words\n"
    text = "\n".join(unit.text for unit in plain(deep))
    assert all(f"level{level}" in text for level in range(300))
    assert "last words" in text
    quotes = ">" * 2000 + " bottom\n" + "lazy\n" * 50
    assert "bottom" in "".join(unit.text for unit in plain(quotes))


@pytest.mark.parametrize("mark", [">", "> ", "> - "])
def test_quotes_without_end_cost_no_more_than_a_few_levels_and_keep_their_lines(mark: str) -> None:
    """The work that the parser does is counted, since times depend on the machine."""
    asked = 0

    def count() -> None:
        nonlocal asked
        asked += 1

    lazy = [f"lazy{number}" for number in range(2000)]
    text = "\n".join([mark * 60 + "bottom", *lazy, "", "# after", "", "last words"])
    found = units(text, curated=False, recall=True, projects=True, check=count)
    assert asked < 12 * len(lazy)
    lines = text.split("\n")
    kept = [line for unit in found for line in lines[unit.lines.start - 1 : unit.lines.end]]
    assert kept == [line for line in lines if line]
    assert [(unit.lines.start, unit.kind) for unit in found[-2:]] == [(2003, "heading"), (2005, "paragraph")]


def test_quotes_of_a_mail_keep_their_bullets_down_to_the_eighth_level() -> None:
    found = plain("".join(f"{'> ' * depth}- point{depth}\n\n" for depth in range(1, 12)))
    kinds = {unit.text.split("point")[1]: unit.kind for unit in found}
    assert [kinds[str(depth)] for depth in range(1, 9)] == ["bullet"] * 8
    assert len(kinds) == 11


@pytest.mark.slow
def test_huge_files_are_cut_in_time() -> None:
    """20,000 bullets and a 2 MB line: both come whole, in time that grows with their length."""
    assert len(plain("- one bullet\n" * 20_000)) == 20_000
    pieces = plain("word " * 400_000)
    assert pieces[-1].lines.chars is not None
    assert pieces[-1].lines.chars[1] == 2_000_000

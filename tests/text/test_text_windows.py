"""The lines that a hit shows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.domain.corpus import FileStamp
from sidecar.domain.memory import LineRange
from sidecar.text.annotations import strip
from sidecar.text.lines import split_lines, utf16_length
from sidecar.text.prepare import PreparedDocument, prepare
from sidecar.text.windows import BLOCKED, Span, entry_window, excerpt, grow, range_of

STAMP = FileStamp(1, 1, 1, 1, 1)
LINE = st.sampled_from(
    [
        "",
        "  ",
        "- bullet one",
        "  - nested",
        "# Head",
        "text " * 20,
        "x" * 650,
        "word " * 200,
        "- tagged <!-- project: a/b -->  ",
        "- other <!-- project: c -->",
        "- bad <!-- project: ; -->",
        "para <!-- project: a/b -->\r",
        "😀" * 200,
        "```",
        "~~~python",
        "    indented code",
        "\tcode after a tab",
        "| name | born |",
        "|------|-----:|",
        "| Ada | 1815 | <!-- project: a/b -->",
        "---",
        "===",
        "key: value",
        "> quoted",
        "> - bullet in a quote",
        "1. first",
        "12) twelfth",
        "* star",
        "+ plus",
        "- [ ] task",
        "<div>html</div>",
        "<!-- a comment",
        "of two lines -->",
        "<!-- trigger: a --><!-- importance: 3 -->",
        "[ref]: https://example.org",
        "Term  ",
        "\ufeffmark",
        "x\r",
        "\u2028\u0085\x0c",
        "- end",
    ]
)


def spans_of(document: PreparedDocument) -> list[Span]:
    """What the index unpacks."""
    return [unit.span() for unit in document.units]


def note(text: str, path: str = "memory/n.md") -> PreparedDocument:
    """A prepared file."""
    return prepare(path, "memory", text.encode(), STAMP)


@given(st.lists(LINE, min_size=1, max_size=20).map("\n".join), st.data())
@settings(max_examples=200, deadline=None)
def test_a_window_of_any_markdown_is_the_text_on_disk_within_the_limit_and_of_one_project(
    text: str, data: st.DataObject
) -> None:
    """Its excerpt is the stripped text on disk of exactly its lines, at most 700 UTF-16 units, never cut."""
    document = note(text)
    if not document.units:
        return
    best = data.draw(st.integers(0, len(document.units) - 1))
    gains = data.draw(
        st.none() | st.lists(st.floats(0, 2), min_size=len(document.units), max_size=len(document.units))
    )
    first, last = grow(spans_of(document), best, gains=gains)
    assert first <= best <= last
    where = range_of(spans_of(document), first, last)
    lines = split_lines(document.text)
    shown, lines_shown = excerpt(lines, where)
    assert lines_shown == where
    assert utf16_length(shown) <= 700
    disk = "\n".join(lines[where.start - 1 : where.end])
    assert shown == strip(disk[slice(*where.chars)] if where.chars else disk)
    inside = document.units[first : last + 1]
    assert len({frozenset(unit.unit.annotations.project_keys) for unit in inside}) == 1
    assert len(inside) == 1 or not any(unit.unit.annotations.malformed for unit in inside)


@given(st.lists(LINE, min_size=1, max_size=20), st.integers(20, 900), st.data())
@settings(max_examples=200, deadline=None)
def test_a_cut_excerpt_is_the_text_on_disk_of_the_lines_that_it_names(
    lines: list[str], limit: int, data: st.DataObject
) -> None:
    """However long the range, what is shown is what `get` would read at the returned range."""
    start = data.draw(st.integers(1, len(lines)))
    where = LineRange(start, data.draw(st.integers(start, len(lines))))
    shown, lines_shown = excerpt(lines, where, limit)
    assert utf16_length(shown) <= limit
    assert where.start <= lines_shown.start <= lines_shown.end <= where.end
    assert not "".join(lines[where.start - 1 : lines_shown.start - 1]).strip()
    assert shown.strip() or not strip("\n".join(lines[where.start - 1 : where.end])).strip()
    disk = "\n".join(lines[lines_shown.start - 1 : lines_shown.end])
    assert shown == strip(disk[slice(*lines_shown.chars)] if lines_shown.chars else disk)


def test_a_window_takes_the_heading_above_first_and_then_its_own_section() -> None:
    """Neighbours of another section come only when the own section is used up."""
    document = note("## One\n\n- far away line\n\n## Two\n\n- best\n- near\n\n## Three\n\n- other\n")
    spans = spans_of(document)
    best = next(index for index, unit in enumerate(document.units) if unit.unit.text == "- best")
    assert range_of(spans, *grow(spans, best, limit=len("## Two\n\n- best"))) == LineRange(5, 7)
    assert range_of(spans, *grow(spans, best, limit=len("## Two\n\n- best\n- near"))) == LineRange(5, 8)


def test_a_window_stays_in_its_section_while_it_can() -> None:
    """The last bullet of a section grows upwards, not into the next section, although that is as near."""
    document = note("## One\n- a\n- b\n- c\n- best\n## Two\n- d\n")
    spans = spans_of(document)
    assert range_of(spans, *grow(spans, 4, limit=len("- b\n- c\n- best"))) == LineRange(3, 5)
    assert range_of(spans, *grow(spans, 4)) == LineRange(1, 7)


def test_white_space_on_blank_lines_counts() -> None:
    """Blank lines full of spaces between units are part of the text that is shown."""
    document = note("one\n" + " " * 500 + "\ntwo\n" + " " * 500 + "\nthree\n")
    spans = spans_of(document)
    where = range_of(spans, *grow(spans, 1))
    assert excerpt(split_lines(document.text), where)[1] == where
    assert where != LineRange(1, 5)


def test_gains_pull_the_window_to_the_side_that_matters() -> None:
    """Lines that also match the query are shown rather than lines that are only near."""
    document = note("".join(f"- line {number} {'x' * 90}\n" for number in range(9)))
    spans = spans_of(document)
    gains = [0.0] * 5 + [1.0] * 4
    assert grow(spans, 4, limit=520, gains=gains) == (4, 8)
    assert grow(spans, 4, limit=520) == (2, 6)
    assert grow(spans, 4, limit=520, gains=gains[::-1]) == (0, 4)


def test_windows_never_grow_over_other_projects_or_malformed_entries() -> None:
    """A border stays a border even when there is room."""
    document = note(
        "- a\n- b <!-- project: p -->\n- c <!-- project: p -->\n- d <!-- project: ; -->\n- e\n- f\n"
    )
    spans = spans_of(document)
    assert [grow(spans, index) for index in range(6)] == [(0, 0), (1, 2), (1, 2), (3, 3), (4, 5), (4, 5)]
    assert document.units[3].group == BLOCKED


def test_a_curated_window_is_exactly_its_entry_however_long() -> None:
    """The excerpt is cut at a line end; the entry's range stays whole; without a limit all is shown."""
    entry = "- fact\n" + "".join(f"  detail {number} {'y' * 100}\n" for number in range(12))
    document = note(f"# Top\n\n{entry}- next\n", "MEMORY.md")
    spans = spans_of(document)
    middle = next(index for index, unit in enumerate(document.units) if "detail 9" in unit.unit.text)
    where = range_of(spans, *entry_window(spans, middle))
    assert where == LineRange(3, 15)
    lines = split_lines(document.text)
    shown, lines_shown = excerpt(lines, where)
    assert shown == "\n".join(lines[2 : lines_shown.end])
    assert 3 < lines_shown.end < 15
    assert excerpt(lines, where, None) == ("\n".join(lines[2:15]), where)


def test_a_match_inside_an_endless_line_is_shown_as_its_characters() -> None:
    """The window stays in the line and names the characters that it shows (spec §5.1)."""
    document = note("intro\n" + "filler " * 1000 + "zymurgy " + "filler " * 1000 + "\noutro\n")
    best = next(index for index, unit in enumerate(document.units) if "zymurgy" in unit.unit.text)
    spans = spans_of(document)
    where = range_of(spans, *grow(spans, best))
    assert where.chars is not None
    shown, _ = excerpt(split_lines(document.text), where)
    assert "zymurgy" in shown
    assert shown == split_lines(document.text)[where.start - 1][slice(*where.chars)]


def test_a_cut_inside_a_line_never_shows_half_an_annotation() -> None:
    """What is hidden stays hidden at the cut too."""
    line = "- " + "w" * 690 + " <!-- trigger: secret plan --> " + "z" * 300
    shown, where = excerpt([line], LineRange(1, 1))
    assert "secret" not in shown
    assert "<!--" not in shown
    assert where.chars == (0, line.index("<!--"))

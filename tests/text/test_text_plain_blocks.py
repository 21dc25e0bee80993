"""Plain lines are cut without the parser, and come out as the parser would cut them."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.domain.corpus import Unit
from sidecar.text import markdown
from sidecar.text.plain_blocks import plain_blocks

PLAIN = [
    "",
    "- bullet",
    "- two",
    "  - nested",
    "    - deeper",
    "      - deepest",
    "   - odd",
    " - one in",
    "  goes on",
    "lazy",
    "text",
    "# Heading",
    "## a | b",
    "- **bold**: x",
    "* star",
    "- a | b",
    "- [ ] to do",
    "2026-06-07 was",
]
OTHER = [
    "---",
    "===",
    "|---|---|",
    ":--|--:",
    "| a | b |",
    "1. one",
    "> quote",
    "```",
    "    code",
    "-\ttab",
    "-",
    "#",
    "* * *",
    "-x",
    "\tlazy",
    "\xa0",
    "text\r",
    "- bullet\r",
    "<!-- project: a/b -->",
]
NOTES = st.lists(st.sampled_from([*PLAIN, *PLAIN, *OTHER]), max_size=16).map("\n".join)


def cut(text: str, *, curated: bool) -> list[Unit]:
    return markdown.units(text, curated=curated, recall=curated, projects=True)


@given(text=NOTES, curated=st.booleans())
@example(text="- a\n\n- b | c\n|---|---|", curated=False)
@example(text="- a\n  - b\n    - c\n  - d\n- e\n\n  goes on\n- f", curated=False)
@example(text="text\n  - in\n# H\ntext\n---", curated=False)
def test_a_note_is_cut_as_the_parser_alone_cuts_it(text: str, curated: bool) -> None:
    found = cut(text, curated=curated)
    with (
        patch.object(markdown, "plain_blocks", lambda _lines, start, _end: (start, [])),
        patch.object(markdown, "is_plain_heading", lambda *_: False),
    ):
        assert found == cut(text, curated=curated)


@pytest.mark.parametrize("line", [*PLAIN[1:4], "text", "- **bold**: x"])
def test_an_ordinary_note_needs_no_parser(line: str) -> None:
    lines = ["- first", line, "", "text", "more text", "", "- last"]
    assert plain_blocks(lines, 0, len(lines))[0] == len(lines)


def test_what_may_still_go_on_is_left_to_the_parser_from_its_outermost_item() -> None:
    lines = ["- one", "- two", "  - three", "", "  still two"]
    until, blocks = plain_blocks(lines, 0, len(lines))
    assert (until, [(block.start, block.end) for block in blocks]) == (1, [(0, 1)])

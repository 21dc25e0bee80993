"""The annotation grammar of U§10."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.domain.corpus import NO_ANNOTATIONS, Annotations
from sidecar.text.annotations import comment_spans, normalise_project_key, parse, strip

PIECES = st.lists(
    st.sampled_from(
        [
            "<!--",
            "-->",
            " trigger: a ",
            "project:",
            "importance : 3",
            "\n",
            " ",
            "\t",
            "\r\n",
            ";",
            "word",
            "<",
            "path:/x",
        ]
    ),
    max_size=14,
).map("".join)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("- a", NO_ANNOTATIONS),
        ("- a <!-- trigger: deploy, release;  ; deploy -->", Annotations(triggers=("deploy", "release"))),
        ("- a <!--TRIGGER :Deploy--> ", Annotations(triggers=("Deploy",))),
        ("- a <!-- trigger: x --> b", NO_ANNOTATIONS),
        ("- a <!-- trigger: x --> b <!-- importance: 2 -->", Annotations(triggers=("x",), importance=2)),
        ("- a <!-- trigger: x\n  y -->", NO_ANNOTATIONS),
        ("- a <!-- importance: 3 -->\n  b <!-- importance: 07 -->", Annotations(importance=7)),
        ("- a <!-- importance: 11 -->", NO_ANNOTATIONS),
        ("- a <!-- importance: 5.5 -->", NO_ANNOTATIONS),
        ("- a <!-- importance: 0 -->", NO_ANNOTATIONS),
        ("- a <!-- importance: " + "0" * 5000 + "10 -->", Annotations(importance=10)),
        ("- a <!-- importance: " + "9" * 5000 + " -->", NO_ANNOTATIONS),
        ("- a <!-- project: GitHub.com/Me/App -->", Annotations(project_keys=("github.com/Me/App",))),
        (
            "- a <!-- project: a/b; c/d --> mid\n <!-- project: c/d;e -->",
            Annotations(project_keys=("a/b", "c/d", "e")),
        ),
        ("- a <!-- project:\n a/b -->", Annotations(project_keys=("a/b",))),
        ("- a <!-- project: a;;b -->", Annotations(malformed=True)),
        ("- a <!-- project: -->", Annotations(malformed=True)),
        ("- a <!-- project: a<b -->", Annotations(malformed=True)),
        ("- a <!-- project: a\nb -->", Annotations(malformed=True)),
        ("- a <!-- project: a/b", Annotations(malformed=True)),
        ("- a <!-- project: a/b --> <!-- project: c", Annotations(malformed=True)),
        ("- a <!-- trigger: open\n  <!-- project: a/b -->", Annotations(triggers=(), project_keys=("a/b",))),
        ("- a <!-- note: x --> <!-- projects: y -->", NO_ANNOTATIONS),
    ],
)
def test_an_entry_says_exactly_what_its_comments_say(entry: str, expected: Annotations) -> None:
    """Good comments count, faulty ones void themselves, a faulty project comment voids the entry."""
    assert parse(entry.split("\n"), recall=True, projects=True) == expected


def test_annotations_count_only_where_they_are_allowed() -> None:
    """Triggers and importance need a curated file, project keys any memory file but root USER.md."""
    entry = ["- a <!-- trigger: t --> <!-- project: ; --> <!-- importance: 4 -->"]
    assert parse(entry, recall=True, projects=False) == Annotations(triggers=("t",), importance=4)
    assert parse(entry, recall=False, projects=True) == Annotations(malformed=True)
    assert parse(entry, recall=False, projects=False) == NO_ANNOTATIONS


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (" GitHub.COM/Acme/App ", "github.com/Acme/App"),
        ("path:/Home/Me", "path:/Home/Me"),
        ("Plain", "Plain"),
        ("/Abs/Path", "/Abs/Path"),
        ("", ""),
    ],
)
def test_only_the_host_of_a_project_key_is_caseless(raw: str, key: str) -> None:
    """Keys compare as git remotes do."""
    assert normalise_project_key(raw) == key


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("a  \nb", "a  \nb"),
        ("a <!-- other -->  \nb  ", "a <!-- other -->  \nb  "),
        ("a <!-- importance: 3 -->\nb  \t", "a\nb"),
        ("a <!-- trigger: t --> b <!-- project: p -->\r\nc \r\n", "a  b\r\nc\r\n"),
        ("a <!-- project: p\nq -->  ", "a <!-- project: p\nq -->  "),
        ("<!-- trigger: <!-- project: p --> x", " x"),
    ],
)
def test_stripping_removes_one_line_comments_and_then_trailing_space(text: str, stripped: str) -> None:
    """Text without annotations is untouched; multi-line comments stay."""
    assert strip(text) == stripped


@given(PIECES)
@settings(max_examples=200, deadline=None)
def test_stripping_keeps_every_line_and_leaves_no_closed_comment(text: str) -> None:
    """Line numbers survive, and nothing that a reader should not see stays on one line."""
    stripped = strip(text)
    assert stripped.count("\n") == text.count("\n")
    if stripped != text:
        assert all(line == line.rstrip(" \t") for line in stripped.replace("\r", "").split("\n"))
    for line in text.split("\n"):
        for start, end in comment_spans(line):
            assert line[start:end].startswith("<!--")
            assert line[start:end].endswith("-->")
    parse(text.split("\n"), recall=True, projects=True)


def test_endless_unclosed_comments_cost_no_time() -> None:
    """A hostile line is read in one pass (quadratic reading would take minutes here)."""
    line = "<!-- trigger: " * 200_000
    assert comment_spans(line) == []
    assert parse([line + " -->"], recall=True, projects=True).malformed is False
    assert parse(["<!-- project: " * 200_000], recall=False, projects=True).malformed

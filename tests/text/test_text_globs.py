"""Patterns for paths, and the names of texts: what readers type and what it stands for."""

from __future__ import annotations

import time
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.text.globs import fitting
from sidecar.text.naming import named_by, note_uri, split_name

PLAIN = st.text(
    st.characters(exclude_characters="*?[]/\\.", exclude_categories=("C",)), min_size=1, max_size=6
).map(lambda name: normalize("NFC", name))


@pytest.mark.parametrize(
    ("pattern", "fit", "unfit"),
    [
        ("*.md", ["MEMORY.md", "memory/a/b.md"], ["memory/a.txt"]),
        ("MEMORY.md", ["MEMORY.md", "memory/MEMORY.md"], ["memory.md", "AMEMORY.md"]),
        ("memory/*.md", ["memory/a.md"], ["memory/t/a.md", "a.md", "x/memory/a.md"]),
        ("memory/", ["memory/a.md", "memory/t/a.md"], ["MEMORY.md", "memory2/a.md"]),
        ("t/", ["t/a.md", "memory/t/a.md", "memory/t/u/a.md"], ["memory/t.md", "memory/tt/a.md"]),
        ("./memory/t/", ["memory/t/a.md"], ["memory/tt/a.md", "memory/a.md"]),
        ("memory/**/2026-*.md", ["memory/2026-1.md", "memory/a/b/2026-1.md"], ["2026-1.md", "memory/a/1.md"]),
        ("**/t/*", ["t/a.md", "memory/t/a.md"], ["memory/t/u/a.md"]),
        ("memory/**", ["memory/a.md", "memory/a/b.md"], ["USER.md"]),
        ("**/a/**/b/*.md", ["a/b/c.md", "x/a/a/y/b/b/c.md"], ["a/c.md", "b/a/c.md"]),
        ("memory/[0-9]?.md", ["memory/1a.md"], ["memory/a1.md", "memory/1.md"]),
        ("memory/café.md", ["memory/cafe\u0301.md"], ["memory/cafe.md"]),
    ],
)
def test_a_pattern_fits_what_a_reader_expects(pattern: str, fit: list[str], unfit: list[str]) -> None:
    fits = fitting(pattern)
    assert [path for path in fit if not fits(path)] == []
    assert [path for path in unfit if fits(path)] == []


@given(st.lists(PLAIN, min_size=1, max_size=5), st.data())
def test_a_path_fits_itself_and_every_way_to_leave_parts_of_it_open(
    names: list[str], data: st.DataObject
) -> None:
    path = "/".join(names)
    assert fitting("./" + path)(path)
    opened = [data.draw(st.sampled_from([name, "*", f"{name[0]}*", "**"])) for name in names]
    assert fitting("**/" + "/".join(opened))(path)
    assert not fitting("**/" + "/".join([*opened, "*", "x" * 9]))(path)


@pytest.mark.parametrize("pattern", ["*a" * 200 + "b", "**/" * 150 + "b", "*/" * 100 + "**/" * 50 + "b"])
def test_no_pattern_can_hang_a_search(pattern: str) -> None:
    fits = fitting(pattern)
    began = time.thread_time()
    assert not fits("/".join(["a" * 200] * 20))
    assert time.thread_time() - began < 1


@pytest.mark.parametrize(
    ("name", "path", "fragment"),
    [
        ("a.md", "a.md", None),
        ("a.md#L3", "a.md", "L3-L3"),
        ("a.md#L3-L7", "a.md", "L3-L7"),
        ("a.md#L7-L7@c90-97", "a.md", "L7-L7@c90-97"),
        ("memory/a.md:3", "memory/a.md", "L3-L3"),
        ("memory/a.md:3-7", "memory/a.md", "L3-L7"),
        ("a:3", "a:3", None),
        ("a.md:x", "a.md:x", None),
        ("c#.md", "c#.md", None),
    ],
)
def test_lines_may_stand_behind_a_path(name: str, path: str, fragment: str | None) -> None:
    assert split_name(name) == (path, fragment)


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30))
def test_an_address_names_the_very_path_it_was_made_of(path: str) -> None:
    assert named_by(note_uri(path)) == path
    assert named_by(note_uri(path) + "#L3-L4") == path + "#L3-L4"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "MEMORY.md",
        "file:///etc/passwd",
        "memory-sidecar://notes/",
        "memory-sidecar://x/a.md",
        "http://[x",
    ],
)
def test_another_address_names_nothing(address: str) -> None:
    assert named_by(address) is None

"""Bytes to text to lines, and names of runs of lines."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.text.lines import cut_utf16, decode, find_revision, revision, split_lines, utf16_length

LINES = st.lists(st.text(st.characters(exclude_characters="\n"), max_size=6), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("data", "text", "note"),
    [
        (b"plain\n", "plain\n", None),
        (codecs.BOM_UTF8 + b"Keyring under the fern\n", "Keyring under the fern\n", None),
        (codecs.BOM_UTF16_LE + "Schlüssel\n".encode("utf-16-le"), "Schlüssel\n", None),
        (codecs.BOM_UTF16_BE + "鍵\n".encode("utf-16-be"), "鍵\n", None),
        (codecs.BOM_UTF16_LE + b"a\0b", "a\ufffd", "invalid-utf16"),
        ("café".encode("latin-1"), "caf\ufffd", "invalid-utf8"),
        (b"", "", None),
        (b"\0" * 50, "", "binary"),
        (b"line one\n\0\0\x89PNG", "line one\n", "binary"),
        ("left open".encode("utf-16-le"), "left open", "binary"),
        (b"a\r\nb\r", "a\r\nb\r", None),
    ],
)
def test_every_file_decodes_as_far_as_it_can_and_says_what_was_odd(
    data: bytes, text: str, note: str | None
) -> None:
    """A mark decides the encoding and is gone from the text; nothing raises (BR-42)."""
    decoded = decode(data)
    assert (decoded.text, decoded.note) == (text, note)


@given(st.binary(max_size=64))
@settings(max_examples=100, deadline=None)
def test_no_bytes_make_decoding_fail(data: bytes) -> None:
    """Whatever is in a file, it has a text that can be encoded again."""
    assert isinstance(decode(data).text.encode("utf-8"), bytes)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\n", ["a", ""]),
        ("a\r\nb", ["a\r", "b"]),
        ("a\x0cb\u2028c\rd", None),
    ],
)
def test_only_newlines_end_lines(text: str, lines: list[str] | None) -> None:
    """A trailing newline makes no extra line, other separators none at all."""
    assert split_lines(text) == (lines if lines is not None else [text])


@given(st.text(max_size=40), st.integers(0, 45))
@settings(max_examples=150, deadline=None)
def test_a_cut_is_a_start_within_the_limit_that_ends_between_characters(text: str, limit: int) -> None:
    """Limits count UTF-16 units; a surrogate pair is never split."""
    cut = cut_utf16(text, limit)
    assert text.startswith(cut)
    assert utf16_length(cut) <= limit
    if utf16_length(text) <= limit:
        assert cut == text


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("ab😀cd", 3, "ab"),
        ("ab😀cd", 4, "ab😀"),
        ("abcde\u0301f", 5, "abcd"),
        ("abcde👨\u200d👩z", 8, "abcde"),
        ("abc👍🏽z", 5, "abc"),
        ("e" + "\u0301" * 50, 10, "e" + "\u0301" * 9),
    ],
)
def test_a_cut_keeps_visible_characters_whole_unless_nothing_would_be_left(
    text: str, limit: int, cut: str
) -> None:
    """Combining marks, joined emoji and skin tones stay with their base."""
    assert cut_utf16(text, limit) == cut


@given(LINES, st.data())
@settings(max_examples=150, deadline=None)
def test_a_named_run_of_lines_is_found_at_its_nearest_copy(lines: list[str], data: st.DataObject) -> None:
    """What `revision` names is found again where it stands, wherever that is in the file."""
    start = data.draw(st.integers(0, len(lines) - 1))
    count = data.draw(st.integers(1, len(lines) - start))
    near = data.draw(st.integers(-3, len(lines) + 3))
    wanted = lines[start : start + count]
    copies = [at + 1 for at in range(len(lines) - count + 1) if lines[at : at + count] == wanted]
    nearest = min(copies, key=lambda line: (abs(line - near), line))
    assert find_revision(lines, revision(wanted), near, count) == nearest


def test_changed_or_reordered_text_is_never_taken_for_the_named_one() -> None:
    """A one-character change, another order of the same lines and a nonsense name all find nothing."""
    named = revision(["one", "two", "three"])
    assert find_revision(["x", "one", "two", "three"], named, 1, 3) == 2
    assert find_revision(["one", "two", "thref"], named, 1, 3) is None
    assert find_revision(["two", "one", "three"], named, 1, 3) is None
    assert find_revision(["one", "two"], named, 1, 3) is None
    assert find_revision(["one", "two", "three"], "no such name", 1, 3) is None
    assert find_revision(["one", "two", "three"], named, 1, 0) is None
    assert revision(["a\nb"]) != revision(["a", "b"])


def test_moved_text_is_found_quickly_in_a_file_of_equal_lines() -> None:
    """Searching stays one pass even when every line looks like the first one."""
    lines = ["same"] * 50_000
    assert find_revision(lines, revision(["same"] * 20_000), 30_001, 20_000) == 30_001
    assert find_revision(lines, revision(["same"] * 19_999 + ["other"]), 1, 20_000) is None

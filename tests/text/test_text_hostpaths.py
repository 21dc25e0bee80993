"""What looks like a path of the host is taken out of foreign text, and nothing else (spec §5.2)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.text.hostpaths import REDACTED, redacted, without_paths

NAME = st.text("abcdefgXYZ0189_-. éß漢", min_size=1, max_size=12).filter(
    lambda name: name.strip(" .") == name and "  " not in name
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("EACCES: open /var/lib/x.db", "EACCES: open [path]"),
        ("open /home/John Smith/notes/a.md failed", "open [path] failed"),
        ("error:/home/u/x, next", "error:[path] next"),
        ("'/a b/c' and", "'[path]' and"),
        ("~/notes is missing", "[path] is missing"),
        ("~ada/notes", "[path]"),
        ("../shared/notes", "[path]"),
        ("C:\\Users\\me\\x.db is locked", "[path] is locked"),
        ("\\\\server\\share\\x", "[path]"),
        ("file:///etc/passwd", "[path]"),
        ("sqlite:////home/x/y.db is locked", "[path] is locked"),
        ("memory/private.md: bad", "[path]: bad"),
        ("skipped link: memory/folder", "skipped link: [path]"),
        ("skipped link: memory/a folder/b", "skipped link: [path]"),
        ("see https://docs.example/a/b.html", "see https://docs.example/a/b.html"),
        ("model BAAI/bge-small-en-v1.5", "model BAAI/bge-small-en-v1.5"),
        ("and/or, text/plain, 3/4", "and/or, text/plain, 3/4"),
        ("plain words", "plain words"),
    ],
)
def test_paths_go_and_the_rest_stays(text: str, shown: str) -> None:
    assert without_paths(text) == shown


@given(st.lists(NAME, min_size=1, max_size=5), st.sampled_from(["/", "~/", "../", "C:\\", "file:///"]))
def test_no_absolute_path_survives_wherever_it_stands(names: list[str], start: str) -> None:
    path = start + ("\\" if start == "C:\\" else "/").join(names)
    for around in ("{}", "failed: {} (again)", "'{}'", "x={}"):
        shown = without_paths(around.format(path))
        assert path not in shown
        assert REDACTED in shown


def test_data_is_redacted_at_any_depth_keys_and_odd_values_too() -> None:
    value = {"a": [{"dbPath": "x", "/srv/x": ("/srv/y", 1, None, True)}], "odd": ValueError("/srv/z")}
    assert redacted(value, frozenset({"dbPath"})) == {
        "a": [{"[path]": ["[path]", 1, None, True]}],
        "odd": "[path]",
    }


@pytest.mark.parametrize("piece", ["/", "a/", "~", "/a ", "a.b/", "./", "../ ", "\\", "x:/", "/a b c d "])
def test_hostile_text_costs_no_more_than_its_length(piece: str) -> None:
    began = time.thread_time()
    without_paths(piece * (200_000 // len(piece)))
    assert time.thread_time() - began < 5

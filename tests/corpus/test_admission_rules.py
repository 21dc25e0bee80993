"""Which names are memory, by name alone (spec §6)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.corpus import rules
from sidecar.corpus.roots import below, caller_path, placed, resolve_roots
from sidecar.corpus.rules import Exclusions, ExtraPath, glob_expression
from sidecar.domain.errors import SettingsError


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a.md", None),
        (".x.md", None),
        ("日記.md", None),
        ("two\nlines.md", None),
        (".md", None),
        ("A.MD", rules.EXTENSION_CASE),
        ("a.Md", rules.EXTENSION_CASE),
        ("a.txt", rules.NOT_MARKDOWN),
        ("md", rules.NOT_MARKDOWN),
        ("a.md~", rules.SCRATCH),
        (".a.md.swp", rules.SCRATCH),
        (".a.md.swx", rules.SCRATCH),
        ("4913", rules.SCRATCH),
        ("a.md.tmp", rules.SCRATCH),
        (".#a.md", rules.SCRATCH),
        (".syncthing.a.md", rules.SCRATCH),
    ],
)
def test_only_lower_case_md_names_that_no_editor_uses_for_a_moment_are_notes(
    name: str, reason: str | None
) -> None:
    assert rules.judge_name(name) == reason


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.md", ["a.md", ".a.md"], ["b/a.md"]),
        ("**/*.md", ["a.md", "b/a.md", "b/.c/a.md"], ["a.txt"]),
        ("notes/**", ["notes/a.md", "notes/b/c.md"], ["notes", "other/a.md", "notesx/a.md"]),
        ("20??/*.md", ["2026/a.md"], ["202/a.md", "2026/b/a.md"]),
        ("[ab]*.md", ["a1.md", "b.md"], ["c.md"]),
        ("[!ab].md", ["c.md"], ["a.md", "/.md"]),
        ("./x.y/*.md", ["x.y/a.md"], ["xzy/a.md"]),
        ("[", ["["], ["a"]),
    ],
)
def test_a_pattern_is_a_glob_whose_stars_stay_within_one_name(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    expression = glob_expression(pattern)
    assert [path for path in matching if expression.fullmatch(path) is None] == []
    assert [path for path in others if expression.fullmatch(path) is not None] == []


@given(st.lists(st.text("ab.[]*?!^-\\(){}|+$é", min_size=1, max_size=5), min_size=1, max_size=3))
@settings(max_examples=80)
def test_any_pattern_is_a_glob_or_refused_and_without_stars_it_matches_itself_alone(names: list[str]) -> None:
    path = "/".join(names)
    with contextlib.suppress(SettingsError):
        expression = glob_expression(path)
        if not set("*?[") & set(path) and not path.startswith("./"):
            assert expression.fullmatch(path) is not None
            assert expression.fullmatch(path.replace("a", "b", 1).replace(".", "x", 1) + "x") is None


def test_exclude_speaks_gitignore_on_caller_paths() -> None:
    exclusions = Exclusions(["archive/", "*.draft.md", "!keep.draft.md", "/memory/top.md", "../shared/old/"])
    assert exclusions.folder("memory/archive")
    assert exclusions.folder("../shared/old")
    assert not exclusions.folder("shared/old")
    assert exclusions.file("memory/x.draft.md")
    assert not exclusions.file("memory/keep.draft.md")
    assert exclusions.file("memory/top.md")
    assert not exclusions.file("memory/sub/top.md")


def test_a_broken_exclude_or_a_blank_extra_path_is_refused_as_a_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="exclude"):
        Exclusions(["!"])
    with pytest.raises(SettingsError, match="extra_paths"):
        resolve_roots(tmp_path, [ExtraPath("  ")])


def test_extra_paths_are_relative_to_the_workspace_and_know_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    extras = [
        ExtraPath(" notes "),
        ExtraPath("../shared"),
        ExtraPath("~/n"),
        ExtraPath(str(tmp_path / "abs")),
    ]
    roots = resolve_roots(tmp_path / "ws", extras)
    assert [root.shown for root in roots] == [".", "notes", "../shared", "../home/n", "../abs"]
    assert caller_path(roots, roots[2], "a/b.md") == "../shared/a/b.md"


def test_a_root_around_the_workspace_shows_each_file_under_one_path_only(tmp_path: Path) -> None:
    roots = resolve_roots(tmp_path / "ws", [ExtraPath("..")])
    assert caller_path(roots, roots[1], "ws/notes/a.md") == "notes/a.md"
    assert caller_path(roots, roots[1], "b.md") == "../b.md"


_PARTS = st.lists(st.sampled_from(["..", ".", "", "memory", "a.md", "ws", "shared", "é"]), max_size=7)


@given(parts=_PARTS, absolute=st.booleans())
@settings(max_examples=150)
def test_whatever_path_a_caller_sends_it_stands_for_something_inside_a_root_or_for_nothing(
    parts: list[str], absolute: bool
) -> None:
    roots = resolve_roots(Path("/srv/ws"), [ExtraPath("../shared")])
    path = "/".join(["/srv/ws", *parts] if absolute else parts)
    for root, relative in placed(roots, path):
        assert ".." not in relative.split("/")
        landed = os.path.normpath(Path("/srv/ws") / path)
        assert below(root.named, landed) == relative
        again = placed(roots, caller_path(roots, root, relative))
        assert (root, relative) in again


@pytest.mark.parametrize("path", ["", "a\0.md", "memory/" + "x" * 5000, "../../etc/passwd", "/etc/passwd"])
def test_blank_nul_endless_and_escaping_paths_stand_for_nothing(path: str) -> None:
    assert placed(resolve_roots(Path("/srv/ws"), [ExtraPath("../shared")]), path) == ()


def test_a_root_is_matched_by_whole_names() -> None:
    roots = resolve_roots(Path("/srv/ws"), [ExtraPath("../notes/pro")])
    assert placed(roots, "../notes/project-secret/a.md") == ()

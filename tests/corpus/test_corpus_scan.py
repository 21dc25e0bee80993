"""What a full look at the workspace finds, and that a look at one path agrees with it (spec §6)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scan_looks import covers, paths, text, why

from sidecar.corpus import rules
from sidecar.corpus.rules import ExtraPath
from sidecar.corpus.scan import Corpus, FileRead
from sidecar.domain.corpus import Skipped, SourceFile

Write = Callable[[Path, dict[str, str]], None]


def test_files_come_in_the_documented_order(workspace: Path, write: Write) -> None:
    names = ["memory/b.md", "memory/a/z.md", "memory/a.md", "memory/\uffee.md", "memory/😀.md", "USER.md"]
    write(workspace, dict.fromkeys([*names, "MEMORY.md", "extra/e.md", "one.md"], "x"))
    scan = Corpus(workspace, [ExtraPath("one.md"), ExtraPath("extra")]).scan()
    assert paths(scan) == [
        "MEMORY.md",
        "USER.md",
        "memory/a.md",
        "memory/a/z.md",
        "memory/b.md",
        "memory/😀.md",  # by UTF-16 code unit: its surrogates sort before U+FFEE
        "memory/\uffee.md",
        "one.md",
        "extra/e.md",
    ]


def test_only_the_memory_set_is_found_and_read(workspace: Path, write: Write) -> None:
    outside = [
        "AGENTS.md",
        ".env",
        "src/readme.md",
        "memory/pic.png",
        "memory/list.txt",
        "DREAMS.md",
        "SOUL.md",
    ]
    write(workspace, dict.fromkeys([*outside, "memory/ok.md"], "text"))
    corpus = Corpus(workspace)
    assert paths(corpus.scan()) == ["memory/ok.md"]
    for path in [*outside, "memory", ".", "memory/../../.env", "memory/../.env", "../../.env"]:
        assert corpus.look(path) is None, path
        assert corpus.read(path) is None, path
    assert text(corpus, "memory/ok.md") == "text"


@pytest.mark.parametrize(
    "path", ["./memory/ok.md", "memory//ok.md", "memory/x/../ok.md", "{ws}/memory/ok.md"]
)
def test_a_callers_spelling_of_a_path_is_normalised(workspace: Path, write: Write, path: str) -> None:
    write(workspace, {"memory/ok.md": "text"})
    found = Corpus(workspace).look(path.format(ws=workspace))
    assert isinstance(found, SourceFile)
    assert found.path == "memory/ok.md"


def test_an_agents_own_folder_answers_and_never_a_parent_of_the_same_name(
    tmp_path: Path, write: Write
) -> None:
    write(tmp_path, {"USER.md": "root", "alpha/USER.md": "alpha", "beta/USER.md": "beta"})
    assert [text(Corpus(tmp_path / name), "USER.md") for name in ("alpha", "beta")] == ["alpha", "beta"]
    assert Corpus(tmp_path / "alpha").read("../USER.md") is None


def test_hidden_folders_are_notes_but_installed_packages_and_scratch_files_are_not(
    workspace: Path, write: Write
) -> None:
    names = ["memory/.dreams/a.md", "memory/.x.md", "memory/node_modules/p/r.md", "memory/.git/d.md"]
    names += ["memory/.openclaw-repair/m.md", "memory/a.md~", "memory/.#a.md", "memory/archive/o.md"]
    write(workspace, dict.fromkeys(names, "x"))
    corpus = Corpus(workspace, exclude=["archive/"])
    scan = corpus.scan()
    assert paths(scan) == ["memory/.dreams/a.md", "memory/.x.md"]
    assert why(scan.skipped) == {
        "memory/node_modules": rules.UNLISTED,
        "memory/.git": rules.UNLISTED,
        "memory/.openclaw-repair": rules.UNLISTED,
        "memory/archive": rules.EXCLUDED,
    }
    assert corpus.look("memory/archive/o.md") == Skipped("memory/archive/o.md", rules.EXCLUDED)
    assert corpus.look("memory/node_modules/p/r.md") == Skipped("memory/node_modules/p/r.md", rules.UNLISTED)
    assert corpus.look("memory/.#a.md") == Skipped("memory/.#a.md", rules.SCRATCH)


def test_one_odd_file_never_hides_the_others_and_each_is_named_with_its_reason(
    workspace: Path, write: Write
) -> None:
    good = [f"memory/note{number:02}.md" for number in range(20)]
    write(workspace, {**dict.fromkeys(good, "good"), "memory/dir.md/inner.md": "in", "memory/CAPS.MD": "x"})
    (workspace / "USER.md").symlink_to(workspace / "memory" / "note00.md")
    (workspace / "memory" / "dangling.md").symlink_to("nowhere.md")
    os.mkfifo(workspace / "memory" / "pipe.md")
    (workspace / "memory" / "zeros.md").write_bytes(bytes(5000))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(workspace / "memory" / "s.md"))
        corpus = Corpus(workspace)
        scan = corpus.scan()
    assert set(paths(scan)) == {*good, "memory/dir.md/inner.md", "memory/zeros.md"}
    assert why(scan.skipped) == {
        "USER.md": rules.LINK,
        "memory/dangling.md": rules.LINK,
        "memory/pipe.md": rules.PIPE,
        "memory/dir.md": rules.FOLDER,
        "memory/s.md": rules.SOCKET,
        "memory/CAPS.MD": rules.EXTENSION_CASE,
    }
    assert corpus.look("memory/pipe.md") == Skipped("memory/pipe.md", rules.PIPE)
    assert corpus.look("memory/CAPS.MD") == Skipped("memory/CAPS.MD", rules.EXTENSION_CASE)


def test_a_skipped_link_is_named_with_the_line_that_would_admit_it_and_that_line_does(
    tmp_path: Path, workspace: Path, write: Write
) -> None:
    write(tmp_path, {"vault/deep/a.md": "linked", "single.md": "one"})
    write(workspace, {"memory/ok.md": "x", "memory/other.txt": "x"})
    (workspace / "memory" / "vault").symlink_to(tmp_path / "vault")
    (workspace / "memory" / 'o"ne.md').symlink_to(tmp_path / "single.md")
    (workspace / "memory" / "inside.md").symlink_to("ok.md")
    (workspace / "memory" / "data").symlink_to("other.txt")
    scan = Corpus(workspace).scan()
    assert {entry.path: entry.hint for entry in scan.skipped} == {
        "memory/vault": 'extra_paths = ["memory/vault"]',
        'memory/o"ne.md': 'extra_paths = ["memory/o\\u0022ne.md"]',
        "memory/inside.md": None,
    }
    admitted = Corpus(workspace, [ExtraPath("memory/vault"), ExtraPath('memory/o"ne.md')])
    again = admitted.scan()
    assert paths(again) == ["memory/ok.md", "memory/vault/deep/a.md", 'memory/o"ne.md']
    assert [text(admitted, path) for path in paths(again)] == ["x", "linked", "one"]
    assert set(why(again.skipped)) == {"memory/inside.md"}


def test_nothing_below_a_root_is_reached_through_a_link(
    tmp_path: Path, workspace: Path, write: Write
) -> None:
    write(tmp_path, {"outside/a.md": "secret"})
    (workspace / "memory").symlink_to(tmp_path / "outside")
    corpus = Corpus(workspace)
    scan = corpus.scan()
    assert (paths(scan), why(scan.skipped)) == ([], {"memory": rules.LINK})
    assert not isinstance(corpus.look("memory/a.md"), SourceFile)
    assert corpus.read("memory/a.md") is None


def test_a_folder_swapped_for_a_link_after_the_scan_gives_nothing(
    tmp_path: Path, workspace: Path, write: Write
) -> None:
    write(tmp_path, {"outside/a.md": "secret"})
    write(workspace, {"memory/sub/a.md": "mine"})
    corpus = Corpus(workspace)
    (file,) = corpus.scan().files
    shutil.rmtree(workspace / "memory" / "sub")
    (workspace / "memory" / "sub").symlink_to(tmp_path / "outside")
    assert corpus.stamp(file) is None
    assert corpus.read(file) is None
    assert corpus.read_lines(file.path, 1, 1, 100) is None


def test_roots_may_be_links_themselves_and_callers_see_the_configured_names(
    tmp_path: Path, write: Write
) -> None:
    write(tmp_path, {"real/ws/memory/a.md": "a", "real/shared/b.md": "b"})
    (tmp_path / "ws").symlink_to("real/ws")
    (tmp_path / "common").symlink_to("real/shared")
    corpus = Corpus(tmp_path / "ws", [ExtraPath("../common")])
    assert paths(corpus.scan()) == ["memory/a.md", "../common/b.md"]
    for path in ("../common/b.md", str(tmp_path / "real/shared/b.md"), str(tmp_path / "common/b.md")):
        assert text(corpus, path) == "b"
    assert text(corpus, str(tmp_path / "real/ws/memory/a.md")) == "a"


def test_extra_paths_honour_their_pattern_in_scan_and_look(workspace: Path, write: Write) -> None:
    write(
        workspace, dict.fromkeys(["docs/a.md", "docs/b/c.md", "docs/2026/d.md", "one.txt", "memory.md"], "x")
    )
    extras = [ExtraPath("docs", "20*/*.md"), ExtraPath("one.txt"), ExtraPath("memory.md"), ExtraPath("none")]
    corpus = Corpus(workspace, extras)
    scan = corpus.scan()
    assert paths(scan) == ["docs/2026/d.md"]
    assert {"one.txt": rules.NOT_MARKDOWN, "none": rules.MISSING}.items() <= why(scan.skipped).items()
    assert corpus.look("docs/a.md") is None
    assert isinstance(corpus.look("docs/2026/d.md"), SourceFile)
    assert corpus.read("memory.md") is None
    assert covers(corpus, scan, "docs/a.md") is False


def test_two_names_of_one_file_are_one_file(workspace: Path, write: Write) -> None:
    write(workspace, {"MEMORY.md": "x", "memory/a.md": "y"})
    (workspace / "memory.md").hardlink_to(workspace / "MEMORY.md")
    (workspace / "memory" / "b.md").hardlink_to(workspace / "memory" / "a.md")
    corpus = Corpus(workspace, [ExtraPath("memory"), ExtraPath(".", "*.md")])
    scan = corpus.scan()
    assert len(scan.files) == 2
    assert paths(scan)[0] == "MEMORY.md"
    assert why(scan.skipped)["memory.md"] == rules.NAME_CASE
    first = paths(scan)[1]
    second = "memory/b.md" if first == "memory/a.md" else "memory/a.md"
    assert corpus.look(second) == Skipped(second, rules.DUPLICATE, f"indexed as {first}")
    (workspace / first).unlink()
    assert isinstance(corpus.look(second), SourceFile)


def test_lower_case_memory_md_is_ignored_and_named_never_mixed_up(workspace: Path, write: Write) -> None:
    write(workspace, {"memory.md": "lower", "Memory/x.md": "other", "User.md": "u"})
    corpus = Corpus(workspace)
    scan = corpus.scan()
    assert scan.files == ()
    assert why(scan.skipped) == dict.fromkeys(["memory.md", "Memory", "User.md"], rules.NAME_CASE)
    assert corpus.look("MEMORY.md") is None
    assert corpus.look("memory.md") == Skipped("memory.md", rules.NAME_CASE)
    write(workspace, {"MEMORY.md": "upper"})
    assert text(corpus, "MEMORY.md") == "upper"


def test_a_name_in_the_other_unicode_form_finds_its_file_if_only_one_matches(
    workspace: Path, write: Write
) -> None:
    composed, decomposed = "memory/r\u00e9sum\u00e9.md", "memory/re\u0301sume\u0301.md"
    write(workspace, {decomposed: "decomposed"})
    corpus = Corpus(workspace)
    found = corpus.look(composed)
    assert isinstance(found, SourceFile)
    assert found.path == decomposed
    write(workspace, {composed: "composed"})
    assert (text(corpus, composed), text(corpus, decomposed)) == ("composed", "decomposed")
    assert text(corpus, "memory/re\u0301sum\u00e9.md") is None


def test_names_that_are_not_utf8_or_hold_a_newline_are_found_read_and_fit_on_the_wire(
    workspace: Path,
) -> None:
    folder = workspace / "memory" / os.fsdecode(b"d\xff")
    folder.mkdir(parents=True)
    for name in (b"caf\xe9.md", b"two\nlines.md"):
        (folder / os.fsdecode(name)).write_bytes(name)
    corpus = Corpus(workspace)
    scan = corpus.scan()
    assert paths(scan) == ["memory/d\ufffd/caf\ufffd.md", "memory/d\ufffd/two\nlines.md"]
    for file in scan.files:
        json.dumps([file.path, file.relative], ensure_ascii=False).encode()
        assert corpus.look(file.path) == file
        assert corpus.stamp(file) == file.stamp
        assert isinstance(corpus.read(file), FileRead)
    assert corpus.look("memory/\udce9.md") is None


def test_names_that_show_alike_are_all_named_and_none_is_taken_for_another(workspace: Path) -> None:
    (workspace / "memory").mkdir()
    for name in (b"a\xe9.md", b"a\xea.md"):
        (workspace / "memory" / os.fsdecode(name)).write_bytes(name)
    corpus = Corpus(workspace)
    scan = corpus.scan()
    assert (paths(scan), why(scan.skipped)) == ([], {"memory/a\ufffd.md": rules.SAME_NAME})
    assert corpus.look("memory/a\ufffd.md") is None
    (workspace / "memory" / "a\ufffd.md").write_text("plain")
    assert paths(corpus.scan()) == ["memory/a\ufffd.md"]
    assert text(corpus, "memory/a\ufffd.md") == "plain"


def test_folder_stamps_tell_new_removed_and_swapped_entries_but_not_reading(
    workspace: Path, write: Write
) -> None:
    write(workspace, {"memory/sub/a.md": "a"})
    corpus = Corpus(workspace)
    folders = corpus.scan().folders
    corpus.scan()
    corpus.read("memory/sub/a.md")
    assert corpus.folders_still(folders) == {path for path, _ in folders}
    (workspace / "memory" / "sub" / "b.md").write_text("b")
    assert corpus.folders_still(folders) is None
    folders = corpus.scan().folders
    shutil.rmtree(workspace / "memory" / "sub")
    assert corpus.folders_still(folders) is None


def test_a_file_in_still_folders_has_the_same_stamp_by_the_short_way_and_none_once_it_is_a_link(
    workspace: Path, write: Write
) -> None:
    write(workspace, {"memory/sub/a.md": "a"})
    corpus = Corpus(workspace)
    scan = corpus.scan()
    still = corpus.folders_still(scan.folders)
    assert still is not None
    (file,) = scan.files
    assert corpus.stamp(file, still) == corpus.stamp(file) == file.stamp
    here = workspace / "memory" / "sub" / "a.md"
    here.rename(workspace / "elsewhere.md")
    here.symlink_to(workspace / "elsewhere.md")
    assert corpus.stamp(file, still) is None
    here.unlink()
    assert corpus.stamp(file, still) is None


def test_a_folder_that_became_a_link_to_itself_elsewhere_is_not_still_and_its_files_have_no_stamp(
    workspace: Path, write: Write
) -> None:
    write(workspace, {"memory/sub/a.md": "a"})
    corpus = Corpus(workspace)
    scan = corpus.scan()
    (workspace / "memory" / "sub").rename(workspace / "moved")
    (workspace / "memory" / "sub").symlink_to(workspace / "moved", target_is_directory=True)
    assert corpus.folders_still(scan.folders) is None
    assert corpus.stamp(scan.files[0]) is None


def test_a_same_size_edit_with_its_time_put_back_changes_the_stamp(workspace: Path, write: Write) -> None:
    write(workspace, {"memory/a.md": "one"})
    corpus = Corpus(workspace)
    (file,) = corpus.scan().files
    path = workspace / "memory" / "a.md"
    status = path.stat()
    path.write_text("two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    now = corpus.stamp(file)
    assert now is not None
    assert now.mtime_ns == file.stamp.mtime_ns
    assert now != file.stamp


def test_files_that_vanish_during_the_scan_do_no_harm(workspace: Path, write: Write) -> None:
    write(workspace, {f"memory/keep{number}.md": "k" for number in range(20)})
    script = (
        "import pathlib, sys\nfolder = pathlib.Path(sys.argv[1])\nprint('go', flush=True)\n"
        "while True:\n    for n in range(50):\n        (folder / f'x{n}.md').write_text('x')\n"
        "    for n in range(50):\n        (folder / f'x{n}.md').unlink()\n"
    )
    churn = subprocess.Popen(
        [sys.executable, "-c", script, str(workspace / "memory")], stdout=subprocess.PIPE
    )
    try:
        assert churn.stdout is not None
        churn.stdout.readline()
        corpus = Corpus(workspace)
        for _ in range(100):
            scan = corpus.scan()
            assert sum(path.startswith("memory/keep") for path in paths(scan)) == 20
            assert scan.unreadable == ()
            for file in scan.files:
                corpus.read(file)
    finally:
        churn.kill()
        churn.communicate()


def test_scanning_and_reading_write_nothing(workspace: Path, write: Write) -> None:
    write(workspace, {"MEMORY.md": "m", "memory/sub/a.md": "a"})
    os.utime(workspace / "memory" / "sub" / "a.md", ns=(1, 10**18))

    def everything() -> list[tuple[str, tuple[int, ...]]]:
        found = sorted([workspace, *workspace.rglob("*")])
        states = [(path, path.lstat()) for path in found]
        return [
            (str(path), (s.st_mode, s.st_mtime_ns, s.st_ctime_ns, s.st_size, s.st_atime_ns))
            for path, s in states
        ]

    before = everything()
    corpus = Corpus(workspace, [ExtraPath("memory/sub")])
    for file in corpus.scan().files:
        corpus.read(file)
        corpus.look(file.path)
        corpus.stamp(file)
    after = everything()
    assert [entry for entry in after if entry[0].endswith(".md")] == [
        entry for entry in before if entry[0].endswith(".md")
    ]
    assert [(name, state[:4]) for name, state in after] == [(name, state[:4]) for name, state in before]


_NAMES = ["a.md", "é.md", "B.MD", ".#c.md", "d.txt", ".e.md", "sub", "node_modules", "skip", "f.md~"]


@given(
    paths=st.sets(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3).map("/".join), max_size=8),
    links=st.sets(st.sampled_from(["memory/l.md", "memory/sub2", "memory/.#l.md"])),
)
@settings(max_examples=40)
def test_a_look_at_any_path_decides_as_the_scan_did(paths: set[str], links: set[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        workspace = Path(name)
        (workspace / "memory").mkdir()
        for path in sorted(paths):
            target = workspace / "memory" / path
            if not any(parent.is_file() for parent in target.parents) and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(path)
        for link in links:
            (workspace / link).symlink_to(workspace)
        corpus = Corpus(workspace, [ExtraPath("memory", "sub/*.md")], ["skip/", "sub/a.md"])
        scanned = {file.path: file for file in corpus.scan().files}
        for entry in workspace.rglob("*"):
            found = corpus.look(str(entry.relative_to(workspace)))
            assert scanned.get(str(entry.relative_to(workspace))) == (
                found if isinstance(found, SourceFile) else None
            )
            if isinstance(found, SourceFile):
                assert corpus.relative_hint(os.path.realpath(entry)) == found.path

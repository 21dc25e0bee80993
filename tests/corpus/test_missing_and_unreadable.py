"""What is gone, unmounted or closed to us is unknown and named, never taken for empty."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scan_looks import covers, paths, why

import sidecar
from sidecar.corpus import rules
from sidecar.corpus.rules import ExtraPath
from sidecar.corpus.scan import Corpus

Write = Callable[[Path, dict[str, str]], None]


def test_a_missing_workspace_is_unknown_but_a_missing_memory_folder_is_empty(
    tmp_path: Path, write: Write
) -> None:
    corpus = Corpus(tmp_path / "ws")
    assert why(corpus.scan().unreadable) == {".": rules.MISSING}
    write(tmp_path, {"ws/USER.md": "u", "ws/memory/a.md": "a"})
    assert paths(corpus.scan()) == ["USER.md", "memory/a.md"]
    shutil.rmtree(tmp_path / "ws" / "memory")
    scan = corpus.scan()
    assert (paths(scan), scan.unreadable) == (["USER.md"], ())
    shutil.rmtree(tmp_path / "ws")
    gone = corpus.scan()
    assert covers(corpus, gone, "memory/a.md")
    assert not covers(corpus, gone, "../shared/a.md")


def test_an_extra_folder_deleted_is_empty_but_gone_with_its_parent_is_unknown(
    tmp_path: Path, workspace: Path, write: Write
) -> None:
    write(tmp_path, {"disk/notes/a.md": "a"})
    corpus = Corpus(workspace, [ExtraPath("../disk/notes")])
    assert paths(corpus.scan()) == ["../disk/notes/a.md"]
    (tmp_path / "disk").rename(tmp_path / "unplugged")
    scan = corpus.scan()
    assert why(scan.unreadable) == {"../disk/notes": rules.MISSING}
    assert covers(corpus, scan, "../disk/notes/a.md")
    (tmp_path / "unplugged").rename(tmp_path / "disk")
    shutil.rmtree(tmp_path / "disk" / "notes")
    assert corpus.scan().unreadable == ()


_UNMOUNTED = """
import json, os, pathlib, subprocess, sys
from sidecar.corpus.scan import Corpus
workspace = pathlib.Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "none", str(workspace)], check=True)
(workspace / "memory").mkdir()
(workspace / "memory" / "a.md").write_text("a")
corpus = Corpus(workspace)
first = corpus.scan()
subprocess.run(["umount", str(workspace)], check=True)
second = corpus.scan()
(workspace / "memory").mkdir()
third = corpus.scan()
scans = (first, second, third)
print(json.dumps([[len(scan.files), [entry.reason for entry in scan.unreadable]] for scan in scans]))
"""


def test_an_unmounted_workspace_is_unknown_and_not_empty(workspace: Path) -> None:
    namespace = ["unshare", "-Urm"]
    if subprocess.run(
        [*namespace, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    ).returncode:
        pytest.skip("nothing can be mounted here")
    done = subprocess.run(
        [*namespace, sys.executable, "-c", _UNMOUNTED, str(workspace)],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ, PYTHONPATH=str(Path(sidecar.__file__).parents[1])),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[1, []], [0, [rules.UNMOUNTED]], [0, []]]


def test_a_folder_deeper_than_the_system_can_name_is_skipped_and_named(workspace: Path) -> None:
    (workspace / "memory").mkdir()
    descriptor = os.open(workspace / "memory", os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=descriptor)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    (workspace / "memory" / "z.md").write_text("z")
    corpus = Corpus(workspace)
    scan = corpus.scan()
    assert paths(scan) == ["memory/z.md"]
    assert {entry.reason for entry in scan.skipped} == {rules.PATH_TOO_LONG}
    assert corpus.look("memory/" + "d" * 200 + "/none.md") is None


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that another user can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder)


_AS_ANOTHER_USER = """
import json, os, pathlib, sys
from sidecar.corpus.scan import Corpus
Corpus(pathlib.Path(sys.argv[1])).scan()
if os.geteuid() == 0:  # only now: the interpreter may live where the other user cannot read
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
workspace, refused = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
try:
    list(refused.iterdir()) if refused.is_dir() else refused.read_text()
    raise SystemExit(f"this user is not refused {refused}")
except PermissionError:
    pass
corpus = Corpus(workspace)
scan = corpus.scan()
look = corpus.look(sys.argv[3])
print(json.dumps({
    "files": [file.path for file in scan.files],
    "skipped": [[entry.path, entry.reason] for entry in scan.skipped],
    "unreadable": [[entry.path, entry.reason] for entry in scan.unreadable],
    "look": getattr(look, "reason", None),
    "covers": any(corpus.is_below(sys.argv[3], folder.path) for folder in scan.unreadable),
}))
"""


def _as_another_user(workspace: Path, refused: Path, path: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", _AS_ANOTHER_USER, str(workspace), str(refused), path],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=dict(os.environ, PYTHONPATH=str(Path(sidecar.__file__).parents[1]), PYTHONDONTWRITEBYTECODE="1"),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_unreadable_folder_is_named_and_never_taken_for_empty(shared_folder: Path, write: Write) -> None:
    write(shared_folder, {"MEMORY.md": "m", "memory/a.md": "a", "memory/closed/b.md": "b"})
    closed = shared_folder / "memory" / "closed"
    closed.chmod(0)
    seen = _as_another_user(shared_folder, closed, "memory/closed/b.md")
    assert seen["files"] == ["MEMORY.md", "memory/a.md"]
    assert seen["unreadable"] == [["memory/closed", rules.PERMISSION_DENIED]]
    assert (seen["look"], seen["covers"]) == (rules.PERMISSION_DENIED, True)
    (shared_folder / "memory").chmod(0)
    seen = _as_another_user(shared_folder, shared_folder / "memory", "memory/a.md")
    assert (seen["files"], seen["covers"]) == (["MEMORY.md"], True)


def test_a_folder_that_can_be_listed_but_not_entered_counts_as_unreadable(
    shared_folder: Path, write: Write
) -> None:
    write(shared_folder, {"memory/a.md": "a"})
    (shared_folder / "memory").chmod(0o444)
    seen = _as_another_user(shared_folder, shared_folder / "memory" / "a.md", "memory/a.md")
    assert (seen["files"], seen["unreadable"]) == ([], [["memory", rules.PERMISSION_DENIED]])


def test_an_unreadable_file_is_named_and_the_others_are_found(shared_folder: Path, write: Write) -> None:
    write(shared_folder, {"memory/a.md": "a", "memory/secret.md": "s"})
    (shared_folder / "memory" / "secret.md").chmod(0)
    seen = _as_another_user(shared_folder, shared_folder / "memory" / "secret.md", "memory/secret.md")
    assert (seen["files"], seen["unreadable"]) == (["memory/a.md"], [])
    assert seen["skipped"] == [["memory/secret.md", rules.PERMISSION_DENIED]]
    assert seen["look"] == rules.PERMISSION_DENIED

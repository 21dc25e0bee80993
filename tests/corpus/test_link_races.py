"""Names that become links between one look and the next lead nowhere (spec §6)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.corpus.scan import Corpus, FileRead

SECRET = b"an outsider's secret"
LOOKS = 2000


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What lies beside the workspace under the names that are in it."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "a.md").write_bytes(SECRET)
    return folder


def flip_file(workspace: Path, outside: Path) -> Iterator[None]:
    """`memory/sub/a.md` is a file and a link by turns, each time by one rename."""
    name = workspace / "memory" / "sub" / "a.md"
    scratch = name.with_name("scratch")
    while True:
        scratch.symlink_to(outside / "a.md")
        scratch.replace(name)
        yield
        scratch.write_bytes(b"inside")  # through no link: the name is free
        scratch.replace(name)
        yield


def flip_folder(workspace: Path, outside: Path) -> Iterator[None]:
    """`memory/sub` is a folder and a link by turns."""
    name, kept = workspace / "memory" / "sub", workspace / "kept"
    while True:
        name.rename(kept)
        name.symlink_to(outside)
        yield
        name.unlink()
        kept.rename(name)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("flip", [flip_file, flip_folder])
def test_whoever_swaps_names_for_links_while_they_are_read_gets_nothing_from_outside(
    workspace: Path, outside: Path, flip: Callable[[Path, Path], Iterator[None]]
) -> None:
    (workspace / "memory" / "sub").mkdir(parents=True)
    (workspace / "memory" / "sub" / "a.md").write_bytes(b"inside")
    over = threading.Event()
    flips = 0

    def swap() -> None:
        nonlocal flips
        for _ in flip(workspace, outside):
            flips += 1
            if over.is_set():
                return

    swapper = threading.Thread(target=swap)
    swapper.start()
    corpus = Corpus(workspace)
    read = refused = 0
    try:
        while read + refused < LOOKS or not read or not refused:
            found = corpus.read("memory/sub/a.md")
            if isinstance(found, FileRead):
                # A file that is replaced while it is read may come empty, never as another one.
                assert found.data in (b"inside", b"")
                read += 1
                continue
            refused += 1
            if refused % 50 == 0:
                for file in corpus.scan().files:
                    assert file.stamp.size != len(SECRET)
    finally:
        over.set()
        swapper.join()
    assert flips > 100

"""Opening and reading one file: regular, inside its root, through no link, bounded (spec §6)."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.corpus import opening, rules
from sidecar.corpus.opening import open_regular, read_lines, read_stable
from sidecar.domain.errors import CorpusError
from sidecar.text.lines import decode, split_lines


def _reason(root: Path, relative: str) -> str:
    with pytest.raises(CorpusError) as caught:
        os.close(open_regular(root, relative))
    assert str(root) not in str(caught.value)
    return caught.value.reason


def test_a_regular_file_is_read_with_its_stamp(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.md").write_bytes(b"one\r\ntwo")
    read = read_stable(tmp_path, "a/b.md")
    assert (read.data, read.note) == (b"one\r\ntwo", None)
    assert read.stamp == opening.stamp_of((tmp_path / "a" / "b.md").stat())


def test_no_link_is_followed_in_any_component(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "s.md").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "file.md").symlink_to(tmp_path / "outside" / "s.md")
    (root / "folder").symlink_to(tmp_path / "outside")
    assert _reason(root, "file.md") == rules.LINK
    assert _reason(root, "folder/s.md") in {rules.LINK, rules.MISSING}


@pytest.mark.parametrize("relative", ["", "..", "../x.md", "a/../x.md", "/etc/passwd", "a//b", ".", "x\0.md"])
def test_a_relative_path_that_is_not_plain_names_opens_nothing(tmp_path: Path, relative: str) -> None:
    (tmp_path / "x.md").write_text("x")
    (tmp_path / "root").mkdir()
    assert _reason(tmp_path / "root", relative) == rules.MISSING


def test_pipes_sockets_and_folders_are_refused_at_once_and_a_pipes_writer_is_not_woken(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "dir.md").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s.md"))
        assert _reason(tmp_path, "s.md") == rules.SOCKET
    assert _reason(tmp_path, "pipe.md") == rules.PIPE
    assert _reason(tmp_path, "dir.md") == rules.FOLDER
    with pytest.raises(OSError, match="No such device"):
        os.open(tmp_path / "pipe.md", os.O_WRONLY | os.O_NONBLOCK)


def test_reading_leaves_the_access_time_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("x")
    os.utime(path, ns=(10**18, 2 * 10**18))
    read_stable(tmp_path, "a.md")
    read_lines(tmp_path, "a.md", 1, 1, 10)
    assert path.stat().st_atime_ns == 10**18


def test_a_larger_file_is_read_up_to_its_last_line_end_within_the_bound(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"12345\n" * 10)
    read = read_stable(tmp_path, "a.md", max_bytes=20)
    assert (read.data, read.note) == (b"12345\n" * 3, rules.TOO_LARGE)
    assert read_stable(tmp_path, "a.md", max_bytes=60).note is None


def test_one_endless_line_is_cut_between_characters(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("é" * 50 + "😀" * 50)
    for bound in range(95, 115):
        read = read_stable(tmp_path, "a.md", max_bytes=bound)
        assert bound - 3 <= len(read.data) <= bound
        read.data.decode()


def test_a_file_that_is_written_all_the_time_is_still_read_and_said_to_be_changing(tmp_path: Path) -> None:
    path = tmp_path / "log.md"
    path.write_bytes(b"x" * 1_000_000 + b"\n")
    script = "import sys\nout = open(sys.argv[1], 'r+b', 0)\nwhile out.write(b'y'):\n    out.seek(0)\n"
    writer = subprocess.Popen([sys.executable, "-c", script, str(path)])
    try:
        deadline = time.monotonic() + 30
        while (read := read_stable(tmp_path, "log.md")).note is None:
            assert time.monotonic() < deadline
    finally:
        writer.kill()
        writer.wait()
    assert (read.note, len(read.data)) == (rules.CHANGING, 1_000_001)
    assert read.stamp != opening.stamp_of(path.stat())


def test_a_file_under_another_programs_lease_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "leased.md"
    path.write_text("here")
    held = os.open(path, os.O_RDWR)
    asked = []

    def release(*_: object) -> None:
        asked.append(True)
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK)

    before = signal.signal(signal.SIGIO, release)
    try:
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        assert read_stable(tmp_path, "leased.md").data == b"here"
        assert asked
    finally:
        signal.signal(signal.SIGIO, before)
        os.close(held)


_LINES = st.lists(
    st.binary(max_size=6) | st.sampled_from(["é".encode(), "日本".encode(), b"\r", b"\xff", b"\0", b""]),
    max_size=8,
)


@given(
    lines=_LINES,
    mark=st.sampled_from([b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"]),
    ends=st.booleans(),
    start=st.integers(1, 9),
    count=st.integers(0, 9),
)
@settings(max_examples=120)
def test_lines_read_in_part_are_the_lines_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    mark: bytes,
    ends: bool,
    start: int,
    count: int,
) -> None:
    folder = tmp_path_factory.getbasetemp()
    data = mark + b"\n".join(lines) + (b"\n" if ends else b"")
    (folder / "part.md").write_bytes(data)
    whole = split_lines(decode(data).text)
    assert read_lines(folder, "part.md", start, count, 10_000) == whole[start - 1 : start - 1 + count]


def test_lines_deep_in_a_huge_file_are_exact_and_bounded(tmp_path: Path) -> None:
    with (tmp_path / "big.md").open("w", encoding="utf-8") as out:
        out.writelines(f"line {number} é日😀\n" for number in range(1, 200_001))
    assert read_lines(tmp_path, "big.md", 199_999, 5, 1000) == ["line 199999 é日😀", "line 200000 é日😀"]
    assert read_lines(tmp_path, "big.md", 200_001, 5, 1000) == []
    some = read_lines(tmp_path, "big.md", 100, 100_000, 1000)
    assert sum(len(line.encode()) + 1 for line in some) <= 1001
    assert some[0] == "line 100 é日😀"


def test_a_line_beyond_the_bound_is_cut_there(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("first\n" + "é" * 1_000_000 + "\nlast\n")
    assert read_lines(tmp_path, "a.md", 2, 3, 101) == ["é" * 50]


def test_many_reads_leave_no_descriptor_open(tmp_path: Path, write: Callable[..., None]) -> None:
    write(tmp_path, {"a/b/c.md": "x"})
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        read_stable(tmp_path, "a/b/c.md")
        read_lines(tmp_path, "a/b/c.md", 1, 1, 10)
        for missing in ("a/b/none.md", "a/none/c.md", "a/b"):
            assert _reason(tmp_path, missing)
    assert len(list(Path("/proc/self/fd").iterdir())) == before

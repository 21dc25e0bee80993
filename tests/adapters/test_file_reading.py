"""A read by path gives what U§12 says, in its words, and never anything from outside of the workspace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sidecar.adapters.file_reading import FileReading

from sidecar.corpus.rules import ExtraPath
from sidecar.corpus.scan import Corpus
from sidecar.domain.errors import ProviderFailed
from sidecar.domain.file_shaped import FileRead, FileText

NOT_ALLOWED = "path is not an allowed Markdown memory file"
OUTSIDE = "file is outside workspace root"
NOT_REGULAR = "path must be a regular file"
MORE = "\n\n[More content available. Use from={} to continue.]"
OVER = "[More content available. Requested excerpt exceeded the default maxChars budget."
USE_READ = " If you need the full raw line, use read on the source file.]"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace with something of everything, an extra folder, and what lies outside."""
    files = {
        "ws/MEMORY.md": "- one\n- two\n",
        "ws/USER.md": "user",
        "ws/DREAMS.md": "dreams",
        "ws/SOUL.md": "soul",
        "ws/notes/aside.md": "aside",
        "ws/memory/a.md": "a1\na2\na3\n",
        "ws/memory/empty.md": "",
        "ws/memory/plain.txt": "txt",
        "ws/memory/LOUD.MD": "loud",
        "ws/memory/node_modules/dep.md": "dep",
        "ws/memory/private/secret.md": "secret",
        "outside/secret.md": "outside",
        "extra/runbooks/r.md": "runbook",
        "extra/other.md": "other",
        "single.md": "single",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    memory = tmp_path / "ws" / "memory"
    (memory / "folder.md").mkdir()
    (memory / "link.md").symlink_to("a.md")
    (memory / "escape.md").symlink_to(tmp_path / "outside" / "secret.md")
    (memory / "dangling.md").symlink_to(tmp_path / "outside" / "gone.md")
    (memory / "inside").symlink_to(tmp_path / "ws" / "notes")
    (memory / "out").symlink_to(tmp_path / "outside")
    (memory / "hidden").symlink_to(memory / "private")
    (tmp_path / "extra" / "runbooks" / "link.md").symlink_to(tmp_path / "outside" / "secret.md")
    (tmp_path / "extra" / "linked").symlink_to(tmp_path / "outside")
    return tmp_path


@pytest.fixture
def reading(place: Path) -> FileReading:
    extra = [ExtraPath(str(place / "extra"), "runbooks/**/*.md"), ExtraPath(str(place / "single.md"))]
    return FileReading(Corpus(place / "ws", extra, ["memory/private/"]))


def read(reading: FileReading, path: str, **bounds: float) -> FileText:
    return reading.read(FileRead(path=path, from_line=bounds.get("from_"), line_count=bounds.get("lines")))


@pytest.mark.parametrize(
    ("path", "text", "shown"),
    [
        ("MEMORY.md", "- one\n- two", "MEMORY.md"),
        (" ./memory//a.md ", "a1\na2\na3", "memory/a.md"),
        ("USER.md", "user", "USER.md"),
        ("DREAMS.md", "dreams", "DREAMS.md"),
        ("memory/node_modules/dep.md", "dep", "memory/node_modules/dep.md"),
        ("memory/inside/aside.md", "aside", "memory/inside/aside.md"),
        ("memory/empty.md", "", "memory/empty.md"),
        ("{place}/ws/memory/a.md", "a1\na2\na3", "memory/a.md"),
        ("{place}/extra/runbooks/r.md", "runbook", "../extra/runbooks/r.md"),
        ("../extra/runbooks/r.md", "runbook", "../extra/runbooks/r.md"),
        ("../single.md", "single", "../single.md"),
    ],
)
def test_an_allowed_path_is_read_whether_it_is_indexed_or_not(
    reading: FileReading, place: Path, path: str, text: str, shown: str
) -> None:
    answer = read(reading, path.replace("{place}", str(place)))
    assert (answer.status, answer.text, answer.path, answer.truncated) == ("ok", text, shown, False)
    assert (answer.from_line, answer.line_count) == (1, len(text.split("\n")) if text else 0)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "path required"),
        ("  \n", "path required"),
        ("memory/a\0.md", "relative path contains a NUL byte"),
        ("memory", NOT_ALLOWED),
        ("memory.md", NOT_ALLOWED),
        ("SOUL.md", NOT_ALLOWED),
        ("notes/aside.md", NOT_ALLOWED),
        ("memory/plain.txt", NOT_ALLOWED),
        ("memory/LOUD.MD", NOT_ALLOWED),
        ("../outside/secret.md", NOT_ALLOWED),
        ("memory/../../outside/secret.md", NOT_ALLOWED),
        ("/etc/passwd", NOT_ALLOWED),
        ("sessions/main/5f0c.jsonl", NOT_ALLOWED),
        ("memory/private/secret.md", NOT_ALLOWED),
        ("memory/hidden/secret.md", NOT_ALLOWED),
        ("../extra/other.md", NOT_ALLOWED),
        ("../extra/runbooks/link.md", NOT_ALLOWED),
        ("../extra/linked/secret.md", NOT_ALLOWED),
        ("../single.md/child.md", NOT_ALLOWED),
        ("memory/out/secret.md", OUTSIDE),
        ("memory/out/none.md", OUTSIDE),
        ("memory/escape.md", OUTSIDE),
        ("memory/dangling.md", OUTSIDE),
        ("memory/link.md", NOT_REGULAR),
        ("memory/folder.md", NOT_REGULAR),
    ],
)
def test_any_other_path_is_refused_in_upstreams_words(reading: FileReading, path: str, message: str) -> None:
    with pytest.raises(ProviderFailed) as caught:
        read(reading, path)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("memory/none.md", "memory/none.md"),
        ("memory/no/such/folder.md", "memory/no/such/folder.md"),
        ("../extra/runbooks/none.md", "../extra/runbooks/none.md"),
        ("memory/inside/none.md", "memory/inside/none.md"),
    ],
)
def test_what_is_not_there_is_not_found_and_not_refused(reading: FileReading, path: str, shown: str) -> None:
    assert read(reading, path) == FileText(status="not_found", text="", path=shown)


@pytest.mark.parametrize(
    ("bounds", "text", "first", "lines", "following"),
    [
        ({"lines": 2}, "a1\na2" + MORE.format(3), 1, 2, 3),
        ({"from_": 2, "lines": 1}, "a2" + MORE.format(3), 2, 1, 3),
        ({"from_": 2.9, "lines": 1.9}, "a2" + MORE.format(3), 2, 1, 3),
        ({"from_": 3}, "a3", 3, 1, None),
        ({"from_": 0, "lines": 0}, "a1" + MORE.format(2), 1, 1, 2),
        ({"from_": -3}, "a1\na2\na3", 1, 3, None),
        ({"from_": 4}, "", 4, 0, None),
        ({"from_": float("inf"), "lines": float("nan")}, "a1\na2\na3", 1, 3, None),
    ],
)
def test_the_bounds_are_floored_and_a_cut_text_says_where_it_goes_on(
    reading: FileReading, bounds: dict[str, float], text: str, first: int, lines: int, following: int | None
) -> None:
    answer = read(reading, "memory/a.md", **bounds)
    assert (answer.text, answer.from_line, answer.line_count) == (text, first, lines)
    assert (answer.truncated, answer.next_from) == (following is not None, following)


def test_a_read_ends_at_120_lines_or_12000_characters(reading: FileReading, place: Path) -> None:
    (place / "ws/memory/long.md").write_text("x\n" * 121)
    answer = read(reading, "memory/long.md")
    assert (answer.line_count, answer.next_from) == (120, 121)
    (place / "ws/memory/wide.md").write_text("".join(f"{'w' * 3999}\n" for _ in range(5)))
    answer = read(reading, "memory/wide.md")
    assert answer.text == "\n".join(["w" * 3999] * 3) + MORE.format(4)
    assert read(reading, "memory/wide.md", lines=500).next_from == 4
    (place / "ws/memory/wide.md").write_text("w" * 5999 + "\n" + "w" * 6000)
    assert read(reading, "memory/wide.md").truncated is False, "exactly 12,000 with the separator"
    (place / "ws/memory/wide.md").write_text("w" * 6000 + "\n" + "w" * 6000)
    assert read(reading, "memory/wide.md").next_from == 2


@pytest.mark.parametrize("character", ["x", "é", "漢", "🙂"])
def test_one_line_over_the_budget_is_cut_between_characters_and_cannot_be_continued(
    reading: FileReading, place: Path, character: str
) -> None:
    (place / "ws/memory/line.md").write_text("a" + character * 13_000 + "\nnext\n")
    answer = read(reading, "memory/line.md")
    text, _, notice = answer.text.partition("\n\n")
    assert notice == OVER + USE_READ
    assert len(text.encode("utf-16-le")) // 2 in (12_000, 11_999)
    assert set(text[1:]) == {character}
    assert (answer.line_count, answer.truncated, answer.next_from) == (1, True, None)
    (place / "single.md").write_text(character * 13_000)
    assert read(reading, "../single.md").text.endswith(f"\n\n{OVER}]")


def test_a_note_of_any_size_is_read_from_the_middle(reading: FileReading, place: Path) -> None:
    with (place / "ws/memory/huge.md").open("w") as file:
        file.writelines(f"line {number} {'.' * 90}\n" for number in range(1, 200_001))
    answer = read(reading, "memory/huge.md", from_=199_999, lines=1)
    assert answer.text.startswith("line 199999 ")
    assert answer.next_from == 200_000


def test_a_file_that_may_not_be_read_is_a_failure_and_not_an_absence(
    reading: FileReading, place: Path
) -> None:
    if os.geteuid() == 0:
        os.mkfifo(place / "ws/memory/pipe.md")
        with pytest.raises(ProviderFailed, match=NOT_REGULAR):
            read(reading, "memory/pipe.md")
        return
    (place / "ws/memory/a.md").chmod(0)
    with pytest.raises(ProviderFailed, match="memory file cannot be read: permission-denied"):
        read(reading, "memory/a.md")

"""A hit shows the text that matched, with the lines where it stands on disk (T7)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

LINE = 317
PLAIN = [f"Page {number} of the handbook tells about item {number}." for number in range(1, 401)]
HUGE_BYTES = 300 * 1024 * 1024
MEMORY_LIMIT_KIB = 512 * 1024


def handbook(word: str, *, front: bool = False, tabs: bool = False) -> str:
    """400 lines with the word on line 317, without a last newline."""
    lines = list(PLAIN)
    if front:
        lines[:4] = ["---", "title: Handbook", "tags: [house]", "---"]
    lines[LINE - 1] = f"The {word} is kept behind the panel."
    return "\n".join(f"\t{line}" if tabs and number % 3 == 0 else line for number, line in enumerate(lines))


HANDBOOKS = {
    "ocarina": handbook("ocarina") + "\n",
    "zither": handbook("zither", front=True) + "\n",
    "bassoon": handbook("bassoon", tabs=True) + "\n",
    "clavier": handbook("clavier"),
}
FENCES = [
    "# Attic", "", "````sh", "```", "# fetch parts", "```", "````", "", "~~~", "# not a heading either",
    "~~~", "", "Underlined", "----------", "", "## Empty", *[""] * 200, "## Insulation", "",
    "The rockwool for the gable is ordered.", "",
]  # fmt: skip


@pytest.fixture(scope="module")
def workspace_of_all(tmp_path_factory: Any) -> Path:
    workspace: Path = tmp_path_factory.mktemp("workspace")
    (workspace / "memory").mkdir()
    for word, text in HANDBOOKS.items():
        (workspace / "memory" / f"{word}.md").write_text(text, encoding="utf-8", newline="")
    (workspace / "memory" / "fences.md").write_text("\n".join(FENCES), encoding="utf-8")
    (workspace / "MEMORY.md").write_bytes(b"\xef\xbb\xbfKeyring under the fern\n\nSecond entry\n")
    (workspace / "memory" / "u16.md").write_text("The sundial needs paint\n", encoding="utf-16")
    (workspace / "memory" / "l1.md").write_bytes("Das Geländer am Pavillon wackelt\n".encode("latin-1"))
    return workspace


@pytest.fixture(scope="module")
def started(shared_launcher: Any, workspace_of_all: Path) -> Any:
    return shared_launcher.serve(workspace_of_all)


@pytest.fixture
async def service(started: Any) -> Any:
    await started.ready()
    return started


@pytest.mark.parametrize("word", HANDBOOKS)
async def test_a_hit_deep_in_a_file_shows_the_matching_line_with_its_own_number(
    service: Any, workspace_of_all: Path, both: Any, read_lines: Any, word: str
) -> None:
    """BR-40."""
    hit = (await both(service, word))[0]
    assert hit.path == f"memory/{word}.md"
    assert 1 <= hit.start <= LINE <= hit.end <= 400
    assert word in hit.text.split("\n")[LINE - hit.start]
    on_disk = (workspace_of_all / hit.path).read_text(encoding="utf-8").split("\n")
    assert hit.text == "\n".join(on_disk[hit.start - 1 : hit.end])
    assert (await read_lines(service, hit.path, hit.start, hit.end))["text"] == hit.text


async def test_a_byte_order_mark_neither_hides_the_first_line_nor_shows(
    service: Any, both: Any, read_lines: Any
) -> None:
    """BR-42."""
    hit = (await both(service, "keyring"))[0]
    assert (hit.path, hit.start) == ("MEMORY.md", 1)
    assert hit.text.startswith("Keyring under the fern")
    assert (await read_lines(service, "MEMORY.md", 1, 1))["text"] == "Keyring under the fern"


async def test_utf_16_is_read_and_latin_1_read_as_far_as_it_goes_and_named(service: Any, both: Any) -> None:
    """BR-42."""
    hit = (await both(service, "sundial"))[0]
    assert (hit.path, hit.text) == ("memory/u16.md", "The sundial needs paint")
    assert (await both(service, "Pavillon"))[0].path == "memory/l1.md"
    skipped = (await service.call("memory.status", {}))["details"]["partlyIndexed"]
    assert "memory/l1.md" in [item["path"] for item in skipped]


async def test_fences_and_blank_lines_leave_text_headings_and_line_numbers_as_they_are(
    service: Any, both: Any
) -> None:
    """BR-46."""
    fence = (await both(service, "fetch parts"))[0]
    assert fence.path == "memory/fences.md"
    assert "# fetch parts" in FENCES[fence.start - 1 : fence.end]
    for query in ("rockwool", "attic insulation rockwool", "Insulation"):
        hit = (await both(service, query))[0]
        assert hit.path == "memory/fences.md"
        assert FENCES.index("The rockwool for the gable is ordered.") + 1 in range(hit.start, hit.end + 1)
    for query in ("fetch parts", "rockwool", "Empty", "Underlined", "attic"):
        for hit in await both(service, query, minScore=0, maxResults=50):
            assert hit.text.strip() != ""
            if hit.path == "memory/fences.md":
                assert hit.text.split("\n") == FENCES[hit.start - 1 : hit.end]


@pytest.mark.slow
async def test_a_few_lines_of_a_huge_file_are_read_at_once_while_other_notes_are_found(
    launcher: Any, workspace: Path, write: Any, both: Any, read_lines: Any, words_only: Any, eventually: Any
) -> None:
    """BR-44. The beginning of the file, up to a stated cap, is indexed and the file named in status."""
    write(workspace, {f"memory/n{number}.md": f"The kiln number {number} is cold.\n" for number in range(20)})
    line = "The ledger goes on with entry after entry about grain and salt and rope.\n"
    piece = (line * (1024 * 1024 // len(line) + 1)).encode()
    with (workspace / "memory" / "huge.md").open("wb") as file:
        file.write(b"".join(b"Head line %d.\n" % number for number in range(1, 21)))
        while file.tell() < HUGE_BYTES:
            file.write(piece)
    service = launcher.serve(workspace, environment=words_only)
    process = Path("/proc") / str(service.process.pid) / "status"

    async def kiln() -> bool:
        return len((await service.search("kiln"))["hits"]) == 20

    await eventually(kiln)
    took: list[float] = []
    for _ in range(3):
        began = time.monotonic()
        answer = await read_lines(service, "memory/huge.md", 10, 14)
        took.append(time.monotonic() - began)
        assert answer["text"].split("\n") == [f"Head line {number}." for number in range(10, 15)]
        assert len(await both(service, "kiln")) == 20
    assert min(took) < 1
    await service.ready()
    details = (await service.call("memory.status", {}))["details"]
    assert ("memory/huge.md", "too-large") in [
        (item["path"], item["reason"]) for item in details["partlyIndexed"]
    ]
    assert (await both(service, "head line"))[0].path == "memory/huge.md"
    peak = next(row for row in process.read_text().splitlines() if row.startswith("VmHWM"))
    assert int(peak.split()[1]) < MEMORY_LIMIT_KIB
    assert service.stop() == 0

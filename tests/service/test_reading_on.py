"""Reading on by `nextFrom` gives the whole text exactly once, whatever is in it (spec §5.1, get)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from reads import Get, read_on

from sidecar.corpus.scan import Corpus
from sidecar.domain.memory import Found, GetRequest, Reference
from sidecar.service import reading
from sidecar.service.reading import Reader
from sidecar.text.lines import revision, split_lines

OWN = "memory-sidecar"
PATH = "memory/a.md"

WORDS = st.sampled_from(["valve ", "é", "日本", "😀", "e\u0301", "👩\u200d🚀", "\r", "\t", "x" * 99, ""])
SHORT = st.lists(WORDS, max_size=2).map("".join)
LONG = st.tuples(WORDS, st.sampled_from([500, 5_999, 6_001, 12_000, 12_001, 25_000])).map(
    lambda made: (made[0] * (made[1] // max(1, len(made[0])) + 1))[: made[1]]
)
RUNS = st.one_of(
    st.tuples(SHORT, st.sampled_from([1, 1, 2, 119, 120, 121, 300])), st.tuples(LONG, st.sampled_from([1, 2]))
).map(lambda run: [run[0]] * run[1])
TEXTS = st.lists(RUNS, min_size=1, max_size=4).map(lambda runs: [line for run in runs for line in run])


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("workspace")
    (directory / "memory").mkdir()
    return directory


@pytest.fixture(scope="module")
def get(workspace: Path) -> Get:
    return Reader(Corpus(workspace, [], []), OWN).get


def write(workspace: Path, lines: list[str], *, end: str = "\n") -> list[str]:
    """Write a note; gives its lines as they are counted."""
    text = "\n".join(lines) + end
    (workspace / PATH).write_text(text, encoding="utf-8", newline="")
    return split_lines(text)


@pytest.mark.parametrize("whole", [True, False], ids=["in memory", "in pieces"])
@settings(max_examples=12, suppress_health_check=[*HealthCheck])
@given(lines=TEXTS, most=st.sampled_from([None, None, 1, 7, 500]), end=st.sampled_from(["", "\n"]))
@example(lines=["x" * 30_000], most=None, end="")
@example(lines=["x" * 12_001, "y", "", "z" * 24_000], most=1, end="\n")
def test_a_note_is_read_whole_and_no_line_twice(
    workspace: Path, get: Get, whole: bool, lines: list[str], most: int | None, end: str
) -> None:
    written = write(workspace, lines, end=end)
    request = GetRequest(reference=Reference(provider_id=OWN, id=PATH), line_count=most)
    with pytest.MonkeyPatch.context() as patch:
        if not whole:
            patch.setattr(reading, "WHOLE_READ_BYTES", -1)
        assert read_on(get, request) == written


@settings(max_examples=25, suppress_health_check=[*HealthCheck])
@given(
    lines=TEXTS,
    most=st.sampled_from([None, None, 1, 7, 500]),
    above=st.integers(0, 3),
    cut=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    named=st.booleans(),
)
def test_what_a_reference_names_is_read_whole_and_nothing_beyond_it(
    workspace: Path,
    get: Get,
    lines: list[str],
    most: int | None,
    above: int,
    cut: tuple[float, float],
    named: bool,
) -> None:
    """With a revision also after the text has moved: `from` counts as the asked reference does."""
    written = write(workspace, lines)
    if not written:
        return
    start, end = sorted(1 + round(share * (len(written) - 1)) for share in cut)
    text = written[start - 1 : end]
    reference = Reference(provider_id=OWN, id=PATH, fragment=f"L{start}-L{end}")
    if named:
        reference = msgspec.structs.replace(reference, revision=revision(text))
        written = write(workspace, ["above"] * above + written)
    assert read_on(get, GetRequest(reference=reference, line_count=most)) == text


def test_a_from_outside_a_fragment_chooses_lines_by_itself(workspace: Path, get: Get) -> None:
    write(workspace, [f"line {number}" for number in range(1, 31)])
    hit = Reference(provider_id=OWN, id=PATH, fragment="L10-L12")
    for start, most, shown in ((1, 3, (1, 3)), (10, 20, (10, 29)), (11, 20, (11, 12)), (13, 2, (13, 14))):
        found = get(GetRequest(reference=hit, from_line=start, line_count=most))
        assert isinstance(found, Found)
        assert found.text.split("\n") == [f"line {number}" for number in range(shown[0], shown[1] + 1)]


@pytest.mark.parametrize("whole", [True, False], ids=["in memory", "in pieces"])
def test_characters_of_a_line_are_given_as_far_as_they_are_there(
    workspace: Path, get: Get, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    if not whole:
        monkeypatch.setattr(reading, "WHOLE_READ_BYTES", -1)
    write(workspace, ["first", "0123456789é日😀" * 20_000, "last"])
    for fragment, text in (
        ("L1-L1@c2-4", "rs"),
        ("L1-L1@c2-400", "rst"),
        ("L1-L1@c5-9", None),
        ("L2-L2@c259999-260009", "😀"),
        ("L2-L2@c130000-130013", "0123456789é日😀"),
        ("L2-L2@c260000-260001", None),
        ("L3-L3@c0-4", "last"),
        ("L4-L4@c0-4", None),
    ):
        found = get(GetRequest(reference=Reference(provider_id=OWN, id=PATH, fragment=fragment)))
        assert (found.text if isinstance(found, Found) else None) == text, fragment


def test_a_read_past_a_named_text_is_empty_and_keeps_its_name(workspace: Path, get: Get) -> None:
    lines = write(workspace, ["one", "two", "three", "four"])
    named = Reference(provider_id=OWN, id=PATH, fragment="L2-L3", revision=revision(lines[1:3]))
    found = get(GetRequest(reference=named, from_line=9))
    assert isinstance(found, Found)
    assert (found.text, found.line_count, found.reference) == ("", 0, named)

"""Worker processes for large scans: the same documents, started late, ended always, never missed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.corpus.scan import Corpus
from sidecar.domain.errors import Halted
from sidecar.service.preparing import WORTH_FILES, Preparers, Work, prepared

NOTES = WORTH_FILES + 3


@pytest.fixture
def works(tmp_path: Path) -> list[Work]:
    folder = tmp_path / "workspace" / "memory"
    folder.mkdir(parents=True)
    for number in range(NOTES):
        (folder / f"{number:03}.md").write_text(
            f"# Note {number}\n\n- {'Straße ' * (number % 5)}会議 <!-- project: acme/{number} -->\n\ntext\n"
        )
    corpus = Corpus(tmp_path / "workspace")
    reads = [read for file in corpus.scan().files if (read := corpus.read(file)) is not None]
    found = [Work(read, settled=number % 2 == 0, known_hash=None) for number, read in enumerate(reads)]
    unchanged = prepared(found[:1])[0]
    found[0] = Work(found[0].read, settled=True, known_hash=getattr(unchanged, "content_hash", None))
    assert len(found) == NOTES
    return found


@pytest.fixture
def preparers() -> Iterator[Preparers]:
    made = Preparers(2)
    yield made
    made.close()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_processes_give_the_same_documents_in_the_same_order_and_end_with_their_last_holder(
    preparers: Preparers, works: list[Work]
) -> None:
    here = prepared(works)
    assert preparers.prepare(works, "one") == here
    first = preparers.running
    assert len(first) == 2
    assert preparers.prepare(works, "other") == here
    assert preparers.running == first
    preparers.release("one")
    assert preparers.running == first
    preparers.release("other")
    assert preparers.running == ()
    assert all(map(gone, first))


def test_a_few_files_start_no_process(preparers: Preparers, works: list[Work]) -> None:
    few = works[: WORTH_FILES - 1]
    assert preparers.prepare(few, "one") == prepared(few)
    assert preparers.running == ()


def test_a_process_that_was_killed_costs_no_document(preparers: Preparers, works: list[Work]) -> None:
    preparers.prepare(works, "one")
    killed = preparers.running
    os.kill(killed[0], signal.SIGKILL)
    assert preparers.prepare(works, "one") == prepared(works)
    assert preparers.running == ()
    assert all(map(gone, killed))


def test_one_core_prepares_by_itself(works: list[Work]) -> None:
    alone = Preparers(1)
    assert alone.prepare(works, "one") == prepared(works)
    assert alone.running == ()


def test_work_that_nobody_waits_for_ends_with_its_processes_and_the_next_starts_new_ones(
    preparers: Preparers, works: list[Work]
) -> None:
    def give_up() -> None:
        raise Halted("nobody waits for this any more")

    preparers.prepare(works, "one")
    given_up = preparers.running
    os.kill(given_up[0], signal.SIGSTOP)
    with pytest.raises(Halted):
        preparers.prepare(works, "one", give_up)
    assert preparers.running == ()
    assert all(map(gone, given_up))
    assert preparers.prepare(works, "one") == prepared(works)
    assert len(preparers.running) == 2

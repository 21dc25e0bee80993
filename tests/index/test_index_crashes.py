"""A kill, a failure or a full disk at any step leaves a state that is made whole without help (spec §7)."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from index_builders import (
    DIMENSIONS,
    contents,
    digest,
    document,
    found_by_vector,
    found_by_words,
    open_index,
    put,
    vectors_for,
)

from sidecar.domain.errors import StateError
from sidecar.index.agent_index import AgentIndex

pytestmark = pytest.mark.slow

STEPS = ("announced", "committed", "published", "visible")
OLD = (document("kept.md", "kept"), document("edited.md", "before"), document("gone.md", "departed"))
NEW = (document("edited.md", "after"), document("added.md", "arrived"))

CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from index_builders import open_index, vectors_for
from test_index_crashes import NEW

def at(step):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    index = await open_index(Path(sys.argv[1]), on_step=at)
    await index.apply(NEW, ["gone.md"], vectors=vectors_for(NEW))

asyncio.run(main())
"""


class Stop(Exception):
    """What a test raises inside a change."""


async def prepare(directory: Path) -> None:
    index = await open_index(directory)
    await put(index, *OLD)
    await index.close()


def assert_new(index: AgentIndex) -> None:
    view = index.view()
    assert set(contents(view)) == {"kept.md", "edited.md", "added.md"}
    everything = ("kept", "before", "departed", "after", "arrived")
    assert found_by_words(view, *everything) == {("kept.md", 1), ("edited.md", 1), ("added.md", 1)}
    assert found_by_words(view, "before", "departed") == set()
    assert found_by_vector(view, "after") == ("edited.md", 1)
    assert found_by_vector(view, "departed") is None
    assert view.total("memory").pending == 0


@pytest.mark.parametrize("step", STEPS)
async def test_a_kill_at_any_step_is_completed_by_the_next_start_without_embedding(
    tmp_path: Path, step: str
) -> None:
    await prepare(tmp_path)
    child = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", CHILD, str(tmp_path), step, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    index = await open_index(tmp_path)
    assert_new(index)
    assert bool(index.repairs) == (step in ("announced", "committed"))
    await index.close()
    index = await open_index(tmp_path)
    assert index.repairs == ()
    assert_new(index)
    await index.close()


@pytest.mark.parametrize("step", STEPS[:3])
async def test_a_failure_at_any_step_is_completed_before_the_next_change(tmp_path: Path, step: str) -> None:
    failing = True

    def at(reached: str) -> None:
        if failing and reached == step:
            raise Stop

    await prepare(tmp_path)
    index = await open_index(tmp_path, on_step=at)
    before = index.view()
    with pytest.raises(Stop):
        await index.apply(NEW, ["gone.md"], vectors=vectors_for(NEW))
    assert index.view() is before
    assert found_by_words(before, "departed") == {("gone.md", 1)}
    failing = False
    await put(index, document("later.md", "later"))
    assert index.view().generation > before.generation
    await index.apply(removals=["later.md"])
    assert_new(index)
    await index.close()


@pytest.mark.parametrize("half", ["units", "passages"])
async def test_a_kill_between_the_two_lexical_commits_is_repaired(tmp_path: Path, half: str) -> None:
    state, copies = tmp_path / "state", tmp_path / "copies"
    await prepare(state)
    index = await open_index(state, on_step=lambda step: shutil.copytree(state, copies / step) and None)
    await index.apply(NEW, ["gone.md"], vectors=vectors_for(NEW))
    await index.close()
    torn = copies / "announced"
    shutil.rmtree(torn / "lexical" / "memory-1" / half)
    shutil.copytree(
        copies / "committed" / "lexical" / "memory-1" / half, torn / "lexical" / "memory-1" / half
    )
    index = await open_index(torn)
    assert_new(index)
    await index.close()


async def test_a_catalog_that_lost_its_last_writes_never_lets_old_numbers_name_new_text(
    tmp_path: Path,
) -> None:
    state, copies = tmp_path / "state", tmp_path / "copies"
    await prepare(state)
    shutil.copytree(state, copies / "old")
    index = await open_index(state)
    await index.apply(NEW, ["gone.md"], vectors=vectors_for(NEW))
    await index.close()
    for name in ("catalog.sqlite3", "catalog.sqlite3-wal", "catalog.sqlite3-shm"):
        (state / name).unlink(missing_ok=True)
    shutil.copy(copies / "old" / "catalog.sqlite3", state)
    index = await open_index(state)
    assert index.repairs
    assert set(contents(index.view())) == {document_.path for document_ in OLD}
    assert found_by_words(index.view(), "after", "arrived") == set()
    await put(index, document("other.md", "other"))
    assert found_by_words(index.view(), "other", "arrived") == {("other.md", 1)}
    await index.close()


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file may grow past 64 KiB, which the catalog's log needs; writes beyond fail as on a full disk."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("full_disk")
async def test_a_full_disk_refuses_the_change_and_the_next_one_succeeds(tmp_path: Path) -> None:
    index = await open_index(tmp_path)
    await put(index, *OLD)
    view = index.view()
    big = document("big.md", *(os.urandom(40_000).hex() for _ in range(20)))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, hard))
    try:
        with pytest.raises(StateError):
            await put(index, big)
        assert index.view() is view
        assert found_by_words(view, "departed") == {("gone.md", 1)}
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await index.apply(NEW, ["gone.md"], vectors=vectors_for(NEW))
    await index.apply(removals=["big.md"])
    assert_new(index)
    await index.close()
    index = await open_index(tmp_path)
    assert_new(index)
    await index.close()


async def test_vectors_that_arrived_before_a_failed_change_are_not_asked_for_again(tmp_path: Path) -> None:
    def at(step: str) -> None:
        raise Stop(step)

    index = await open_index(tmp_path, on_step=at)
    with pytest.raises(Stop):
        await put(index, document("a.md", "costly"))
    await index.close()
    index = await open_index(tmp_path)
    known = await index.known_vectors([digest("costly")])
    assert known[digest("costly")].shape == (DIMENSIONS,)
    assert await index.pending_blocks(5) == []
    await index.close()

"""Hints come soon, whatever way a file is saved, and the watch says when it cannot watch (spec §6)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

import sidecar
from sidecar.corpus import watch
from sidecar.corpus.rules import ExtraPath
from sidecar.corpus.scan import Corpus
from sidecar.corpus.watch import Hints, Watcher
from sidecar.domain.corpus import FileStamp, Scan, SourceFile

Write = Callable[[Path, dict[str, str]], None]
Eventually = Callable[..., Awaitable[float]]


class Follower:
    """Does what an indexer does with hints, and keeps what is known by them: caller path to stamp."""

    def __init__(self, corpus: Corpus, watcher: Watcher) -> None:
        self.corpus = corpus
        self.watcher = watcher
        self.known: dict[str, FileStamp] = {}
        self.scan = Scan(files=())
        self.hints: list[Hints] = []
        self.settles = True

    async def run(self) -> None:
        async for hints in self.watcher.hints():
            self.hints.append(hints)
            if hints.full:
                began = time.monotonic()
                self.scan = await asyncio.to_thread(self.corpus.scan)
                self.known = {file.path: file.stamp for file in self.scan.files}
                if self.settles:
                    self.watcher.settled(self.scan, time.monotonic() - began)
            for path in hints.paths:
                found = await asyncio.to_thread(self.corpus.look, path)
                if isinstance(found, SourceFile):
                    self.known[found.path] = found.stamp
                else:
                    self.known.pop(path, None)

    def current(self, *paths: str) -> Callable[[], Awaitable[bool]]:
        """Whether what is known of these paths is what is on disk, and nothing else is known."""

        async def check() -> bool:
            scan = await asyncio.to_thread(self.corpus.scan)
            stamps = {file.path: file.stamp for file in scan.files}
            return set(self.known) == set(paths) and self.known == stamps

        return check

    async def watching(self, eventually: Eventually) -> None:
        """Wait until events are on and the scan after them is done."""

        async def check() -> bool:
            return bool(self.watcher.state.folders) and self.hints[-1].reason in {"watching", "timer"}

        await eventually(check)


Start = Callable[..., Follower]


@pytest.fixture
async def start(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    """Starts followers of the workspace, and ends them with no thread left behind.

    The timer does not come to help while a test waits: only events, or polling, can bring what it waits for,
    however long a busy machine makes it wait.
    """
    monkeypatch.setattr(watch, "LEAST_RESCAN_SECONDS", 120.0)
    running: list[tuple[Watcher, asyncio.Task[None]]] = []

    def begin(*extra: str, mode: watch.Mode = "auto", poll_seconds: float = 60.0) -> Follower:
        corpus = Corpus(workspace, [ExtraPath(path) for path in extra])
        watcher = Watcher(corpus, mode=mode, poll_seconds=poll_seconds)
        follower = Follower(corpus, watcher)
        running.append((watcher, asyncio.create_task(follower.run())))
        return follower

    yield begin
    for watcher, task in running:
        await watcher.close()
        await task
    assert [thread.name for thread in threading.enumerate() if thread.name == "sidecar-watch"] == []


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(".save.tmp")
    temporary.write_text(text)
    temporary.replace(path)


async def test_a_saved_note_is_hinted_at_by_its_caller_path(
    workspace: Path, write: Write, start: Start, eventually: Eventually
) -> None:
    write(workspace, {"memory/sub/a.md": "one"})
    follower = start()
    await follower.watching(eventually)
    before = len(follower.hints)
    (workspace / "memory" / "sub" / "a.md").write_text("two!")
    await eventually(follower.current("memory/sub/a.md"), pause=0.005)
    assert follower.hints[before].paths == {"memory/sub/a.md"}
    assert not follower.hints[before].full


@pytest.mark.parametrize("name", ["MEMORY.md", "USER.md", "memory/a.md", "single.md"])
async def test_every_round_of_replacing_a_file_by_rename_is_seen(
    workspace: Path, write: Write, start: Start, eventually: Eventually, name: str
) -> None:
    write(workspace, {name: "0"})
    follower = start("single.md")
    await follower.watching(eventually)
    for number in range(1, 6):
        _replace(workspace / name, "word " * number)
        await eventually(follower.current(name), pause=0.005)
    assert {hints.reason for hints in follower.hints} <= {"start", "watching", "event", "timer"}
    assert any(hints.paths == {name} for hints in follower.hints)


async def test_folders_that_did_not_exist_at_start_are_picked_up_each_time_they_appear(
    tmp_path: Path, workspace: Path, write: Write, start: Start, eventually: Eventually
) -> None:
    write(workspace, {"USER.md": "u"})
    follower = start("../outside/extra", "inside/extra")
    await follower.watching(eventually)
    write(workspace, {"memory/a.md": "a"})
    await eventually(follower.current("USER.md", "memory/a.md"))
    write(workspace, {"inside/extra/i.md": "i"})
    await eventually(follower.current("USER.md", "memory/a.md", "inside/extra/i.md"))
    write(tmp_path, {"outside/extra/e.md": "e"})
    rest = ("inside/extra/i.md", "../outside/extra/e.md")
    await eventually(follower.current("USER.md", "memory/a.md", *rest))
    shutil.rmtree(workspace / "memory")
    await eventually(follower.current("USER.md", *rest))
    write(workspace, {"memory/b.md": "b"})
    await eventually(follower.current("USER.md", "memory/b.md", *rest))


async def test_a_swapped_memory_folder_is_watched_anew(
    workspace: Path, write: Write, start: Start, eventually: Eventually
) -> None:
    write(workspace, {"memory/old.md": "o"})
    follower = start()
    await follower.watching(eventually)
    (workspace / "memory").rename(workspace / "memory.old")
    write(workspace, {"memory/2026-05-06.md": "n"})
    await eventually(follower.current("memory/2026-05-06.md"))
    for number in range(5):
        (workspace / "memory" / "2026-05-06.md").write_text("more" * number)
        await eventually(follower.current("memory/2026-05-06.md"))


async def test_a_workspace_that_vanishes_and_comes_back_is_watched_again(
    tmp_path: Path, workspace: Path, write: Write, start: Start, eventually: Eventually
) -> None:
    write(workspace, {"memory/a.md": "a"})
    follower = start()
    await follower.watching(eventually)
    os.rename(workspace, tmp_path / "away")  # noqa: PTH104

    async def unreadable() -> bool:
        return [entry.path for entry in follower.scan.unreadable] == ["."]

    await eventually(unreadable)
    write(workspace, {"memory/b.md": "b"})
    await eventually(follower.current("memory/b.md"))
    write(workspace, {"memory/c.md": "c"})
    await eventually(follower.current("memory/b.md", "memory/c.md"))


async def test_a_burst_of_notes_is_told_in_few_hints_and_none_is_lost(
    workspace: Path, write: Write, start: Start, eventually: Eventually
) -> None:
    write(workspace, {"memory/x.md": "x"})
    follower = start()
    await follower.watching(eventually)
    before = len(follower.hints)
    names = [f"memory/n{number}.md" for number in range(400)]
    write(workspace, dict.fromkeys(names, "n"))
    await eventually(follower.current("memory/x.md", *names))
    assert len(follower.hints) - before < 20


async def test_what_is_no_note_gives_no_hint(
    workspace: Path, write: Write, start: Start, eventually: Eventually
) -> None:
    write(workspace, {"memory/x.md": "x"})
    follower = start()
    await follower.watching(eventually)
    before = len(follower.hints)
    write(workspace, {"memory/.x.md.swp": "", "memory/x.png": "", "build/y.md": "", "AGENTS.md": ""})
    (workspace / "memory" / "x.md").read_text()
    seen = follower.watcher.state.last_event

    async def event_came() -> bool:
        return follower.watcher.state.last_event != seen

    await eventually(event_came)
    write(workspace, {"memory/last.md": "x"})
    await eventually(follower.current("memory/x.md", "memory/last.md"))
    assert {path for hints in follower.hints[before:] for path in hints.paths} <= {"memory/last.md"}
    assert {hints.reason for hints in follower.hints[before:]} <= {"event", "timer"}


async def test_polling_finds_a_change_within_its_interval_and_says_that_it_polls(
    workspace: Path, write: Write, start: Start, eventually: Eventually
) -> None:
    write(workspace, {"memory/a.md": "a"})
    follower = start(mode="polling", poll_seconds=0.1)
    await eventually(follower.current("memory/a.md"))
    (workspace / "memory" / "a.md").write_text("changed")
    await eventually(follower.current("memory/a.md"))
    state = follower.watcher.state
    assert (state.mode, state.reason, state.folders) == ("polling", watch.AS_CONFIGURED, 0)


async def test_the_timer_scans_anyway_but_does_not_flood_a_consumer_that_has_not_scanned(
    start: Start, eventually: Eventually
) -> None:
    follower = start(mode="polling", poll_seconds=0.02)

    async def timed() -> bool:
        return sum(hints.reason == "timer" for hints in follower.hints) >= 3

    await eventually(timed)
    follower.settles = False
    count = len(follower.hints)
    pokes = 0

    async def poked() -> bool:
        nonlocal pokes
        pokes += 1
        follower.watcher.poke(["memory/a.md"])
        return pokes > 10 and follower.hints[-1].paths == {"memory/a.md"}

    await eventually(poked)
    timed_out = [hints for hints in follower.hints[count:] if hints.reason == "timer"]
    assert len(timed_out) <= 2


async def test_changes_that_keep_arriving_without_events_turn_auto_to_polling(
    workspace: Path, write: Write, start: Start, eventually: Eventually
) -> None:
    write(workspace, {"memory/a.md": "a"})
    follower = start(poll_seconds=0.05)
    await follower.watching(eventually)
    follower.watcher.missed(0)
    assert follower.watcher.state.folders == 2
    for _ in range(watch.MISSES_UNTIL_POLLING):
        assert follower.watcher.state.mode == "events"
        await follower.watching(eventually)
        follower.watcher.missed(1)
    state = follower.watcher.state
    assert (state.mode, state.reason) == ("polling", watch.EVENTS_MISSED)
    (workspace / "memory" / "a.md").write_text("changed")
    await eventually(follower.current("memory/a.md"))


async def test_changes_whose_events_were_just_heard_are_no_reason_to_stop_trusting_events(
    workspace: Path, write: Write, start: Start, eventually: Eventually
) -> None:
    write(workspace, {"memory/a.md": "a"})
    follower = start()
    await follower.watching(eventually)
    (workspace / "memory" / "a.md").write_text("changed")
    await eventually(follower.current("memory/a.md"))
    for _ in range(watch.MISSES_UNTIL_POLLING):
        follower.watcher.missed(1)
    assert (follower.watcher.state.mode, follower.watcher.state.folders) == ("events", 2)


async def test_more_paths_than_the_bound_become_one_full_hint(workspace: Path) -> None:
    watcher = Watcher(Corpus(workspace), mode="polling", poll_seconds=60)
    hints = watcher.hints()
    assert (await anext(hints)).reason == "start"
    watcher.poke([f"memory/{number}.md" for number in range(watch.MOST_PATHS)])
    assert len((await anext(hints)).paths) == watch.MOST_PATHS
    watcher.poke([f"memory/{number}.md" for number in range(watch.MOST_PATHS + 1)])
    assert await anext(hints) == Hints(frozenset(), True, "many changes")
    watcher.poke(["memory/1.md"])
    watcher.poke()
    assert await anext(hints) == Hints(frozenset(), True, "noticed")
    await watcher.close()
    await watcher.close()
    assert [hint async for hint in hints] == []


async def test_watches_and_handles_stay_flat_over_many_new_folders_and_close(
    workspace: Path, write: Write, start: Start, eventually: Eventually
) -> None:
    write(workspace, {"memory/a.md": "a"})
    follower = start()
    await follower.watching(eventually)
    instances = _inotify_instances()
    for number in range(6):
        write(workspace, {f"memory/f{number}/n.md": "n"})
        names = [f"memory/f{one}/n.md" for one in range(number + 1)]
        await eventually(follower.current("memory/a.md", *names))

    async def flat() -> bool:
        return _inotify_instances() == instances and follower.watcher.state.folders == 8

    await eventually(flat)
    await follower.watcher.close()
    assert _inotify_instances() == instances - 1


def _inotify_instances() -> int:
    links = Path("/proc/self/fd").iterdir()
    return sum(os.path.islink(link) and _target(link) == "anon_inode:inotify" for link in links)  # noqa: PTH114


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""


_EXHAUSTED = """
import asyncio, json, logging, pathlib, sys, time
from sidecar.corpus.scan import Corpus
from sidecar.corpus.watch import Watcher
logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="LOG %(message)s")
workspace, limit = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
enough = limit.read_text()
limit.write_text("0")

async def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)

async def main():
    corpus = Corpus(workspace)
    watcher = Watcher(corpus, mode="auto", poll_seconds=0.1, retry_seconds=0.1)
    known = {}
    async def follow():
        async for hints in watcher.hints():
            if hints.full:
                scan = corpus.scan()
                known.update({file.path: file.stamp.size for file in scan.files})
                watcher.settled(scan, 0.001)
    task = asyncio.create_task(follow())
    await until(lambda: watcher.state.mode == "polling")
    reason = watcher.state.reason
    (workspace / "memory" / "n12.md").write_text("changed text")
    await until(lambda: known.get("memory/n12.md") == 12)
    limit.write_text(enough)
    await until(lambda: watcher.state.mode == "events")
    print(json.dumps([reason, watcher.state.reason, watcher.state.folders]))
    await watcher.close()
    await task

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("limit", "reason"),
    [("max_inotify_instances", watch.NO_INSTANCE), ("max_inotify_watches", watch.NO_WATCH)],
)
def test_without_inotify_it_polls_says_why_once_and_comes_back(
    workspace: Path, write: Write, limit: str, reason: str
) -> None:
    if subprocess.run(["unshare", "-Ur", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces here")
    write(workspace, {f"memory/n{number}.md": "note" for number in range(400)})
    done = subprocess.run(
        ["unshare", "-Ur", sys.executable, "-c", _EXHAUSTED, str(workspace), f"/proc/sys/user/{limit}"],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ, PYTHONPATH=str(Path(sidecar.__file__).parents[1])),
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [reason, None, 2]
    lines = [line for line in done.stderr.splitlines() if line.startswith("LOG")]
    assert len(lines) == 2, lines
    assert reason in lines[0]
    assert str(workspace) not in done.stderr

"""`Watcher`: hints that something in the corpus may have changed (spec §6). The scan decides what did.

Four things give hints: events of the folders that the last scan listed, a timer that scans anyway, a look
at the roots' identities twice a second (a root can vanish and come back where nothing is watched), and a
search that noticed something. Where events cannot be had, the timer alone does it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
import time
from collections.abc import AsyncIterator, Iterable
from typing import Final, Literal, Protocol

import msgspec

from sidecar.corpus.events import ArmedWatch, Changes
from sidecar.domain.corpus import FileStamp, Scan

_log = logging.getLogger(__name__)

Mode = Literal["auto", "events", "polling"]
_Identity = tuple[str, int, int]

MOST_PATHS: Final = 1000
LEAST_RESCAN_SECONDS: Final = 2.0
# A consumer that has not settled by then has failed or is slow: it is asked once more.
UNSETTLED_SECONDS: Final = 30.0
RESCAN_PER_COST: Final = 100.0
ROOT_LOOK_SECONDS: Final = 0.5
MOST_RETRY_SECONDS: Final = 600.0
MISSES_UNTIL_POLLING: Final = 3
_LEAST_PAUSE: Final = 0.1
# A change this long before a timed scan may be found by it while its event is still on the way.
_EVENT_TRAVEL_SECONDS: Final = 0.5
_MOST_VANISHED: Final = 5

NO_INSTANCE: Final = "no inotify instance is left"
NO_WATCH: Final = "no inotify watch is left"
NO_EVENTS: Final = "file events are not available"
EVENTS_MISSED: Final = "changes arrive without events"
AS_CONFIGURED: Final = "as configured"


class Hints(msgspec.Struct, frozen=True):
    """Caller paths to look at again, or with `full` the whole corpus. `reason` is for the log."""

    paths: frozenset[str]
    full: bool
    reason: str


class Watchable(Protocol):
    """A corpus as the watcher sees it; the methods block."""

    def root_identities(self) -> tuple[tuple[int, int] | None, ...]:
        """Device and inode of each root now."""
        ...

    def watched(self, scan: Scan) -> tuple[tuple[str, FileStamp], ...]:
        """The folders to watch after a scan."""
        ...

    def lists_folder(self, absolute: str) -> bool:
        """Whether a scan lists this folder."""
        ...

    def relative_hint(self, absolute: str) -> str | None:
        """The caller path of an absolute one, by its name alone."""
        ...


class WatchState(msgspec.Struct, frozen=True, kw_only=True):
    """How changes are noticed now. `reason` says why it is polling; times are monotonic seconds."""

    mode: Literal["events", "polling"]
    reason: str | None
    folders: int
    last_event: float | None
    last_rescan: float | None


class Watcher:
    """Watches one corpus. The consumer reads `hints()`, and calls `settled` after each full scan.

    `mode` "auto" also turns to polling when changes keep arriving without events. `retry_seconds` is the
    first wait before events are tried again after they failed; it doubles up to ten minutes.
    """

    def __init__(
        self, corpus: Watchable, *, mode: Mode, poll_seconds: float, retry_seconds: float = 30.0
    ) -> None:
        self._corpus = corpus
        self._mode = mode
        self._poll_seconds = poll_seconds
        self._first_retry = self._retry_seconds = retry_seconds
        self._paths: set[str] = set()
        self._full: str | None = "start"
        self._reason = "start"
        self._wake = asyncio.Event()
        self._turn = asyncio.Event()
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._watch: ArmedWatch | None = None
        self._retiring: ArmedWatch | None = None
        self._watched: frozenset[_Identity] = frozenset()
        self._scan: Scan | None = None
        self._cost = 0.0
        self._due = time.monotonic() + UNSETTLED_SECONDS
        self._timed_at = 0.0
        self._rearm = False
        self._not_before = 0.0
        self._polling: str | None = AS_CONFIGURED if mode == "polling" else None
        self._retry_at: float | None = None
        self._misses = 0
        self._vanished = 0
        self._last_event: float | None = None
        self._last_rescan: float | None = None

    @property
    def state(self) -> WatchState:
        """How changes are noticed now."""
        return WatchState(
            mode="events" if self._polling is None else "polling",
            reason=self._polling,
            folders=len(self._watched),
            last_event=self._last_event,
            last_rescan=self._last_rescan,
        )

    async def hints(self) -> AsyncIterator[Hints]:
        """Hints as they come, the first at once and `full`; ends with `close`. For one consumer."""
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._supervise(), name="sidecar-watcher")
            self._task.add_done_callback(lambda _: self._wake.set())
        while not self._closed:
            if self._task is not None and self._task.done():
                self._task.result()  # it ends by itself only with an error, and then nobody would watch
            if self._full is not None or self._paths:
                full, paths = self._full, frozenset(self._paths)
                self._full = None
                self._paths.clear()
                yield Hints(frozenset() if full else paths, full is not None, full or self._reason)
                continue
            self._wake.clear()
            await self._wake.wait()

    def settled(self, scan: Scan, cost_seconds: float) -> None:
        """A full scan is done: watch what it listed, and set the timer by what it cost."""
        self._scan = scan
        self._cost = cost_seconds
        self._last_rescan = time.monotonic()
        self._set_due()
        self._rearm = self._rearm or self._polling is None
        self._turn.set()

    def poke(self, paths: Iterable[str] | None = None) -> None:
        """Somebody else noticed a change: of these caller paths, or None for anywhere."""
        self._add(paths, "noticed")

    def missed(self, count: int) -> None:
        """The last timed scan found this many changes; a miss if no event came shortly before or since."""
        heard = self._last_event is not None and self._last_event > self._timed_at - _EVENT_TRAVEL_SECONDS
        if count < 1 or heard or self._polling is not None:
            return
        self._misses += 1
        _log.warning("%d changes were found by the timed scan and not by events; watching anew", count)
        if self._misses >= MISSES_UNTIL_POLLING and self._mode == "auto":
            self._turn_to_polling(EVENTS_MISSED)
        else:
            self._watched = frozenset()
            self._rearm = True
        self._turn.set()

    async def close(self) -> None:
        """End the watch, its task and its thread; `hints()` ends. May be called again."""
        self._closed = True
        self._wake.set()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._disarm()

    def _add(self, paths: Iterable[str] | None, reason: str) -> None:
        if paths is None:
            self._full = self._full or reason
        else:
            self._paths.update(paths)
            self._reason = reason
            if len(self._paths) > MOST_PATHS:
                self._full = self._full or "many changes"
        if self._full is not None:
            self._paths.clear()
        self._wake.set()

    def _set_due(self) -> None:
        if self._polling is None:
            wait = max(LEAST_RESCAN_SECONDS, RESCAN_PER_COST * self._cost)
        else:
            wait = self._poll_seconds
        self._due = time.monotonic() + wait

    async def _supervise(self) -> None:
        roots = await asyncio.to_thread(self._corpus.root_identities)
        look_at = time.monotonic() + ROOT_LOOK_SECONDS
        while True:
            await self._until_next(look_at)
            now = time.monotonic()
            if now >= look_at:
                present = await asyncio.to_thread(self._corpus.root_identities)
                if present != roots:
                    roots = present
                    self._add(None, "a root appeared, vanished or was swapped")
                look_at = time.monotonic() + ROOT_LOOK_SECONDS
            if now >= self._due:
                # Until the consumer has scanned it is left in peace: a slow one is not flooded.
                self._timed_at, self._due = now, now + max(UNSETTLED_SECONDS, self._poll_seconds)
                self._add(None, "timer")
            if self._retry_at is not None and now >= self._retry_at:
                self._retry_at = None
                self._rearm = True
            if self._polling is not None and self._watch is not None:
                await self._disarm()
            if self._rearm and self._scan is not None and now >= self._not_before:
                self._rearm = False
                await self._arm(self._scan)

    async def _until_next(self, look_at: float) -> None:
        times = [look_at, self._due]
        if self._retry_at is not None:
            times.append(self._retry_at)
        if self._rearm and self._scan is not None:
            times.append(self._not_before)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(times) - time.monotonic())):
                await self._turn.wait()
        self._turn.clear()

    async def _arm(self, scan: Scan) -> None:
        """Watch what the scan listed, if that is not watched yet: first the new watch, then drop the old."""
        folders = await asyncio.to_thread(self._corpus.watched, scan)
        wanted = frozenset((path, stamp.device, stamp.inode) for path, stamp in folders)
        if wanted == self._watched and (self._watch is not None or not wanted):
            return
        # Folders that come and go all the time must not make it arm and scan without a pause.
        self._not_before = time.monotonic() + max(_LEAST_PAUSE, 5 * self._cost)
        if not wanted:
            await self._disarm()
            return
        known = frozenset(path for path, _, _ in wanted)
        watch = ArmedWatch(
            [path for path, _ in folders],
            translate=lambda changes: translate(self._corpus, known, changes),
            deliver=self._on_changes,
            ended=self._on_ended,
        )
        try:
            await watch.start()
        except FileNotFoundError:
            self._vanished += 1
            if self._vanished < _MOST_VANISHED:
                self._add(None, "a folder vanished")
                return
            await self._disarm()
            self._turn_to_polling(NO_EVENTS)
            return
        except (OSError, RuntimeError) as error:
            await self._disarm()
            self._turn_to_polling(_why(error))
            return
        self._vanished = 0
        self._retiring, self._watch, self._watched = self._watch, watch, wanted
        if self._polling is not None:
            _log.info("file events are back: watching %d folders", len(wanted))
            self._polling = None
            self._set_due()
        # What changed between the scan and now was seen by neither.
        self._add(None, "watching")
        await self._retire()

    async def _retire(self) -> None:
        if self._retiring is not None:
            await self._retiring.close()
            self._retiring = None

    async def _disarm(self) -> None:
        await self._retire()
        self._retiring, self._watch, self._watched = self._watch, None, frozenset()
        await self._retire()

    def _turn_to_polling(self, reason: str) -> None:
        if self._polling != reason:
            _log.warning("%s: looking at the files every %g s instead", reason, self._poll_seconds)
        self._polling = reason
        self._misses = 0
        self._watched = frozenset()
        self._retry_at = time.monotonic() + self._retry_seconds
        self._retry_seconds = min(MOST_RETRY_SECONDS, 2 * self._retry_seconds)
        self._due = min(self._due, time.monotonic() + self._poll_seconds)

    def _on_changes(self, paths: frozenset[str] | None) -> None:
        self._last_event = time.monotonic()
        self._misses = 0
        if self._polling is None:
            self._retry_seconds = self._first_retry
        if paths is None or paths:
            self._add(paths, "event")

    def _on_ended(self, failure: Exception | None) -> None:
        _log.debug("the watch ended", exc_info=failure)
        self._turn_to_polling(NO_EVENTS)
        self._add(None, "the watch ended")
        self._turn.set()


def translate(corpus: Watchable, known: frozenset[str], changes: Changes) -> frozenset[str] | None:
    """What a batch of events hints at: caller paths of notes, or None where a listed folder has a part in it.

    `known` are the watched folders, absolute. Blocks for one `lstat` per event.
    """
    paths: set[str] = set()
    for _, absolute in changes:
        if absolute in known:
            return None
        try:
            if stat.S_ISDIR(os.lstat(absolute).st_mode):
                if corpus.lists_folder(absolute):
                    return None
                continue
        except FileNotFoundError:
            pass  # deleted: a note is looked at, and no unknown name was a folder that we listed
        except OSError:
            return None
        hint = corpus.relative_hint(absolute)
        if hint is not None:
            paths.add(hint)
    return frozenset(paths)


def _why(error: OSError | RuntimeError) -> str:
    # The library's messages hold host paths, so only their kind is told on.
    text = str(error).lower()
    if "too many open files" in text:
        return NO_INSTANCE
    return NO_WATCH if "watch limit" in text or "no space left" in text else NO_EVENTS

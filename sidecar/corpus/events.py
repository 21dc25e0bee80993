"""One armed watch over a fixed set of folders, in a thread of its own.

Arming asks the kernel once per folder, which for thousands of folders takes longer than the event loop may
stand still; so both arming and waiting happen in the thread, and only results cross over.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from watchfiles import Change, watch
from watchfiles._rust_notify import WatchfilesRustInternalError

Changes = set[tuple[Change, str]]

# A batch is handed over once it has been quiet for one step, or after the debounce time at the latest.
_DEBOUNCE_MS: Final = 40
_STEP_MS: Final = 20

# The library gives up when an event names a file that is not UTF-8. The watch is then armed anew after a
# pause that doubles each time: such a file must neither blind the watch for all others nor keep it busy.
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 60.0

# The library tells every batch at INFO: one line for each save would drown the log.
logging.getLogger("watchfiles.main").setLevel(logging.WARNING)


class ArmedWatch:
    """A watch over folders, not recursive. `deliver` and `ended` are called on the event loop.

    `deliver` gets what `translate` (called in the thread) makes of a batch. `ended` is called once when an
    armed watch stops by itself, with the failure if there was one; never after `close`.
    """

    def __init__(
        self,
        folders: Sequence[str],
        *,
        translate: Callable[[Changes], frozenset[str] | None],
        deliver: Callable[[frozenset[str] | None], None],
        ended: Callable[[Exception | None], None],
    ) -> None:
        self._folders = folders
        self._translate = translate
        self._deliver = deliver
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._armed: asyncio.Future[None] = self._loop.create_future()
        self._finished = asyncio.Event()
        self._stop = False
        self._halted = threading.Event()
        self._said_armed = False
        self._gap = False
        self._thread = threading.Thread(target=self._run, name="sidecar-watch")

    async def start(self) -> None:
        """Returns once every folder is watched. Raises `OSError` or `RuntimeError` when that cannot be."""
        self._thread.start()
        try:
            await asyncio.shield(self._armed)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the watch and its thread. May be called at any time, and again."""
        self._stop = True
        self._halted.set()
        if self._thread.ident is not None:
            await self._finished.wait()
            self._thread.join()

    def is_set(self) -> bool:
        """Asked by the watch at each step, for the first time when it is armed; True ends it.

        A closed loop ends it too, so that a thread that was forgotten cannot keep the process alive.
        """
        if not self._said_armed:
            self._said_armed = True
            self._post(self._set_armed)
        if self._gap:
            self._gap = False
            self._post(self._hand_over, None)
        return self._stop or self._loop.is_closed()

    def _run(self) -> None:
        failure: Exception | None = None
        pause = _FIRST_PAUSE_SECONDS
        try:
            while not self._watch_until_misled():
                self._post(self._hand_over, None)
                self._halted.wait(pause)
                pause = min(_LONGEST_PAUSE_SECONDS, 2 * pause)
                self._gap = True
        except (OSError, RuntimeError) as error:
            failure = error
        finally:
            self._post(self._finish, failure)

    def _watch_until_misled(self) -> bool:
        """Hand over changes until told to stop (True), or until a name stops the library (False)."""
        changes = watch(
            *self._folders,
            watch_filter=None,
            debounce=_DEBOUNCE_MS,
            step=_STEP_MS,
            stop_event=self,
            debug=False,
            force_polling=False,
            recursive=False,
            # To ignore refused folders would also hide that no inotify watch is left.
            ignore_permission_denied=False,
        )
        try:
            for batch in changes:
                self._post(self._hand_over, self._translate(batch))
        except WatchfilesRustInternalError:
            if not self._said_armed:
                raise
            return self._stop
        return True

    def _post(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            self._stop = True  # the loop is closed: nobody is left to be told

    def _set_armed(self) -> None:
        if not self._armed.done():
            self._armed.set_result(None)

    def _hand_over(self, paths: frozenset[str] | None) -> None:
        if not self._stop:
            self._deliver(paths)

    def _finish(self, failure: Exception | None) -> None:
        self._finished.set()
        if not self._armed.done():
            self._armed.set_exception(failure or RuntimeError("the watch ended before it began"))
            self._armed.exception()  # seen here already, in case nobody waits any more
        elif not self._stop:
            self._ended(failure)

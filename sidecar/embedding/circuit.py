"""When a failing embedding service is asked again: a circuit with jittered, bounded pauses (spec §7).

    closed      everyone may ask
    open        nobody may ask until the pause is over
    half-open   one probe is on its way

It opens after two failures in a row, or at once where the service said to wait or asking again is useless,
and closes when a probe succeeds. Calls that began before it opened or closed no longer count.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Literal

from sidecar.domain.errors import EmbeddingFailed

FAILURES = 2
FIRST_PAUSE_SECONDS = 1.0
LASTING_PAUSE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 300.0
LONGEST_RETRY_AFTER_SECONDS = 3600.0
_DOUBLINGS = 16

CircuitState = Literal["closed", "open", "half-open"]


class Circuit:
    """One for each service, whoever asks it."""

    def __init__(
        self,
        *,
        first_pause: float = FIRST_PAUSE_SECONDS,
        lasting_pause: float = LASTING_PAUSE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._first_pause = first_pause
        self._lasting_pause = lasting_pause
        self._clock = clock
        self._jitter = jitter
        self._failures = 0
        self._openings = 0
        self._until = 0.0
        self._term = 0
        self._reason = ""
        self.state: CircuitState = "closed"

    @property
    def reason(self) -> str | None:
        """Why it is not closed."""
        return None if self.state == "closed" else self._reason

    @property
    def due_in(self) -> float:
        """Seconds until a probe is admitted; 0 when one may go now or none is needed."""
        return 0.0 if self.state == "closed" else max(0.0, self._until - self._clock())

    def admit(self, *, probe: bool) -> int:
        """A permit to report the outcome with; raises `EmbeddingFailed` with the reason while it is open."""
        if self.state == "open" and probe and not self.due_in:
            self.state = "half-open"
        elif self.state != "closed":
            raise EmbeddingFailed(self._reason, retry_after_ms=max(1, round(1000 * self.due_in)))
        return self._term

    def succeeded(self, permit: int) -> None:
        """A call gave vectors."""
        if permit != self._term:
            return
        self._failures = 0
        if self.state == "half-open":
            self.state = "closed"
            self._openings = 0
            self._term += 1

    def failed(self, permit: int, error: EmbeddingFailed) -> None:
        """A call failed."""
        if permit != self._term:
            return
        self._failures += 1
        at_once = error.lasting or error.retry_after_ms is not None or self.state == "half-open"
        if at_once or self._failures >= FAILURES:
            self._open(error)

    def released(self, permit: int) -> None:
        """A call ended without an outcome: its caller went away."""
        if permit == self._term and self.state == "half-open":
            self.state = "open"

    def _open(self, error: EmbeddingFailed) -> None:
        first = self._lasting_pause if error.lasting else self._first_pause
        pause = min(LONGEST_PAUSE_SECONDS, first * 2 ** min(self._openings, _DOUBLINGS))
        asked = min(LONGEST_RETRY_AFTER_SECONDS, (error.retry_after_ms or 0) / 1000)
        self._until = self._clock() + max(asked, pause * self._jitter(0.75, 1.25))
        self._reason = error.message
        self._openings += 1
        self._failures = 0
        self._term += 1
        self.state = "open"

"""What the service counts while it runs: refusals at the door, calls by method and outcome, their times.

Plain numbers in memory, kept by the event loop alone. `/metrics` reads them. Reasons, methods and outcomes
are fixed words of ours, so that the tables stay small whatever is asked.
"""

from __future__ import annotations

import asyncio
import bisect
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from sidecar.domain.errors import SidecarError

log = logging.getLogger(__name__)

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of times, in seconds; one more bucket takes the rest."""
UNKNOWN_METHOD = "unknown"


class Times:
    """A histogram of seconds."""

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one time."""
        self.buckets[bisect.bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class Counters:
    """The numbers of one process."""

    def __init__(self) -> None:
        self.refusals: Counter[str] = Counter()
        self.calls: Counter[tuple[str, str]] = Counter()
        self.times: dict[str, Times] = {}

    def refused(self, reason: str) -> None:
        """One refusal at the door: one line in the log and one count. `reason` is a fixed word."""
        self.refusals[reason] += 1
        log.warning("refused: %s", reason, extra={"reason": reason})

    @contextmanager
    def call(self, method: str) -> Iterator[None]:
        """Count what happens inside as one call: `ok`, a code of the error tree, `cancelled` or `failed`."""
        began = time.monotonic()
        outcome = "ok"
        try:
            yield
        except SidecarError as error:
            outcome = error.details_code or error.code
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except Exception:
            outcome = "failed"
            raise
        finally:
            self.calls[method, outcome] += 1
            self.times.setdefault(method, Times()).add(time.monotonic() - began)

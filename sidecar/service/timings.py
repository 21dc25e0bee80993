"""How long things take: histograms of seconds, plain numbers in memory that `/metrics` reads."""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of times, in seconds; one more bucket takes the rest."""

Leg = Literal["embedding", "words", "meaning", "transcripts"]
"""The parts of a search: the query's vector, notes by words and by meaning, and transcripts by both."""


class Times:
    """A histogram of seconds."""

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one time."""
        self.buckets[bisect.bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class LegTimes:
    """A histogram for each leg of one agent's searches, which several threads may add to."""

    def __init__(self) -> None:
        self.of: dict[Leg, Times] = {}
        self._lock = threading.Lock()

    @contextmanager
    def measured(self, leg: Leg) -> Iterator[None]:
        """Count what happens inside as one time of this leg."""
        began = time.monotonic()
        try:
            yield
        finally:
            taken = time.monotonic() - began
            with self._lock:
                self.of.setdefault(leg, Times()).add(taken)

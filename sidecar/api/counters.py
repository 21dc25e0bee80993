"""What the service counts while it runs: refusals at the door, calls by method and outcome, their times.

Plain numbers in memory, kept by the event loop alone. `/metrics` reads them. Reasons, methods and outcomes
are fixed words of ours, so that the tables stay small whatever is asked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from sidecar.domain.errors import SidecarError
from sidecar.service.timings import Times

log = logging.getLogger(__name__)

UNKNOWN_METHOD = "unknown"


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

"""Giving up long work: who waits for it calls `halt`, the work itself calls `check` wherever it loops.

A thread cannot be ended from outside, so everything that may compute for seconds takes a `Checkpoint`.
"""

from __future__ import annotations

from collections.abc import Callable

from sidecar.domain.errors import Halted

Checkpoint = Callable[[], None]
"""To be called often; raises `Halted` once nobody waits for the result any more."""


class Halt:
    """One piece of work that can be given up, from any thread."""

    def __init__(self) -> None:
        self._given_up = False

    def halt(self) -> None:
        """Nobody waits for the result any more."""
        self._given_up = True

    def check(self) -> None:
        """The `Checkpoint`."""
        if self._given_up:
            raise Halted("nobody waits for this any more")


def carry_on() -> None:
    """The `Checkpoint` of work that is done in any case."""

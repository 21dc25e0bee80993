"""The name of the request that is being worked on: in its log lines, in its answer, in what failed inside.

It goes with the task, as an argument would that every function between the door and an error has to pass on.
"""

from __future__ import annotations

from contextvars import ContextVar

_CURRENT: ContextVar[str | None] = ContextVar("request_id", default=None)


def begin_request(name: str) -> None:
    """What this task does from now on is the request of this name."""
    _CURRENT.set(name)


def request_id() -> str | None:
    """The name of the request in work; None outside of any."""
    return _CURRENT.get()

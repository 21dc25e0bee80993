"""The one write that was sent and not answered yet, on disk: an import that died in it leaves it to the next.

Such a write may still be on its way, or be committed after the next import has looked. Only a digest of its
text is kept.
"""

from __future__ import annotations

import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from sidecar.domain.errors import StateError
from sidecar.settings.state import write_private

SETTLED_SECONDS = 60.0
"""So long after it was sent a write may be committed: the caller's 30 seconds and the server's own 30."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A write without an answer. `at` is the wall clock's time, since another process reads it."""

    scope_id: str
    digest: str
    at: float

    def is_of(self, text: str) -> bool:
        """Whether this is the write of that text."""
        return self.digest == _digest(text)

    @property
    def seconds_left(self) -> float:
        """How long it may still be under way; never longer than from its sending, whatever the clock did."""
        return min(SETTLED_SECONDS, self.at + SETTLED_SECONDS - time.time())


class SentWrite:
    """The last write of one agent's imports; there is one at a time. Blocks; raises `StateError`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, scope_id: str, text: str) -> None:
        """Before it is sent."""
        sent = Sent(scope_id=scope_id, digest=_digest(text), at=time.time())
        write_private(self._path, msgspec.json.encode(sent))

    def answered(self) -> None:
        """The server is done with it, whatever it said."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise StateError(f"{self._path}: {error.strerror}") from error

    def left(self) -> Sent | None:
        """What an earlier import sent without an answer. Nothing was sent after a damaged note."""
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(self._path.read_bytes(), type=Sent)
        return None


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

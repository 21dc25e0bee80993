"""Where texts came from, as the host recorded it when they were written (spec §4.2 `provenance.put`, U§8)."""

from __future__ import annotations

import posixpath
import unicodedata
from typing import Literal

from sidecar.domain.errors import Overloaded

OriginClass = Literal["owner", "agent", "untrusted", "system"]
ORIGIN_CLASSES: tuple[OriginClass, ...] = ("owner", "agent", "untrusted", "system")
MOST_ORIGINS = 20_000


class Origins:
    """The origins of one agent's texts, by path and revision.

    Recall leaves out what is recorded as `untrusted` (spec §5.1), so such a record is never dropped to make
    room: others go first, oldest first, and then a new one is refused. A path counts in whatever way it is
    spelled, so that no spelling of an untrusted text makes it a trusted one.
    """

    def __init__(self, *, most: int = MOST_ORIGINS) -> None:
        self._most = most
        self._untrusted: dict[tuple[str, str], None] = {}
        self._others: dict[tuple[str, str], OriginClass] = {}

    def put(self, path: str, revision: str, origin: OriginClass) -> None:
        """Record an origin in place of an earlier one; raises `Overloaded` when no room can be made."""
        text = (_plain(path), revision)
        self._others.pop(text, None)
        if origin != "untrusted":
            self._untrusted.pop(text, None)
            self._others[text] = origin
        elif text not in self._untrusted:
            if len(self._untrusted) >= self._most:
                raise Overloaded(f"at most {self._most} untrusted origins of one agent are kept")
            self._untrusted[text] = None
        while len(self._untrusted) + len(self._others) > self._most and self._others:
            del self._others[next(iter(self._others))]

    def of(self, path: str, revision: str) -> OriginClass | None:
        """The recorded origin of exactly this text, or None."""
        text = (_plain(path), revision)
        return "untrusted" if text in self._untrusted else self._others.get(text)


def _plain(path: str) -> str:
    return unicodedata.normalize("NFC", posixpath.normpath(path))

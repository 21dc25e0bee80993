"""The session rows that a host reports (spec §4.2), one by one and as the value that policy decides on."""

from __future__ import annotations

from collections.abc import Mapping, Set

import msgspec


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session as its host stores it.

    `parent_*` and `spawned_by_sender_is_owner` are the receipt of a spawned child: the exact incarnation of
    its parent, and whether the owner asked. `sender_is_owner` is the last turn's sender and grants nothing.
    `pending`: the host is still writing this row.
    """

    session_key: str
    session_id: str
    lifecycle_revision: str | None = None
    chat_type: str | None = None
    sender_is_owner: bool | None = None
    parent_session_key: str | None = None
    parent_session_id: str | None = None
    parent_lifecycle_revision: str | None = None
    spawned_by_sender_is_owner: bool | None = None
    incognito: bool = False
    pending: bool = False


class SessionRows(msgspec.Struct, frozen=True, kw_only=True):
    """The published rows of one agent at one moment.

    `keys` names the sessions that have an id now, `former` the session that had an id before it was reset.
    `incognito` holds every id that was ever reported as incognito; once `incognito_forgotten`, an id without
    a row may have been one too.
    """

    by_key: Mapping[str, SessionRow] = {}
    keys: Mapping[str, tuple[str, ...]] = {}
    former: Mapping[str, str] = {}
    incognito: Set[str] = frozenset()
    incognito_forgotten: bool = False

    def with_id(self, session_id: str) -> tuple[SessionRow, ...]:
        """The sessions that have this id now."""
        return tuple(self.by_key[key] for key in self.keys.get(session_id, ()))

    def once_with_id(self, session_id: str) -> tuple[SessionRow, ...]:
        """The sessions that have this id now, or had it before their last resets."""
        now = self.with_id(session_id)
        former = self.by_key.get(self.former.get(session_id, ""))
        return now if former is None or former in now else (*now, former)

    def is_incognito(self, session_id: str) -> bool:
        """Whether the id is, was or may have been that of an incognito session."""
        if session_id in self.incognito:
            return True
        return self.incognito_forgotten and session_id not in self.keys


NO_ROWS = SessionRows()

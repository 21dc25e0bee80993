"""The session rows of one agent: what is published, what is still being written, and what was (spec §4.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sidecar.domain.errors import Overloaded
from sidecar.domain.session_rows import SessionRow, SessionRows
from sidecar.policy.lineage import ancestors

MOST_ROWS = 10_000
MOST_FORMER = 10_000
MOST_INCOGNITO = 50_000


Listener = Callable[[str, bool], None]
"""Hears a key whose row may have changed, after the change, and whether its session was deleted."""


class SessionTable:
    """Rows by key, with whoever listens to their changes.

    A pending row is an announcement: the published row stays in force beside it, and its key's currency
    is unavailable until a row that is not pending replaces both.
    """

    def __init__(self, *, most_rows: int = MOST_ROWS) -> None:
        self._listeners: list[Listener] = []
        self._most_rows = most_rows
        self._published: dict[str, SessionRow] = {}
        self._pending: dict[str, SessionRow] = {}
        self._keys: dict[str, tuple[str, ...]] = {}
        self._former: dict[str, str] = {}
        self._incognito: dict[str, None] = {}
        self._forgotten = False
        self._snapshot: SessionRows | None = None

    def listen(self, listener: Listener) -> None:
        """Tell somebody about changes from now on."""
        self._listeners.append(listener)

    def forget(self, listener: Listener) -> None:
        """Tell it no more."""
        self._listeners.remove(listener)

    def put(self, row: SessionRow) -> None:
        """Publish or announce one row; raises `Overloaded` when it would be one too many."""
        key = row.session_key
        new = key not in self._published and key not in self._pending
        if new and len(self._published.keys() | self._pending.keys()) >= self._most_rows:
            raise Overloaded(f"at most {self._most_rows} session rows of one agent are kept")
        self._write(row)
        self._tell(key)

    def replace(self, rows: Iterable[SessionRow]) -> None:
        """Make these the rows of the agent: sessions that are not among them are gone."""
        wanted = {row.session_key: row for row in rows}
        if len(wanted) > self._most_rows:
            raise Overloaded(f"at most {self._most_rows} session rows of one agent are kept")
        gone = (self._published.keys() | self._pending.keys()) - wanted.keys()
        self._remove(gone)
        for row in wanted.values():
            self._write(row)
        for key in (*gone, *wanted):
            self._tell(key)

    def delete(self, session_key: str) -> None:
        """Forget a session; one that is not known is no error."""
        self._remove({session_key})
        self._tell(session_key, deleted=True)

    def published(self, session_key: str) -> SessionRow | None:
        """The row in force."""
        return self._published.get(session_key)

    def is_pending(self, session_key: str) -> bool:
        """Whether a write of this row was announced and not yet published."""
        return session_key in self._pending

    def pending_lineage(self, session_key: str) -> bool:
        """Whether any row that a session's lineage names is being written."""
        if not self._pending:
            return False
        return any(key in self._pending for key in ancestors(self.rows(), session_key))

    def rows(self) -> SessionRows:
        """The published rows as a value; built once for each state of the table."""
        if self._snapshot is None:
            self._snapshot = SessionRows(
                by_key=dict(self._published),
                keys=dict(self._keys),
                former=dict(self._former),
                incognito=frozenset(self._incognito),
                incognito_forgotten=self._forgotten,
            )
        return self._snapshot

    def _tell(self, session_key: str, *, deleted: bool = False) -> None:
        for listener in tuple(self._listeners):
            listener(session_key, deleted)

    def _write(self, row: SessionRow) -> None:
        self._snapshot = None
        if row.incognito:
            self._hide(row.session_id)
        if row.pending:
            self._pending[row.session_key] = row
            return
        self._pending.pop(row.session_key, None)
        before = self._published.get(row.session_key)
        if before is not None and before.session_id != row.session_id:
            self._unlink(before)
            self._remember(before)
        self._published[row.session_key] = row
        self._former.pop(row.session_id, None)
        keys = self._keys.get(row.session_id, ())
        if row.session_key not in keys:
            self._keys[row.session_id] = (*keys, row.session_key)

    def _remove(self, keys: Iterable[str]) -> None:
        self._snapshot = None
        removed = set(keys)
        for key in removed:
            self._pending.pop(key, None)
            row = self._published.pop(key, None)
            if row is not None:
                self._unlink(row)
        if not removed.isdisjoint(self._former.values()):
            self._former = {name: key for name, key in self._former.items() if key not in removed}

    def _unlink(self, row: SessionRow) -> None:
        left = tuple(key for key in self._keys.get(row.session_id, ()) if key != row.session_key)
        if left:
            self._keys[row.session_id] = left
        else:
            self._keys.pop(row.session_id, None)

    def _remember(self, row: SessionRow) -> None:
        """An archive keeps the id that its session had. Forgotten ones are as if without a row."""
        self._former.pop(row.session_id, None)
        self._former[row.session_id] = row.session_key
        if len(self._former) > MOST_FORMER:
            del self._former[next(iter(self._former))]

    def _hide(self, session_id: str) -> None:
        """An id once incognito stays so. Once ids were forgotten, every id without a row counts as one."""
        self._incognito.pop(session_id, None)
        self._incognito[session_id] = None
        if len(self._incognito) > MOST_INCOGNITO:
            del self._incognito[next(iter(self._incognito))]
            self._forgotten = True

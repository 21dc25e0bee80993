"""What hosts report and vouch for, of all agents: what others use of this package (spec §4.2)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from sidecar.domain.authority import Audience
from sidecar.domain.errors import AudienceRefused
from sidecar.domain.session_rows import NO_ROWS, SessionRow, SessionRows
from sidecar.domain.sessions import NOT_MINTED
from sidecar.host.audiences import CHILD_CHANGED, MOST_AUDIENCES, UNKNOWN, AudienceBook, Minted
from sidecar.host.origins import OriginClass, Origins
from sidecar.host.publications import SETTLE_SECONDS, Publications
from sidecar.policy.lineage import NoAudience
from sidecar.policy.session_keys import agent_of


def new_handle() -> str:
    """256 bits that nobody can guess."""
    return secrets.token_urlsafe(32)


class HostSessions:
    """Session rows, audiences and origins of the configured agents. It implements `Audiences` for leases.

    Callers have checked that they may name the agent of each session key (spec §3).
    """

    def __init__(
        self,
        agents: Iterable[str],
        *,
        mint: Callable[[], str] = new_handle,
        settle_seconds: float = SETTLE_SECONDS,
        most_audiences: int = MOST_AUDIENCES,
    ) -> None:
        """`most_audiences` is of one agent."""
        self._books = {
            agent_id: AudienceBook(agent_id=agent_id, mint=mint, most=most_audiences) for agent_id in agents
        }
        self._origins = {agent_id: Origins() for agent_id in self._books}
        self._publications = Publications(settle_seconds=settle_seconds)

    def put(self, row: SessionRow) -> None:
        """Publish or announce one row."""
        self._book(agent_of(row.session_key)).table.put(row)
        self._publications.announce()

    def replace(self, agent_id: str, rows: Iterable[SessionRow]) -> None:
        """The full set of rows of one agent."""
        self._book(agent_id).table.replace(rows)
        self._publications.announce()

    def delete(self, session_key: str) -> None:
        """A session is gone."""
        self._book(agent_of(session_key)).session_deleted(session_key)
        self._publications.announce()

    def rows(self, agent_id: str) -> SessionRows:
        """The published rows of an agent at this moment."""
        book = self._books.get(agent_id)
        return NO_ROWS if book is None else book.table.rows()

    async def resolve(
        self, *, agent_id: str, session_key: str, session_id: str, sender_is_owner: bool
    ) -> Minted | NoAudience:
        """The audience of a turn, once rows of its lineage that are being written are published."""
        book = self._book(agent_id)
        await self._publications.settled(lambda: book.table.pending_lineage(session_key))
        return book.resolve(session_key=session_key, session_id=session_id, sender_is_owner=sender_is_owner)

    def admit(self, audience: Audience, *, session_key: str) -> Minted:
        """An audience on the host's word."""
        return self._book(audience.agent_id).admit(audience, session_key=session_key)

    async def delegate(
        self, handle: str, *, session_key: str, session_id: str | None, detached: bool = False
    ) -> Minted:
        """An audience for a child session; raises `AudienceRefused` in U§6's words."""
        book = self._owner(handle, UNKNOWN)
        before = book.table.published(session_key)
        await self._publications.settled(
            lambda: book.is_pending(handle) or book.table.is_pending(session_key)
        )
        after = book.table.published(session_key)
        if before is not None and (after is None or after.session_id != before.session_id):
            book.assert_current(handle)
            raise AudienceRefused(CHILD_CHANGED.format(key=session_key))
        return book.delegate(handle, session_key=session_key, session_id=session_id, detached=detached)

    def release(self, handle: str) -> None:
        """The run that owned an audience has ended. Idempotent."""
        for book in self._books.values():
            book.release(handle)

    def agent_of_handle(self, handle: str) -> str | None:
        """The agent whose memory a handle is about, None for one that is not known here."""
        return next((agent_id for agent_id, book in self._books.items() if book.knows(handle)), None)

    def bind(
        self,
        handle: str,
        *,
        agent_id: str,  # noqa: ARG002  # an audience of another agent is the policy's to refuse, in its own words
        session_key: str,
        session_id: str | None,
        lease: str,
    ) -> BoundAudience:
        """The audience behind a handle, in use; raises `AudienceRefused` (see `Audiences`)."""
        book = self._owner(handle, NOT_MINTED)
        audience = book.bind(handle, session_key=session_key, session_id=session_id, lease=lease)
        return BoundAudience(book=book, handle=handle, audience=audience, publications=self._publications)

    def released(self, lease: str) -> None:
        """A lease has ended, and what was admitted for it."""
        for book in self._books.values():
            book.lease_ended(lease)

    def put_origin(self, agent_id: str, path: str, revision: str, origin: OriginClass) -> None:
        """Where a text of an agent came from."""
        self._origins[agent_id].put(path, revision, origin)

    def origins(self, agent_id: str) -> Origins:
        """The recorded origins of an agent's texts."""
        return self._origins[agent_id]

    def _book(self, agent_id: str | None) -> AudienceBook:
        book = self._books.get(agent_id or "")
        if book is None:
            raise AudienceRefused(UNKNOWN)
        return book

    def _owner(self, handle: str, otherwise: str) -> AudienceBook:
        agent_id = self.agent_of_handle(handle)
        if agent_id is None:
            raise AudienceRefused(otherwise)
        return self._books[agent_id]


class BoundAudience:
    """An audience in the use of one session and lease."""

    def __init__(
        self, *, book: AudienceBook, handle: str, audience: Audience, publications: Publications
    ) -> None:
        self._book = book
        self._handle = handle
        self._publications = publications
        self.audience = audience

    def assert_current(self) -> None:
        """Raise `AudienceRefused` with U§6's sentence once the audience no longer holds."""
        self._book.assert_current(self._handle)

    async def settle(self) -> None:
        """Wait for rows of its lineage that are being written; the check that follows has the last word."""
        await self._publications.settled(lambda: self._book.is_pending(self._handle))

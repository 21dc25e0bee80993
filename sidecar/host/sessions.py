"""What hosts report and vouch for, of all agents: what others use of this package (spec §4.2)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping

import msgspec

from sidecar.domain.authority import Audience, Bearer
from sidecar.domain.errors import AudienceRefused
from sidecar.domain.session_rows import NO_ROWS, SessionRow, SessionRows
from sidecar.domain.sessions import NOT_MINTED
from sidecar.host.audiences import CHILD_CHANGED, MOST_AUDIENCES, UNKNOWN, AudienceBook, Minted
from sidecar.host.origins import OriginClass, Origins
from sidecar.host.publications import SETTLE_SECONDS, Publications
from sidecar.host.table import SessionTable
from sidecar.policy.lineage import NoAudience
from sidecar.policy.session_keys import agent_of


def new_handle() -> str:
    """256 bits that nobody can guess."""
    return secrets.token_urlsafe(32)


class HostSessions:
    """Session rows, audiences and origins of the configured agents. It implements `Audiences` for leases.

    Rows and origins are an agent's, whoever reports them; audiences are the token's that made them, name and
    secret, and end with it. Callers have checked that they may name the agent of each session key (spec §3).
    """

    def __init__(
        self,
        agents: Iterable[str],
        *,
        mint: Callable[[], str] = new_handle,
        settle_seconds: float = SETTLE_SECONDS,
        most_audiences: int = MOST_AUDIENCES,
    ) -> None:
        """`most_audiences` is of one agent and token."""
        self._mint = mint
        self._most_audiences = most_audiences
        self._tables = {agent_id: SessionTable() for agent_id in agents}
        self._books: dict[str, _Books] = {}
        self._origins = {agent_id: Origins() for agent_id in self._tables}
        self._publications = Publications(settle_seconds=settle_seconds)

    def put(self, row: SessionRow) -> None:
        """Publish or announce one row."""
        self._table(agent_of(row.session_key)).put(row)
        self._publications.announce()

    def replace(self, agent_id: str, rows: Iterable[SessionRow]) -> None:
        """The full set of rows of one agent."""
        self._table(agent_id).replace(rows)
        self._publications.announce()

    def delete(self, session_key: str) -> None:
        """A session is gone."""
        self._table(agent_of(session_key)).delete(session_key)
        self._publications.announce()

    def rows(self, agent_id: str) -> SessionRows:
        """The published rows of an agent at this moment."""
        table = self._tables.get(agent_id)
        return NO_ROWS if table is None else table.rows()

    async def resolve(
        self, *, agent_id: str, session_key: str, session_id: str, sender_is_owner: bool, bearer: Bearer
    ) -> Minted | NoAudience:
        """The audience of a turn, once rows of its lineage that are being written are published."""
        table = self._table(agent_id)
        await self._publications.settled(lambda: table.pending_lineage(session_key))
        return self._book(agent_id, bearer).resolve(
            session_key=session_key, session_id=session_id, sender_is_owner=sender_is_owner
        )

    def admit(self, audience: Audience, *, session_key: str, bearer: Bearer) -> Minted:
        """An audience on the host's word."""
        return self._book(audience.agent_id, bearer).admit(audience, session_key=session_key)

    async def delegate(
        self,
        handle: str,
        *,
        session_key: str,
        session_id: str | None,
        bearer: Bearer,
        detached: bool = False,
    ) -> Minted:
        """An audience for a child session; raises `AudienceRefused` in U§6's words."""
        book = self._owner(handle, bearer, UNKNOWN)
        before = book.table.published(session_key)
        await self._publications.settled(
            lambda: book.is_pending(handle) or book.table.is_pending(session_key)
        )
        after = book.table.published(session_key)
        if before is not None and (after is None or after.session_id != before.session_id):
            book.assert_current(handle)
            raise AudienceRefused(CHILD_CHANGED.format(key=session_key))
        return book.delegate(handle, session_key=session_key, session_id=session_id, detached=detached)

    def release(self, handle: str, *, bearer: Bearer) -> None:
        """The run that owned an audience has ended. Idempotent."""
        for book in self._books_of(bearer).values():
            book.release(handle)

    def agent_of_handle(self, handle: str, *, bearer: Bearer) -> str | None:
        """The agent whose memory a handle is about, None for one that this token did not make."""
        books = self._books_of(bearer).items()
        return next((agent_id for agent_id, book in books if book.knows(handle)), None)

    def bind(
        self,
        handle: str,
        *,
        agent_id: str,  # noqa: ARG002  # an audience of another agent is the policy's to refuse, in its own words
        session_key: str,
        session_id: str | None,
        lease: str,
        bearer: Bearer,
    ) -> BoundAudience:
        """The audience behind a handle, in use; raises `AudienceRefused` (see `Audiences`)."""
        book = self._owner(handle, bearer, NOT_MINTED)
        audience = book.bind(handle, session_key=session_key, session_id=session_id, lease=lease)
        return BoundAudience(book=book, handle=handle, audience=audience, publications=self._publications)

    def released(self, lease: str, *, opened: bool = True) -> None:
        """A lease has ended, and what was admitted for it alone; one that never opened ends nothing."""
        for books in self._books.values():
            for book in books.by_agent.values():
                book.lease_ended(lease, opened=opened)

    def sweep(self) -> None:
        """Forget the audiences of tokens whose secret no longer stands."""
        for key in [key for key, books in self._books.items() if not books.bearer.holds()]:
            for book in self._books.pop(key).by_agent.values():
                book.close()

    def put_origin(self, agent_id: str, path: str, revision: str, origin: OriginClass) -> None:
        """Where a text of an agent came from."""
        self._origins[agent_id].put(path, revision, origin)

    def origins(self, agent_id: str) -> Origins:
        """The recorded origins of an agent's texts."""
        return self._origins[agent_id]

    def _table(self, agent_id: str | None) -> SessionTable:
        table = self._tables.get(agent_id or "")
        if table is None:
            raise AudienceRefused(UNKNOWN)
        return table

    def _book(self, agent_id: str, bearer: Bearer) -> AudienceBook:
        """The book that a token mints in; made when it first does."""
        table = self._table(agent_id)
        if bearer.key not in self._books:
            self.sweep()
            self._books[bearer.key] = _Books(bearer=bearer)
        by_agent = self._books[bearer.key].by_agent
        if agent_id not in by_agent:
            by_agent[agent_id] = AudienceBook(
                agent_id=agent_id, table=table, mint=self._mint, most=self._most_audiences
            )
        return by_agent[agent_id]

    def _books_of(self, bearer: Bearer) -> Mapping[str, AudienceBook]:
        """What a token has minted; nothing once its secret no longer stands."""
        books = self._books.get(bearer.key)
        return books.by_agent if books is not None and bearer.holds() else {}

    def _owner(self, handle: str, bearer: Bearer, otherwise: str) -> AudienceBook:
        agent_id = self.agent_of_handle(handle, bearer=bearer)
        if agent_id is None:
            raise AudienceRefused(otherwise)
        return self._books_of(bearer)[agent_id]


class _Books(msgspec.Struct, kw_only=True):
    """The audiences of one token, by agent."""

    bearer: Bearer
    by_agent: dict[str, AudienceBook] = {}


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

"""Audiences and when they hold (U§6, spec §4.2): minted, bound, current, delegated, ended. No I/O.

    resolved    from a session's own lineage: holds while every row of it is the same incarnation
    delegated   from another audience to a child session: holds while that one does and the child does
    admitted    on the host's word: for its session and the lease that it is used in, ending with either

A book is one token's: to every other token its handles are as if never minted. An ended audience never
holds again, whatever is written later. A row that is being written only makes currency unavailable until it
is published.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from sidecar.domain.authority import Audience, Conversation
from sidecar.domain.errors import AudienceRefused
from sidecar.domain.session_rows import SessionRow
from sidecar.domain.sessions import NOT_MINTED
from sidecar.host.table import SessionTable
from sidecar.policy import lineage
from sidecar.policy.session_keys import agent_of

MOST_AUDIENCES = 10_000
"""Of one agent; past it the least recently used ends."""
MOST_ENDED = 10_000
"""So many ended ones still say how they ended; older handles are as if never minted."""

UNKNOWN = "memory audience was not minted by this host"
ELSEWHERE = "memory audience is bound to a different session"
STALE = "memory audience is no longer current"
UNAVAILABLE = "memory audience currency is unavailable; retry the operation"
RELEASED = "memory audience was released by its owner"
OTHER_AGENT = "memory audience delegation requires a session for the same agent"
NO_CHILD = "memory audience delegation requires an existing child session: {key}"
CHILD_CHANGED = "child session changed during memory audience delegation: {key}"

State = Literal["current", "stale", "released"]
Facts = tuple[object, ...]


class _Unreported:
    """The facts of a session that the host has not reported; its first row will be them."""


UNREPORTED = _Unreported()


class _Hold(msgspec.Struct, kw_only=True):
    """A row that an audience rests on. `facts` None: it rests on there being no row.

    `session_id` is what an unreported row has to have once it is reported, where the host or a lease said so.
    """

    session_key: str
    facts: Facts | _Unreported | None
    root: bool = False
    session_id: str | None = None

    @property
    def incarnation(self) -> str | None:
        """The id that the session has to have, as far as anything was said of it."""
        if isinstance(self.facts, _Unreported):
            return self.session_id
        return None if self.facts is None else str(self.facts[0])

    def holds(self, row: SessionRow | None) -> bool:
        """Whether the published row still is what the audience rests on."""
        if isinstance(self.facts, _Unreported):
            if row is None:
                return True
            if self.session_id not in (None, row.session_id):
                return False
            self.facts = facts_of(row, root=self.root)
            return True
        return self.facts == (None if row is None else facts_of(row, root=self.root))


class _Record(msgspec.Struct, kw_only=True, eq=False):
    """One minted audience. `session_id` None: nothing yet says which incarnation of its session it is for.

    `leased`: it is for one lease, the first that it is used in, and ends with it.
    """

    handle: str
    audience: Audience
    session_key: str
    session_id: str | None
    holds: tuple[_Hold, ...]
    parent: _Record | None = None
    depth: int = 0
    leased: bool = False
    lease: str | None = None
    state: State = "current"

    def is_for(self, session_key: str, session_id: str | None) -> bool:
        """Whether this session may use it; the first id that is named where none was known is its own."""
        if session_key != self.session_key:
            return False
        if session_id is None:
            return True
        own = [hold for hold in self.holds if hold.session_key == session_key]
        known = {self.session_id, *(hold.incarnation for hold in own)} - {None}
        if not known <= {session_id}:
            return False
        self.session_id = session_id
        for hold in own:
            hold.session_id = session_id
        return True


class Minted(msgspec.Struct, frozen=True, kw_only=True):
    """A new audience: its handle, and what it stands for."""

    handle: str
    audience: Audience


def facts_of(row: SessionRow, *, root: bool) -> Facts:
    """What of a row a grant rests on: its incarnation and its receipt, and for a root the chat type."""
    return (
        row.session_id,
        row.lifecycle_revision,
        row.parent_session_key,
        row.parent_session_id,
        row.parent_lifecycle_revision,
        row.spawned_by_sender_is_owner,
        row.chat_type if root else None,
    )


class AudienceBook:
    """The audiences that one token has of one agent, over the agent's table of rows."""

    def __init__(
        self, *, agent_id: str, table: SessionTable, mint: Callable[[], str], most: int = MOST_AUDIENCES
    ) -> None:
        """`mint` gives a new unguessable handle."""
        self._agent_id = agent_id
        self._mint_handle = mint
        self._most = most
        self.table = table
        table.listen(self._row_changed)
        self._live: OrderedDict[str, _Record] = OrderedDict()
        self._ended: OrderedDict[str, _Record] = OrderedDict()
        self._resting: dict[str, set[_Record]] = {}
        self._of_lease: dict[str, set[_Record]] = {}

    def knows(self, handle: str) -> bool:
        """Whether a handle was minted here and not forgotten since."""
        return handle in self._live or handle in self._ended

    @property
    def live(self) -> int:
        """How many audiences have not ended."""
        return len(self._live)

    def resolve(
        self, *, session_key: str, session_id: str, sender_is_owner: bool
    ) -> Minted | lineage.NoAudience:
        """The audience that the rows give the sender of a session's current turn, or why none."""
        found = lineage.resolve(
            self.table.rows(),
            agent_id=self._agent_id,
            session_key=session_key,
            session_id=session_id,
            sender_is_owner=sender_is_owner,
        )
        if self.table.pending_lineage(session_key):
            return lineage.NoAudience(
                kind="unverified", reason=f"the lineage of session {session_key} is being written"
            )
        if isinstance(found, lineage.NoAudience):
            return found
        holds = tuple(
            _Hold(
                session_key=row.session_key,
                facts=facts_of(row, root=row is found.rows[-1]),
                root=row is found.rows[-1],
            )
            for row in found.rows
        )
        return self._mint(
            audience=found.audience, session_key=session_key, session_id=session_id, holds=holds
        )

    def admit(self, audience: Audience, *, session_key: str) -> Minted:
        """An audience on the host's word, for one session and the one lease that it opens.

        Rows that the host has reported of the session, and of a conversation's root, must not contradict it.
        """
        holds = [self._reported(session_key)]
        if isinstance(audience, Conversation):
            root = self.table.published(audience.session_key)
            if root is not None and root.session_id != audience.session_id:
                raise AudienceRefused(STALE)
            holds.append(self._reported(audience.session_key, root_id=audience.session_id))
        return self._mint(
            audience=audience, session_key=session_key, session_id=None, holds=tuple(holds), leased=True
        )

    def delegate(self, handle: str, *, session_key: str, session_id: str | None, detached: bool) -> Minted:
        """A copy for a child session that ends with either; raises `AudienceRefused` in U§6's words.

        `session_id` None takes whatever incarnation the child has. `detached` lets a child be without a row:
        then any later row of its key ends the copy, and `session_id` is what it has to open with.
        """
        parent = self._record(handle, UNKNOWN)
        self.assert_current(handle)
        if agent_of(session_key) != self._agent_id:
            raise AudienceRefused(OTHER_AGENT)
        if parent.depth >= lineage.MOST_HOPS:
            raise AudienceRefused(f"session lineage exceeds {lineage.MOST_HOPS} hops")
        if self.table.is_pending(session_key):
            raise AudienceRefused(UNAVAILABLE)
        row = self.table.published(session_key)
        if row is None and not detached:
            raise AudienceRefused(NO_CHILD.format(key=session_key))
        if row is not None and session_id not in (None, row.session_id):
            raise AudienceRefused(CHILD_CHANGED.format(key=session_key))
        facts = None if row is None else facts_of(row, root=False)
        return self._mint(
            audience=parent.audience,
            session_key=session_key,
            session_id=session_id if row is None else row.session_id,
            holds=(_Hold(session_key=session_key, facts=facts),),
            parent=parent,
        )

    def release(self, handle: str) -> None:
        """End an audience and what was delegated from it. Idempotent; an unknown handle is no error."""
        record = self._live.get(handle)
        if record is not None:
            self._end(record, "released")

    def bind(self, handle: str, *, session_key: str, session_id: str | None, lease: str) -> Audience:
        """What a handle stands for when this session uses it in this lease; says nothing about currency."""
        record = self._record(handle, NOT_MINTED)
        if record.lease not in (None, lease) or not record.is_for(session_key, session_id):
            raise AudienceRefused(ELSEWHERE)
        if record.leased and record.state == "current":
            record.lease = lease
            self._of_lease.setdefault(lease, set()).add(record)
        return record.audience

    def lease_ended(self, lease: str, *, opened: bool = True) -> None:
        """End what was admitted for this lease; one that was never opened leaves it to the next."""
        for record in self._of_lease.pop(lease, set()):
            record.lease = None
            if opened:
                self._end(record, "released")

    def close(self) -> None:
        """The token is gone: its handles are as if never minted."""
        self.table.forget(self._row_changed)
        self._live.clear()
        self._ended.clear()

    def assert_current(self, handle: str) -> None:
        """Raise `AudienceRefused` unless the audience holds now."""
        for record in _upward(self._record(handle, UNKNOWN)):
            if record.state != "current":
                raise AudienceRefused(RELEASED if record.state == "released" else STALE)
            self._live.move_to_end(record.handle)
            if any(self.table.is_pending(hold.session_key) for hold in record.holds):
                raise AudienceRefused(UNAVAILABLE)

    def is_pending(self, handle: str) -> bool:
        """Whether a row that the audience rests on is being written; never for one that has ended."""
        record = self._live.get(handle)
        if record is None or any(item.state != "current" for item in _upward(record)):
            return False
        return any(self.table.is_pending(hold.session_key) for item in _upward(record) for hold in item.holds)

    def _reported(self, session_key: str, *, root_id: str | None = None) -> _Hold:
        row = self.table.published(session_key)
        root = root_id is not None
        facts = UNREPORTED if row is None else facts_of(row, root=root)
        return _Hold(session_key=session_key, facts=facts, root=root, session_id=root_id)

    def _record(self, handle: str, otherwise: str) -> _Record:
        record = self._live.get(handle) or self._ended.get(handle)
        if record is None:
            raise AudienceRefused(otherwise)
        return record

    def _mint(
        self,
        *,
        audience: Audience,
        session_key: str,
        session_id: str | None,
        holds: tuple[_Hold, ...],
        parent: _Record | None = None,
        leased: bool = False,
    ) -> Minted:
        while len(self._live) >= self._most:
            self._end(next(iter(self._live.values())), "stale")
        record = _Record(
            handle=self._mint_handle(),
            audience=audience,
            session_key=session_key,
            session_id=session_id,
            holds=holds,
            parent=parent,
            depth=0 if parent is None else parent.depth + 1,
            leased=leased,
        )
        self._live[record.handle] = record
        for hold in holds:
            self._resting.setdefault(hold.session_key, set()).add(record)
        return Minted(handle=record.handle, audience=audience)

    def _row_changed(self, session_key: str, deleted: bool) -> None:
        """A deleted session ends what rests on it even if its row was never reported."""
        row = self.table.published(session_key)
        for record in tuple(self._resting.get(session_key, ())):
            own = [hold for hold in record.holds if hold.session_key == session_key]
            gone = deleted and any(hold.facts is not None for hold in own)
            if gone or not all(hold.holds(row) for hold in own):
                self._end(record, "stale")

    def _end(self, record: _Record, state: State) -> None:
        if self._live.pop(record.handle, None) is None:
            return
        record.state = state
        for hold in record.holds:
            resting = self._resting.get(hold.session_key, set())
            resting.discard(record)
            if not resting:
                self._resting.pop(hold.session_key, None)
        if record.lease is not None:
            sharing = self._of_lease.get(record.lease, set())
            sharing.discard(record)
            if not sharing:
                self._of_lease.pop(record.lease, None)
            record.lease = None
        self._ended[record.handle] = record
        if len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)


def _upward(record: _Record) -> Iterator[_Record]:
    """An audience and those that it was delegated from."""
    current: _Record | None = record
    while current is not None:
        yield current
        current = current.parent

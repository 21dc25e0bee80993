"""A host does whatever hosts do, in any order; a simple model says what holds and what may be seen.

The model knows nothing of records, tables or rules: it counts how often each session changed, remembers for
each audience the counts that it was given at, and reads the specification over plain dictionaries.
"""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sidecar.domain.authority import Conversation, OwnerPrivate, Session
from sidecar.domain.errors import AccessDenied
from sidecar.domain.session_rows import SessionRow
from sidecar.domain.sessions import TranscriptIdentity
from sidecar.host.audiences import AudienceBook, Minted
from sidecar.host.table import SessionTable
from sidecar.policy.transcripts import TranscriptRules, authoriser

KEYS = [f"agent:main:{name}" for name in ("main", "direct:a", "group:b", "subagent:c", "subagent:d")]
keys = st.sampled_from(KEYS)
places = st.integers(min_value=0, max_value=10**6)


def an_id(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


class Given(msgspec.Struct):
    """An audience as the model remembers it."""

    handle: str
    session_key: str
    stands_for: tuple[str, ...]
    counts: dict[str, int]
    parent: Given | None = None
    released: bool = False
    admitted: bool = False
    lease: str | None = None
    """The one lease of an admitted audience, once there is one."""
    opened_as: str | None = None
    """The id that its session opened with."""
    lost: bool = False


class HostModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        numbers = itertools.count(1)
        self.numbers = itertools.count(1)
        self.book = AudienceBook(agent_id="main", table=SessionTable(), mint=lambda: f"h{next(numbers)}")
        self.rows: dict[str, SessionRow] = {}
        self.history: list[SessionRow] = []
        self.counts = dict.fromkeys(KEYS, 0)
        self.pending: set[str] = set()
        self.incognito: set[str] = set()
        self.former: dict[str, str] = {}
        self.given: list[Given] = []

    # What a host does.

    @rule(
        key=keys,
        chat=st.sampled_from(["direct", "group", "channel", None]),
        incognito=st.sampled_from([False] * 5 + [True]),
    )
    def create(self, key: str, chat: str | None, incognito: bool) -> None:
        number = next(self.numbers)
        self.write(
            SessionRow(
                session_key=key,
                session_id=an_id(number),
                lifecycle_revision=f"r{number}",
                chat_type=chat,
                incognito=incognito,
            )
        )

    @rule(key=keys, parent=keys, owner=st.booleans())
    def spawn(self, key: str, parent: str, owner: bool) -> None:
        above = self.rows.get(parent)
        if above is None:
            return
        number = next(self.numbers)
        self.write(
            SessionRow(
                session_key=key,
                session_id=an_id(number),
                lifecycle_revision=f"r{number}",
                parent_session_key=parent,
                parent_session_id=above.session_id,
                parent_lifecycle_revision=above.lifecycle_revision,
                spawned_by_sender_is_owner=owner,
            )
        )

    @rule(key=keys, keeps_id=st.booleans())
    def reset(self, key: str, keeps_id: bool) -> None:
        row = self.rows.get(key)
        if row is not None:
            number = next(self.numbers)
            session_id = row.session_id if keeps_id else an_id(number)
            self.write(msgspec.structs.replace(row, session_id=session_id, lifecycle_revision=f"r{number}"))

    @rule(place=places)
    @precondition(lambda self: self.history)
    def put_an_earlier_row_back(self, place: int) -> None:
        self.write(self.history[place % len(self.history)])

    @rule(key=keys)
    def write_again(self, key: str) -> None:
        row = self.rows.get(key)
        if row is not None:
            self.write(msgspec.structs.replace(row, sender_is_owner=True))

    @rule(key=keys)
    def delete(self, key: str) -> None:
        self.book.table.delete(key)
        self.forget(key)
        for audience in self.given:
            # An admitted audience ends with its session even if that was never reported.
            if audience.counts.get(key) == -1:
                audience.lost = True

    @rule(kept=st.sets(keys))
    def replace(self, kept: set[str]) -> None:
        self.book.table.replace([row for key, row in self.rows.items() if key in kept])
        for key in KEYS:
            if key not in kept:
                self.forget(key)
        self.pending.clear()

    @rule(key=keys, changed=st.booleans())
    def announce(self, key: str, changed: bool) -> None:
        row = self.rows.get(key) or SessionRow(session_key=key, session_id=an_id(next(self.numbers)))
        if changed:
            row = msgspec.structs.replace(row, session_id=an_id(next(self.numbers)))
        self.book.table.put(msgspec.structs.replace(row, pending=True))
        if row.incognito:
            self.incognito.add(row.session_id)
        self.pending.add(key)

    @rule(key=keys, owner=st.booleans())
    def resolve(self, key: str, owner: bool) -> None:
        row = self.rows.get(key)
        session_id = an_id(0) if row is None else row.session_id
        found = self.book.resolve(session_key=key, session_id=session_id, sender_is_owner=owner)
        path, stands_for = self.lineage(key, owner)
        if self.pending & self.named_by(key):
            assert not isinstance(found, Minted)
        elif stands_for is None:
            assert not isinstance(found, Minted), found
        else:
            assert isinstance(found, Minted), found
            self.remember(found, key, stands_for, {hop: self.counts[hop] for hop in path})

    @rule(key=keys, root=st.none() | keys)
    def admit(self, key: str, root: str | None) -> None:
        audience: OwnerPrivate | Conversation = OwnerPrivate(agent_id="main")
        stands_for: tuple[str, ...] = ("owner",)
        counts = {key: self.counts[key] if key in self.rows else -1}
        if root is not None:
            if root not in self.rows:
                return
            row = self.rows[root]
            audience = Conversation(agent_id="main", session_key=root, session_id=row.session_id)
            stands_for = (root, row.session_id)
            counts[root] = self.counts[root]
        self.remember(self.book.admit(audience, session_key=key), key, stands_for, counts)
        self.given[-1].admitted = True

    @rule(place=places, key=keys, detached=st.booleans())
    @precondition(lambda self: self.given)
    def delegate(self, place: int, key: str, detached: bool) -> None:
        parent = self.given[place % len(self.given)]
        try:
            found = self.book.delegate(parent.handle, session_key=key, session_id=None, detached=detached)
        except AccessDenied:
            assert self.refusal(parent) or key in self.pending or (key not in self.rows and not detached)
            return
        assert self.refusal(parent) is None
        assert key not in self.pending
        assert key in self.rows or detached
        self.remember(found, key, parent.stands_for, {key: self.counts[key]}, parent)

    @rule(place=places)
    @precondition(lambda self: self.given)
    def release(self, place: int) -> None:
        audience = self.given[place % len(self.given)]
        if self.own_refusal(audience) is None:
            audience.released = True
        self.book.release(audience.handle)

    @rule(
        place=places,
        lease=st.sampled_from(["one", "two"]),
        named=st.sampled_from(["no id", "its own", "a new one", "an earlier one"]),
        fails=st.booleans(),
    )
    @precondition(lambda self: self.given)
    def open_a_lease(self, place: int, lease: str, named: str, fails: bool) -> None:
        """The session of an audience opens a lease with it, and names its id, an old one, a made-up one."""
        audience = self.given[place % len(self.given)]
        row = self.rows.get(audience.session_key)
        session_id = {
            "no id": None,
            "its own": row.session_id if row is not None else an_id(0),
            "a new one": an_id(next(self.numbers)),
            "an earlier one": self.history[place % len(self.history)].session_id if self.history else None,
        }[named]
        self.bind(audience, audience.session_key, session_id, lease)
        if fails:
            self.book.lease_ended(lease, opened=False)
            for other in self.given:
                if other.lease == lease and self.own_refusal(other) is None:
                    other.lease = None

    @rule(place=places, key=keys, lease=st.sampled_from(["one", "two"]))
    @precondition(lambda self: self.given)
    def open_a_lease_of_any_session(self, place: int, key: str, lease: str) -> None:
        self.bind(self.given[place % len(self.given)], key, None, lease)

    @rule(lease=st.sampled_from(["one", "two"]))
    def close_a_lease(self, lease: str) -> None:
        self.book.lease_ended(lease)
        for audience in self.given:
            if audience.lease == lease and self.own_refusal(audience) is None:
                audience.released = True

    def bind(self, audience: Given, key: str, session_id: str | None, lease: str) -> None:
        ended = self.own_refusal(audience) is not None
        expected = self.incarnation(audience)
        contradicts = None not in (expected, session_id) and expected != session_id
        try:
            self.book.bind(audience.handle, session_key=key, session_id=session_id, lease=lease)
        except AccessDenied as error:
            assert error.message == "memory audience is bound to a different session"
            # What has ended is refused at the check that follows, whatever is said of its session here.
            elsewhere = audience.lease not in (None, lease)
            assert ended or contradicts or elsewhere or key != audience.session_key
            return
        assert key == audience.session_key
        if ended:
            return
        assert not contradicts
        assert audience.lease in (None, lease)
        audience.opened_as = audience.opened_as or session_id
        if audience.admitted:
            audience.lease = lease

    # What must hold after every step, which is also in the middle of every call.

    @invariant()
    def audiences_hold_exactly_as_long_as_the_model_says(self) -> None:
        for audience in self.given:
            try:
                self.book.assert_current(audience.handle)
                said = None
            except AccessDenied as error:
                said = error.message
            assert said == self.refusal(audience), audience

    @invariant()
    def nothing_is_seen_that_the_model_does_not_show(self) -> None:
        rows = self.book.table.rows()
        ids = {row.session_id for row in self.history}
        for audience in self.given[-3:]:
            if self.refusal(audience) is not None:
                continue
            for mode in ("self", "tree", "agent"):
                view = authoriser(
                    self.authority(audience), "main", rows=rows, rules=TranscriptRules(visibility=mode)
                )
                assert view is not None
                for session_id, archived in itertools.product(ids, (None, "reset", "deleted")):
                    transcript = TranscriptIdentity(
                        path="x", session_id=session_id, agent_id="main", archived=archived
                    )
                    seen = view.grant(transcript, reset_cutoff=None).allowed
                    assert seen == self.shows(audience, mode, session_id, archived), (mode, transcript)

    # The model.

    def write(self, row: SessionRow) -> None:
        self.book.table.put(row)
        key = row.session_key
        before = self.rows.get(key)
        if before is None or self.facts(before) != self.facts(row):
            self.counts[key] += 1
        if before is not None and before.session_id != row.session_id:
            self.former[before.session_id] = key
        self.former.pop(row.session_id, None)
        self.rows[key] = row
        self.history.append(row)
        self.pending.discard(key)
        if row.incognito:
            self.incognito.add(row.session_id)
        for audience in self.given:
            # The first row of a session that was admitted unreported is the one that it rests on,
            # unless the session has opened with another id.
            if audience.counts.get(key) == -1 and not audience.lost and not audience.released:
                audience.counts[key] = self.counts[key]
                audience.lost = audience.opened_as not in (None, row.session_id)

    def forget(self, key: str) -> None:
        if self.rows.pop(key, None) is not None:
            self.counts[key] += 1
        self.pending.discard(key)
        self.former = {session_id: holder for session_id, holder in self.former.items() if holder != key}

    @staticmethod
    def facts(row: SessionRow) -> tuple[object, ...]:
        return (row.session_id, row.lifecycle_revision, row.parent_session_key, row.parent_session_id)

    def incarnation(self, audience: Given) -> str | None:
        """The id that a session must open with: what is known of it, else what it opened with first."""
        row = self.rows.get(audience.session_key)
        if row is not None and self.own_refusal(audience) is None:
            return row.session_id
        root = audience.stands_for
        if audience.parent is None and len(root) == 2 and root[0] == audience.session_key:
            return root[1]
        return audience.opened_as

    def remember(
        self,
        minted: Minted,
        key: str,
        stands_for: tuple[str, ...],
        counts: dict[str, int],
        parent: Given | None = None,
    ) -> None:
        self.given.append(Given(minted.handle, key, stands_for, counts, parent))

    def own_refusal(self, audience: Given) -> str | None:
        if audience.released:
            return "memory audience was released by its owner"
        changed = any(count not in (-1, self.counts[key]) for key, count in audience.counts.items())
        if changed or audience.lost:
            audience.lost = True
            return "memory audience is no longer current"
        return None

    def refusal(self, audience: Given) -> str | None:
        current: Given | None = audience
        while current is not None:
            refusal = self.own_refusal(current)
            if refusal is None and self.pending & current.counts.keys():
                refusal = "memory audience currency is unavailable; retry the operation"
            if refusal is not None:
                return refusal
            current = current.parent
        return None

    def named_by(self, key: str) -> set[str]:
        named: set[str] = set()
        while key not in named:
            named.add(key)
            row = self.rows.get(key)
            if row is None or row.parent_session_key is None:
                break
            key = row.parent_session_key
        return named

    def lineage(self, key: str, owner: bool) -> tuple[list[str], tuple[str, ...] | None]:
        """The sessions from one to its root, and what the root makes of them."""
        path: list[str] = []
        while key in self.rows and key not in path:
            path.append(key)
            row = self.rows[key]
            if row.parent_session_key is None:
                if row.chat_type is None:
                    return path, None
                private = row.chat_type == "direct" and owner
                return path, ("owner",) if private else (key, row.session_id)
            above = self.rows.get(row.parent_session_key)
            if above is None or (above.session_id, above.lifecycle_revision) != (
                row.parent_session_id,
                row.parent_lifecycle_revision,
            ):
                return path, None
            owner = bool(row.spawned_by_sender_is_owner)
            key = row.parent_session_key
        return path, None

    def authority(self, audience: Given) -> Session:
        stands_for = audience.stands_for
        return Session(
            session_key=audience.session_key,
            sandboxed=False,
            audience=OwnerPrivate(agent_id="main")
            if len(stands_for) == 1
            else Conversation(agent_id="main", session_key=stands_for[0], session_id=stands_for[1]),
        )

    def shows(self, audience: Given, mode: str, session_id: str, archived: str | None) -> bool:
        holders = [key for key, row in self.rows.items() if row.session_id == session_id]
        if archived == "deleted" or session_id in self.incognito:
            return False
        if len(audience.stands_for) == 2:
            return bool(holders) and all(
                (key, session_id) == audience.stands_for
                or self.lineage(key, owner=False)[1] == audience.stands_for
                for key in holders
            )
        if archived == "reset":
            holders += [self.former[session_id]] if session_id in self.former else []
        own = audience.session_key
        return any(
            key == own
            or mode == "agent"
            or (mode == "tree" and (own == KEYS[0] or self.rows[key].parent_session_key == own))
            for key in holders
        )


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        HostModel,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_sessions_audiences_and_visibility_are_as_the_model_says() -> None:
    run(examples=25, steps=30)


@pytest.mark.slow
def test_sessions_audiences_and_visibility_are_as_the_model_says_in_long_runs() -> None:
    run(examples=300, steps=60)

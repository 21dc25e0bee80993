"""Which audience a session's lineage gives (U§6): from the session to its root, hop by hop, or why none.

A child has what its receipt says: the exact incarnation of the parent that spawned it, and whether the owner
asked. The chat type of the root alone decides the partition; what a key looks like decides nothing.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from sidecar.domain.authority import Audience, Conversation, OwnerPrivate
from sidecar.domain.session_rows import SessionRow, SessionRows
from sidecar.policy.session_keys import agent_of

MOST_HOPS = 64
_SESSION_ID = re.compile(r"[a-f0-9-]{36}\Z")
_SHARED_CHATS = frozenset({"direct", "group", "channel"})

DenialKind = Literal["stale-lineage", "unverified", "ineligible"]


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """A validated lineage: its rows from the session to the root, and the audience that it gives."""

    rows: tuple[SessionRow, ...]
    audience: Audience


class NoAudience(msgspec.Struct, frozen=True, kw_only=True):
    """No audience, and why: `stale-lineage` needs a new spawn, `unverified` may pass, `ineligible` not."""

    kind: DenialKind
    reason: str


class _Hop(msgspec.Struct, frozen=True, kw_only=True):
    """What the next row has to be. `receipt` None: the session itself, whose revision nobody recorded."""

    session_key: str
    session_id: str
    owner: bool
    receipt: SessionRow | None = None


def resolve(
    rows: SessionRows, *, agent_id: str, session_key: str, session_id: str, sender_is_owner: bool
) -> Lineage | NoAudience:
    """The audience of a session of `agent_id` whose current turn was sent by its owner or somebody else."""
    hop = _Hop(session_key=session_key, session_id=session_id, owner=sender_is_owner)
    walked: list[SessionRow] = []
    seen: set[str] = set()
    for _ in range(MOST_HOPS):
        if not _well_formed(hop, agent_id) or hop.session_key in seen:
            # Whoever asks may not know of the agent that a row names as its parent's.
            foreign = walked and agent_of(hop.session_key) != agent_id
            at = f"the parent of {walked[-1].session_key}" if foreign else hop.session_key
            return _ineligible(f"session lineage is malformed, cyclic or of another agent at {at}")
        seen.add(hop.session_key)
        row = rows.by_key.get(hop.session_key)
        if row is None or not _is_incarnation(row, hop):
            return _lost(hop, session_key)
        walked.append(row)
        if is_root(row):
            return _partition(tuple(walked), agent_id, owner=hop.owner)
        following = _parent(row)
        if isinstance(following, NoAudience):
            return following
        hop = following
    return _ineligible(f"session lineage exceeds {MOST_HOPS} hops")


def ancestors(rows: SessionRows, session_key: str) -> tuple[str, ...]:
    """The keys that a session's lineage names as far as rows are known, the session's own first."""
    keys: dict[str, None] = {}
    key: str | None = session_key
    while key is not None and key not in keys and len(keys) < MOST_HOPS:
        keys[key] = None
        row = rows.by_key.get(key)
        key = None if row is None else row.parent_session_key
    return tuple(keys)


def is_root(row: SessionRow) -> bool:
    """Whether nothing was recorded of a parent; half a receipt makes a malformed child, not a root."""
    return (
        row.parent_session_key is None
        and row.parent_session_id is None
        and row.parent_lifecycle_revision is None
        and row.spawned_by_sender_is_owner is None
    )


def _well_formed(hop: _Hop, agent_id: str) -> bool:
    return agent_of(hop.session_key) == agent_id and _SESSION_ID.match(hop.session_id) is not None


def _is_incarnation(row: SessionRow, hop: _Hop) -> bool:
    if row.session_id != hop.session_id:
        return False
    return hop.receipt is None or row.lifecycle_revision == hop.receipt.parent_lifecycle_revision


def _lost(hop: _Hop, session_key: str) -> NoAudience:
    if hop.receipt is None:
        return NoAudience(
            kind="unverified", reason=f"session {hop.session_key} is not known under the given session id"
        )
    return NoAudience(
        kind="stale-lineage",
        reason=f"ancestor {hop.session_key} of session {session_key} was reset or removed since it spawned "
        "its child; spawn the child again",
    )


def _parent(row: SessionRow) -> _Hop | NoAudience:
    owner = row.spawned_by_sender_is_owner
    if owner is None:
        return NoAudience(
            kind="stale-lineage",
            reason=f"session {row.session_key} was spawned without a record of whether the owner asked; "
            "spawn it again",
        )
    if row.parent_session_key is None or row.parent_session_id is None:
        return _ineligible(f"session {row.session_key} has an incomplete record of its parent")
    return _Hop(
        session_key=row.parent_session_key, session_id=row.parent_session_id, owner=owner, receipt=row
    )


def _partition(walked: tuple[SessionRow, ...], agent_id: str, *, owner: bool) -> Lineage | NoAudience:
    root = walked[-1]
    if root.chat_type == "direct" and owner:
        return Lineage(rows=walked, audience=OwnerPrivate(agent_id=agent_id))
    if root.chat_type in _SHARED_CHATS:
        audience = Conversation(agent_id=agent_id, session_key=root.session_key, session_id=root.session_id)
        return Lineage(rows=walked, audience=audience)
    return _ineligible(f"root session {root.session_key} has no durable chat type")


def _ineligible(reason: str) -> NoAudience:
    return NoAudience(kind="ineligible", reason=reason)

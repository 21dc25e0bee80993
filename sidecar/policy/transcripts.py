"""Which transcripts a caller may see (spec §5.4, U§7), one by one, over a snapshot of the session rows.

Whatever the caller: nothing of another agent, nothing deleted, nothing incognito. Then, by the caller:

- operator: every other transcript of the agent;
- session with the owner's audience: by visibility `self`, `tree` or `agent`, or by a recall pass;
- session with a conversation's audience: that conversation, its root and what validly descends from it;
- everybody else: nothing. A transcript without a session row is for operators only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from sidecar.domain.authority import Authority, Conversation, ConversationRecall, Session
from sidecar.domain.session_rows import SessionRow, SessionRows
from sidecar.domain.sessions import TranscriptGrant, TranscriptIdentity
from sidecar.policy import lineage
from sidecar.policy.access import Deny, SandboxedAccess, read_transcripts
from sidecar.policy.session_keys import agent_of, is_private_conversation, is_recall_run_of, main_session

Visibility = Literal["self", "tree", "agent"]
Rule = Callable[[TranscriptIdentity, int | None], TranscriptGrant]

RECALL_SCOPE = "same-agent-private"
RECALL_REFUSED = Deny("this recall pass is not authorised")


class TranscriptRules(msgspec.Struct, frozen=True, kw_only=True):
    """What is configured for one agent."""

    visibility: Visibility = "self"
    sandboxed_access: SandboxedAccess = "deny"


class Requester(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, as U§7's filter knows it: a session, or nobody in particular (`session_key` None).

    `trusted_agent_scope` counts only for the latter, unsandboxed and without a recall pass.
    """

    session_key: str | None
    sandboxed: bool = False
    trusted_agent_scope: bool = False
    recall: ConversationRecall | None = None


class Transcripts:
    """One caller's view of one agent's transcripts: what holds for all, then the caller's rule."""

    def __init__(self, *, agent_id: str, rows: SessionRows, rule: Rule) -> None:
        self._agent_id = agent_id
        self._rows = rows
        self._rule = rule

    def grant(self, transcript: TranscriptIdentity, *, reset_cutoff: int | None) -> TranscriptGrant:
        """Whether the caller may see a transcript; `reason` names the rule that admits or refuses."""
        if transcript.agent_id is not None and transcript.agent_id != self._agent_id:
            return _no("another-agent")
        if transcript.agent_id is None and not self._rows.once_with_id(transcript.session_id):
            return _no("owner-unknown")
        if transcript.archived == "deleted":
            return _no("deleted")
        if self._rows.is_incognito(transcript.session_id):
            return _no("incognito")
        return self._rule(transcript, reset_cutoff)


def authoriser(
    authority: Authority, agent_id: str, *, rows: SessionRows, rules: TranscriptRules
) -> Transcripts | None:
    """What an authority sees of the transcripts of `agent_id`; None when it may look at none of them."""
    verdict = read_transcripts(authority, agent_id, sandboxed_access=rules.sandboxed_access)
    if isinstance(verdict, Deny):
        return None
    if not isinstance(authority, Session):
        return Transcripts(agent_id=agent_id, rows=rows, rule=_operator)
    requester = Requester(
        session_key=authority.session_key,
        sandboxed=authority.sandboxed,
        recall=authority.conversation_recall,
    )
    rule = _by_requester(requester, agent_id, rows, rules)
    if isinstance(authority.audience, Conversation):
        of_conversation = _of_conversation(authority.audience, rows)
        # A recall pass never widens a conversation's partition; what it does not admit, it narrows.
        rule = of_conversation if requester.recall is None else _both(of_conversation, rule)
    return Transcripts(agent_id=agent_id, rows=rows, rule=rule)


def recall_refused(authority: Authority, agent_id: str, rows: SessionRows) -> Deny | None:
    """Why a recall pass over transcripts is refused as a whole; None where there is none to refuse."""
    if not isinstance(authority, Session) or authority.conversation_recall is None:
        return None
    requester = Requester(
        session_key=authority.session_key,
        sandboxed=authority.sandboxed,
        recall=authority.conversation_recall,
    )
    return RECALL_REFUSED if _recall_refused(requester, agent_id, rows) else None


class RawHit(Protocol):
    """What is looked at of a raw hit of a file-shaped manager: where it stands."""

    @property
    def path(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def end_line(self) -> int: ...


def authorise_hits(
    hits: Sequence[RawHit],
    *,
    agent_id: str,
    requester: Requester,
    rows: SessionRows,
    rules: TranscriptRules,
    identify: Callable[[str], TranscriptIdentity | None],
    reset_cutoff: Callable[[TranscriptIdentity], int | None] = lambda _: None,
) -> tuple[TranscriptGrant, ...]:
    """The verdict on each raw hit, without an audience (U§7 "Filter", spec §4.2 `manager.authorize`).

    Hits that are no transcript's are kept, except under a recall pass over sessions. `identify` says
    whose transcript a path names; `reset_cutoff` the line of its last reset, without which a recall pass sees
    nothing of its own conversation.
    """
    sessions_only = requester.recall is not None and requester.recall.corpus == "sessions"
    view = Transcripts(agent_id=agent_id, rows=rows, rule=_filter_rule(requester, agent_id, rows, rules))
    grants = []
    for hit in hits:
        if hit.source != "sessions":
            grants.append(_no("recall-sessions-only") if sessions_only else _yes("not-a-transcript"))
            continue
        transcript = identify(hit.path)
        if transcript is None:
            grants.append(_no("no-transcript"))
            continue
        grant = view.grant(transcript, reset_cutoff=reset_cutoff(transcript))
        beyond = grant.before_line is not None and hit.end_line >= grant.before_line
        grants.append(_no("recall-own-conversation") if beyond else grant)
    return tuple(grants)


def _filter_rule(requester: Requester, agent_id: str, rows: SessionRows, rules: TranscriptRules) -> Rule:
    if requester.sandboxed and rules.sandboxed_access == "deny":
        return _nobody("sandboxed")
    if requester.session_key is None:
        trusted = requester.trusted_agent_scope and not requester.sandboxed and requester.recall is None
        return _operator if trusted else _nobody("no-requester")
    return _by_requester(requester, agent_id, rows, rules)


def _by_requester(requester: Requester, agent_id: str, rows: SessionRows, rules: TranscriptRules) -> Rule:
    key = requester.session_key
    if key is None:
        return _nobody("no-requester")
    if requester.recall is None:
        return _by_visibility(key, agent_id, rows, rules, sandboxed=requester.sandboxed)
    if _recall_refused(requester, agent_id, rows):
        return _nobody("recall-not-authorised")
    return _by_recall(requester.recall, rows)


def _recall_refused(requester: Requester, agent_id: str, rows: SessionRows) -> bool:
    key, recall = requester.session_key, requester.recall
    if key is None or recall is None:
        return False
    return requester.sandboxed or not _recall_authorised(key, recall, agent_id, rows)


def _by_visibility(
    requester_key: str, agent_id: str, rows: SessionRows, rules: TranscriptRules, *, sandboxed: bool
) -> Rule:
    """`self`: its own. `tree`: also those it spawned, and all for the agent's main session. `agent`: all.

    A sandboxed requester has the narrower of `tree` and what is configured, without the main session's view.
    """
    own_agent = agent_of(requester_key) == agent_id
    mode: Visibility = "tree" if sandboxed and rules.visibility == "agent" else rules.visibility
    sees_all = mode == "tree" and not sandboxed and requester_key == main_session(agent_id)

    def visible(row: SessionRow) -> str | None:
        if row.session_key == requester_key:
            return "own-session"
        if mode == "tree" and row.parent_session_key == requester_key:
            return "tree"
        if mode == "agent":
            return "agent"
        return "main-session" if sees_all else None

    def rule(transcript: TranscriptIdentity, _cutoff: int | None) -> TranscriptGrant:
        found = _rows_of(transcript, rows)
        if not found:
            return _no("no-session-row")
        if not own_agent:
            return _no("another-agent")
        for row in found:
            reason = visible(row)
            if reason is not None:
                return _yes(reason)
        return _no(f"visibility-{mode}")

    return rule


def _of_conversation(audience: Conversation, rows: SessionRows) -> Rule:
    """The root's own transcript, and those of children whose lineage gives this very audience (U§6)."""

    def belongs(row: SessionRow) -> bool:
        if row.session_key == audience.session_key:
            return row.session_id == audience.session_id
        found = lineage.resolve(
            rows,
            agent_id=audience.agent_id,
            session_key=row.session_key,
            session_id=row.session_id,
            sender_is_owner=False,
        )
        return isinstance(found, lineage.Lineage) and found.audience == audience

    def rule(transcript: TranscriptIdentity, _cutoff: int | None) -> TranscriptGrant:
        found = rows.with_id(transcript.session_id)
        if not found:
            return _no("no-session-row")
        # An id that two sessions share is shown only where both are of the conversation.
        return _yes("conversation") if all(map(belongs, found)) else _no("another-conversation")

    return rule


def _recall_authorised(
    requester_key: str, recall: ConversationRecall, agent_id: str, rows: SessionRows
) -> bool:
    anchor = recall.anchor_session_key
    row = rows.by_key.get(anchor)
    return (
        recall.scope == RECALL_SCOPE
        and is_recall_run_of(requester_key, anchor)
        and agent_of(anchor) == agent_id
        and row is not None
        and all(map(is_private_conversation, rows.with_id(row.session_id)))
    )


def _by_recall(recall: ConversationRecall, rows: SessionRows) -> Rule:
    """Every private conversation of the agent; of the anchor's own only what was before its reset."""

    def rule(transcript: TranscriptIdentity, cutoff: int | None) -> TranscriptGrant:
        found = _rows_of(transcript, rows)
        if not found:
            return _no("no-session-row")
        if not all(map(is_private_conversation, found)):
            return _no("recall-not-private")
        own = any(row.session_key == recall.anchor_session_key for row in found)
        if own and transcript.archived is None:
            if cutoff is None:
                return _no("recall-own-conversation")
            return TranscriptGrant(allowed=True, reason="recall-before-reset", before_line=cutoff)
        return _yes("recall")

    return rule


def _rows_of(transcript: TranscriptIdentity, rows: SessionRows) -> tuple[SessionRow, ...]:
    """The sessions that a transcript is of; a reset archive still is its session's."""
    if transcript.archived == "reset":
        return rows.once_with_id(transcript.session_id)
    return rows.with_id(transcript.session_id)


def _operator(_transcript: TranscriptIdentity, _cutoff: int | None) -> TranscriptGrant:
    return _yes("operator")


def _nobody(reason: str) -> Rule:
    return lambda _transcript, _cutoff: _no(reason)


def _both(first: Rule, second: Rule) -> Rule:
    """Admitted by both; what the second narrows stays narrowed."""

    def rule(transcript: TranscriptIdentity, cutoff: int | None) -> TranscriptGrant:
        grant = first(transcript, cutoff)
        return second(transcript, cutoff) if grant.allowed else grant

    return rule


def _yes(reason: str) -> TranscriptGrant:
    return TranscriptGrant(allowed=True, reason=reason)


def _no(reason: str) -> TranscriptGrant:
    return TranscriptGrant(allowed=False, reason=reason)

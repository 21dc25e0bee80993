"""Which transcripts a caller sees (spec §5.4, U§7), said in words: caller, setting, and the sessions seen."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from sidecar.domain.authority import (
    Authority,
    Conversation,
    ConversationRecall,
    HostOperation,
    Operator,
    OwnerPrivate,
    Session,
)
from sidecar.domain.session_rows import SessionRow, SessionRows
from sidecar.domain.sessions import TranscriptAuthoriser, TranscriptIdentity
from sidecar.policy.access import Deny
from sidecar.policy.session_keys import is_private_conversation, is_recall_run_of
from sidecar.policy.transcripts import (
    RawHit,
    Requester,
    TranscriptRules,
    Transcripts,
    authorise_hits,
    authoriser,
    recall_refused,
)


def an_id(name: str) -> str:
    return (name.encode().hex() + "0" * 36)[:36]


def row(name: str, *, agent: str = "main", parent: str | None = None, **fields: Any) -> SessionRow:
    if parent is not None:
        fields = {
            "parent_session_key": f"agent:main:{parent}",
            "parent_session_id": an_id(parent),
            "spawned_by_sender_is_owner": False,
        } | fields
    return SessionRow(session_key=f"agent:{agent}:{name}", session_id=an_id(name), **fields)


ROWS = [
    row("main", chat_type="direct"),
    row("direct:ann", chat_type="direct"),
    row("group:9", chat_type="group"),
    row("subagent:m", parent="main", spawned_by_sender_is_owner=True),
    row("subagent:g", parent="group:9"),
    row("subagent:gg", parent="subagent:g"),
    row("subagent:a", parent="direct:ann"),
    row("hidden", parent="main", chat_type="direct", incognito=True),
]
KEPT = ["main", "direct:ann", "group:9", "subagent:m", "subagent:g", "subagent:gg", "subagent:a"]
LOST = "lost"
"""A transcript of this agent that no session row knows."""


def snapshot(given: list[SessionRow] = ROWS, **fields: Any) -> SessionRows:
    keys: dict[str, tuple[str, ...]] = {}
    for item in given:
        keys[item.session_id] = (*keys.get(item.session_id, ()), item.session_key)
    return SessionRows(
        by_key={item.session_key: item for item in given},
        keys=keys,
        incognito=frozenset(item.session_id for item in given if item.incognito),
        **fields,
    )


def transcript(name: str, **fields: Any) -> TranscriptIdentity:
    return TranscriptIdentity(**{"path": "x", "session_id": an_id(name), "agent_id": "main"} | fields)


def view_of(authority: Authority, rows: SessionRows | None = None, **rules: Any) -> TranscriptAuthoriser:
    """The view of an authority that has one."""
    view = authoriser(authority, "main", rows=rows or snapshot(), rules=TranscriptRules(**rules))
    assert isinstance(view, Transcripts)
    return view


def seen(authority: Authority, rows: SessionRows | None = None, **rules: Any) -> set[str]:
    """The names of the sessions whose live transcripts an authority sees."""
    view = authoriser(authority, "main", rows=rows or snapshot(), rules=TranscriptRules(**rules))
    if view is None:
        return set()
    return {
        name for name in [*KEPT, "hidden", LOST] if view.grant(transcript(name), reset_cutoff=None).allowed
    }


def owner(name: str, **fields: Any) -> Session:
    given = {"sandboxed": False, "audience": OwnerPrivate(agent_id="main")} | fields
    return Session(session_key=f"agent:main:{name}", **given)


def in_conversation(name: str, root: str, **fields: Any) -> Session:
    audience = Conversation(agent_id="main", session_key=f"agent:main:{root}", session_id=an_id(root))
    return owner(name, audience=audience, **fields)


OPERATOR = Operator(scopes=("operator.read",))
EVERYTHING = {*KEPT, LOST}
VISIBLE: dict[str, tuple[Authority, dict[str, str], set[str]]] = {
    "an operator sees all but the incognito one": (OPERATOR, {}, EVERYTHING),
    "an operator without the scope sees none": (Operator(scopes=()), {}, set()),
    "an operation of the host sees none": (HostOperation(operation="status"), {}, set()),
    "a session without audience sees none": (owner("main", audience=None), {"visibility": "agent"}, set()),
    "the audience of another agent sees none": (
        owner("main", audience=OwnerPrivate(agent_id="other")), {"visibility": "agent"}, set(),
    ),
    "self: its own": (owner("direct:ann"), {}, {"direct:ann"}),
    "self: the main session has no wider view": (owner("main"), {}, {"main"}),
    "tree: its own and what it spawned, not what those spawned": (
        owner("group:9"), {"visibility": "tree"}, {"group:9", "subagent:g"},
    ),
    "tree: a child does not see its parent": (
        owner("subagent:g"), {"visibility": "tree"}, {"subagent:g", "subagent:gg"},
    ),
    "tree: the main session sees all of its agent": (owner("main"), {"visibility": "tree"}, set(KEPT)),
    "agent: all that have a row": (owner("direct:ann"), {"visibility": "agent"}, set(KEPT)),
    "agent: also for a session without a row of its own": (
        owner("new"), {"visibility": "agent"}, set(KEPT),
    ),
    "a session of another agent sees none, whatever its audience": (
        Session(session_key="agent:other:main", sandboxed=False, audience=OwnerPrivate(agent_id="main")),
        {"visibility": "agent"}, set(),
    ),
    "sandboxed: none": (owner("main", sandboxed=True), {"visibility": "agent"}, set()),
    "sandboxed and allowed: agent narrows to tree, without the main session's view": (
        owner("main", sandboxed=True),
        {"visibility": "agent", "sandboxed_access": "allow"}, {"main", "subagent:m"},
    ),
    "sandboxed and allowed: self stays self": (
        owner("main", sandboxed=True), {"visibility": "self", "sandboxed_access": "allow"}, {"main"},
    ),
    "conversation: the root sees itself and what validly descends from it": (
        in_conversation("group:9", "group:9"), {}, {"group:9", "subagent:g", "subagent:gg"},
    ),
    "conversation: a descendant sees the same, whatever the visibility": (
        in_conversation("subagent:gg", "group:9"), {"visibility": "agent"},
        {"group:9", "subagent:g", "subagent:gg"},
    ),
    "conversation: children that the owner spawned from a direct chat are the owner's": (
        in_conversation("main", "main"), {"visibility": "agent"}, {"main"},
    ),
    "conversation of another agent sees none": (
        owner("x", audience=Conversation(agent_id="other", session_key="agent:main:group:9",
                                         session_id=an_id("group:9"))),
        {"visibility": "agent"}, set(),
    ),
    "conversation: sandboxed sees none": (in_conversation("group:9", "group:9", sandboxed=True), {}, set()),
}  # fmt: skip


@pytest.mark.parametrize(("authority", "rules", "names"), VISIBLE.values(), ids=VISIBLE)
def test_who_sees_which_transcripts(authority: Authority, rules: dict[str, str], names: set[str]) -> None:
    assert seen(authority, **rules) == names


def test_a_root_that_was_reset_is_another_conversation() -> None:
    rows = [item for item in ROWS if item.session_key != "agent:main:group:9"]
    reset = SessionRow(session_key="agent:main:group:9", session_id=an_id("new"), chat_type="group")
    assert seen(in_conversation("group:9", "group:9"), snapshot([*rows, reset])) == set()


def test_an_id_that_another_conversation_shares_is_shown_to_neither() -> None:
    twin = SessionRow(session_key="agent:main:group:8", session_id=an_id("group:9"), chat_type="group")
    assert "group:9" not in seen(in_conversation("group:9", "group:9"), snapshot([*ROWS, twin]))


AUTHORITIES = {
    "operator": OPERATOR,
    "owner": owner("main"),
    "conversation": in_conversation("main", "main"),
}


@pytest.mark.parametrize("authority", AUTHORITIES.values(), ids=AUTHORITIES)
@pytest.mark.parametrize(
    "fields",
    [
        {"archived": "deleted"},
        {"agent_id": "other"},
        {"agent_id": "Main"},
        {"agent_id": "mai"},
        {"agent_id": None, "session_id": an_id("nobody's")},
    ],
    ids=str,
)
def test_nobody_sees_what_is_deleted_or_another_agents_or_nobody_knows_whose(
    authority: Authority, fields: dict[str, Any]
) -> None:
    view = view_of(authority, visibility="agent")
    assert view.grant(transcript("main"), reset_cutoff=None).allowed
    assert not view.grant(transcript("main", **fields), reset_cutoff=None).allowed


@pytest.mark.parametrize("authority", AUTHORITIES.values(), ids=AUTHORITIES)
def test_nobody_sees_an_id_that_was_once_incognito_or_may_have_been(authority: Authority) -> None:
    once = snapshot([item for item in ROWS if not item.incognito])
    once = SessionRows(by_key=once.by_key, keys=once.keys, incognito=frozenset([an_id("hidden")]))
    view = view_of(authority, once, visibility="agent")
    assert not view.grant(transcript("hidden"), reset_cutoff=None).allowed
    forgotten = snapshot(incognito_forgotten=True)
    view = view_of(authority, forgotten, visibility="agent")
    assert not view.grant(transcript(LOST), reset_cutoff=None).allowed


def test_a_reset_archive_is_its_sessions_and_the_live_file_of_an_old_id_is_not() -> None:
    rows = snapshot(former={an_id("old"): "agent:main:direct:ann"})
    view = view_of(owner("direct:ann"), rows)
    assert view.grant(transcript("old", archived="reset"), reset_cutoff=None).allowed
    assert not view.grant(transcript("old"), reset_cutoff=None).allowed
    other = view_of(owner("main"), rows)
    assert not other.grant(transcript("old", archived="reset"), reset_cutoff=None).allowed


ANCHOR = "agent:main:direct:ann"
RUN = f"{ANCHOR}:active-memory:0123456789ab"


def recall(**fields: str) -> ConversationRecall:
    given: dict[str, Any] = {
        "anchor_session_key": ANCHOR, "scope": "same-agent-private", "corpus": "sessions",
    }  # fmt: skip
    return ConversationRecall(**given | fields)


def recalling(key: str = RUN, *, grant: ConversationRecall | None = None, **fields: Any) -> Session:
    return Session(
        session_key=key,
        **{
            "sandboxed": False,
            "audience": OwnerPrivate(agent_id="main"),
            "conversation_recall": grant or recall(),
        }
        | fields,
    )


RECALLS: dict[str, tuple[Session, set[str]]] = {
    "all private conversations but its own": (recalling(), {"main"}),
    "the anchor itself may ask": (recalling(ANCHOR), {"main"}),
    "another session may not": (recalling("agent:main:main"), set()),
    "a run with an odd name may not": (recalling(RUN + "c"), set()),
    "a run with capitals may not": (recalling(f"{ANCHOR}:active-memory:0123456789AB"), set()),
    "a sandboxed run may not": (recalling(sandboxed=True), set()),
    "another scope may not": (recalling(grant=recall(scope="any")), set()),
    "an anchor without a row may not": (
        recalling("agent:main:direct:x", grant=recall(anchor_session_key="agent:main:direct:x")), set(),
    ),
    "an anchor that is a group may not": (
        recalling("agent:main:group:9", grant=recall(anchor_session_key="agent:main:group:9")), set(),
    ),
    "an anchor of another agent may not": (
        recalling("agent:other:main", grant=recall(anchor_session_key="agent:other:main")), set(),
    ),
    "a run without audience may not": (recalling(audience=None), set()),
    "in a conversation it narrows to what both admit": (
        recalling(audience=Conversation(agent_id="main", session_key="agent:main:main",
                                        session_id=an_id("main"))), {"main"},
    ),
    "in a conversation it does not widen": (
        recalling(audience=Conversation(agent_id="main", session_key="agent:main:group:9",
                                        session_id=an_id("group:9"))), set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("authority", "names"), RECALLS.values(), ids=RECALLS)
@pytest.mark.parametrize("visibility", ["self", "agent"])
@pytest.mark.parametrize("corpus", ["sessions", "configured"])
def test_what_a_recall_pass_sees(authority: Session, names: set[str], visibility: str, corpus: Any) -> None:
    given = authority.conversation_recall
    assert given is not None
    authority = Session(
        session_key=authority.session_key,
        sandboxed=authority.sandboxed,
        audience=authority.audience,
        conversation_recall=ConversationRecall(
            anchor_session_key=given.anchor_session_key, scope=given.scope, corpus=corpus
        ),
    )
    assert seen(authority, visibility=visibility) == names


def test_of_its_own_conversation_a_recall_pass_sees_what_was_before_the_reset() -> None:
    rows = snapshot(former={an_id("old"): ANCHOR})
    view = view_of(recalling(), rows)
    live = view.grant(transcript("direct:ann"), reset_cutoff=40)
    assert (live.allowed, live.before_line) == (True, 40)
    assert not view.grant(transcript("direct:ann"), reset_cutoff=None).allowed
    archive = view.grant(transcript("old", archived="reset"), reset_cutoff=None)
    assert (archive.allowed, archive.before_line) == (True, None)
    assert not view.grant(transcript("old", archived="deleted"), reset_cutoff=None).allowed


def test_a_recall_pass_needs_every_alias_to_be_private() -> None:
    alias = SessionRow(session_key="agent:main:group:3", session_id=an_id("main"), chat_type="group")
    assert seen(recalling(), snapshot([*ROWS, alias])) == set()
    alias = SessionRow(session_key="agent:main:group:3", session_id=an_id("direct:ann"), chat_type="group")
    assert seen(recalling(), snapshot([*ROWS, alias])) == set()


@pytest.mark.parametrize(
    ("name", "chat_type", "private"),
    [
        ("main", "direct", True),
        ("main", None, False),
        ("telegram:direct:7", None, True),
        ("telegram:dm:7", None, True),
        ("explicit:7", "direct", True),
        ("explicit:7", None, False),
        ("telegram:group:7", "direct", False),
        ("telegram:channel:7", None, False),
        ("telegram:Group:7", "direct", False),
        ("telegram:direct:7", "group", False),
        ("telegram:direct:7", "channel", False),
        ("telegram:direct:7", "thread", False),
        ("global", "direct", False),
        ("cron:nightly", "direct", False),
        ("main:heartbeat", "direct", False),
        ("hook:x", "direct", False),
        ("node:x", "direct", False),
        ("subagent:x", "direct", False),
        ("direct:7:active-memory:0123456789ab", "direct", False),
    ],
)
def test_which_sessions_are_private_conversations(name: str, chat_type: str | None, private: bool) -> None:
    assert is_private_conversation(row(name, chat_type=chat_type)) is private


@pytest.mark.parametrize("key", [ANCHOR + "x", ANCHOR + ":active-memory:0123456789ab:x", ANCHOR[:-1]])
def test_a_longer_or_shorter_key_is_no_recall_run(key: str) -> None:
    assert not is_recall_run_of(key, ANCHOR)


PATH = re.compile(r"sessions/(?:(\w+)/)?(.+)\.jsonl\Z")


def identify(path: str) -> TranscriptIdentity | None:
    match = PATH.match(path)
    return match and TranscriptIdentity(path=path, session_id=an_id(match[2]), agent_id=match[1])


class LocatedHit(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    source: str
    end_line: int


HITS: list[RawHit] = [
    LocatedHit(path="MEMORY.md", source="memory", end_line=1),
    LocatedHit(path="sessions/main/main.jsonl", source="sessions", end_line=1),
    LocatedHit(path="sessions/main/direct:ann.jsonl", source="sessions", end_line=9),
    LocatedHit(path="sessions/main/direct:ann.jsonl", source="sessions", end_line=10),
    LocatedHit(path="sessions/main/hidden.jsonl", source="sessions", end_line=1),
    LocatedHit(path="sessions/main/lost.jsonl", source="sessions", end_line=1),
    LocatedHit(path="sessions/other/main.jsonl", source="sessions", end_line=1),
    LocatedHit(path="sessions/group:9.jsonl", source="sessions", end_line=1),
    LocatedHit(path="sessions/lost.jsonl", source="sessions", end_line=1),
    LocatedHit(path="sessions/main/notes.txt", source="sessions", end_line=1),
]
FILTERED: dict[str, tuple[Requester, dict[str, str], list[int]]] = {
    "a trusted agent scope sees all of the agent": (
        Requester(session_key=None, trusted_agent_scope=True), {}, [0, 1, 2, 3, 5, 7],
    ),
    "nobody in particular sees no transcript": (Requester(session_key=None), {}, [0]),
    "a trusted scope does not count beside a requester": (
        Requester(session_key=ANCHOR, trusted_agent_scope=True), {}, [0, 2, 3],
    ),
    "a trusted scope does not count in a sandbox": (
        Requester(session_key=None, trusted_agent_scope=True, sandboxed=True),
        {"sandboxed_access": "allow"}, [0],
    ),
    "a trusted scope does not count in a recall pass": (
        Requester(session_key=None, trusted_agent_scope=True, recall=recall(corpus="configured")), {}, [0],
    ),
    "a requester sees by visibility": (
        Requester(session_key=ANCHOR), {"visibility": "agent"}, [0, 1, 2, 3, 7],
    ),
    "a sandboxed requester sees no transcript": (
        Requester(session_key=ANCHOR, sandboxed=True), {"visibility": "agent"}, [0],
    ),
    "recall over transcripts leaves notes out": (Requester(session_key=RUN, recall=recall()), {}, [1, 2]),
    "recall over everything keeps them": (
        Requester(session_key=RUN, recall=recall(corpus="configured")), {}, [0, 1, 2],
    ),
    "recall that is not authorised keeps notes only": (
        Requester(session_key="agent:main:main", recall=recall(corpus="configured")), {}, [0],
    ),
    "recall over transcripts that is not authorised keeps nothing": (
        Requester(session_key="agent:main:main", recall=recall()), {}, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("requester", "rules", "kept"), FILTERED.values(), ids=FILTERED)
def test_which_raw_hits_a_host_may_pass_on(
    requester: Requester, rules: dict[str, Any], kept: list[int]
) -> None:
    grants = authorise_hits(
        HITS,
        agent_id="main",
        requester=requester,
        rows=snapshot(),
        rules=TranscriptRules(**rules),
        identify=identify,
        reset_cutoff=lambda _: 10,
    )
    assert [place for place, grant in enumerate(grants) if grant.allowed] == kept


def test_every_verdict_names_its_rule() -> None:
    grants = authorise_hits(
        HITS,
        agent_id="main",
        requester=Requester(session_key=ANCHOR),
        rows=snapshot(),
        rules=TranscriptRules(),
        identify=identify,
    )
    assert [grant.reason for grant in grants] == [
        "not-a-transcript", "visibility-self", "own-session", "own-session", "incognito",
        "no-session-row", "another-agent", "visibility-self", "owner-unknown", "no-transcript",
    ]  # fmt: skip


def test_a_recall_pass_that_is_not_authorised_says_so_and_others_do_not() -> None:
    """So that its empty answer is told from an answer without hits."""
    said = {}
    for name, session in (
        ("authorised", recalling()),
        ("of another anchor", recalling(grant=recall(anchor_session_key="agent:main:someone-else"))),
        ("none", Session(session_key=RUN, sandboxed=False, audience=OwnerPrivate(agent_id="main"))),
    ):
        said[name] = recall_refused(session, "main", snapshot())
    refused = Deny("this recall pass is not authorised")
    assert said == {"authorised": None, "of another anchor": refused, "none": None}

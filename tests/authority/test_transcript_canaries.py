"""Callers x agents x transcripts: no word of a session reaches a caller that may not see it (spec §5.4)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

CANARY = re.compile(r"talk-(pro|project-secret)-(\w+)")
AGENTS = ("pro", "project-secret")
STORED = ("main", "ann", "group", "sub", "gsub")
"""Sessions with a row that anybody may see at all; beside them an incognito, a deleted and an unknown one."""
ALL_BUT_SECRET = {*STORED, "lost"}
CONVERSATION = {"group", "gsub"}
NAMES = (*STORED, "hidden", "lost", "gone")
IDS = {name: f"{number:08x}-0000-4000-8000-000000000000" for number, name in enumerate(
    ("main", "ann", "group", "sub", "gsub", "hidden", "lost", "gone"), start=1)}  # fmt: skip


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """A session in whose name a host opens a lease, and whose transcripts it sees of each agent."""

    name: str = "main"
    pro: set[str]
    secret: set[str]
    owner: bool | None = True
    """Whether the owner sent the turn whose audience is used; None: no audience."""
    sandboxed: bool = False
    recall: bool = False
    of_other: bool = False
    """The session and its audience are the other agent's."""


CALLERS = {
    # pro has visibility tree, project-secret agent.
    "owner in the main session": Caller(pro=set(STORED), secret=set(STORED)),
    "owner in another session": Caller(name="ann", pro={"ann"}, secret=set(STORED)),
    "child of the owner": Caller(name="sub", pro={"sub"}, secret=set(STORED)),
    "somebody else in a direct chat": Caller(name="ann", owner=False, pro={"ann"}, secret={"ann"}),
    "group": Caller(name="group", pro=CONVERSATION, secret=CONVERSATION),
    "child of a group": Caller(name="gsub", pro=CONVERSATION, secret=CONVERSATION),
    "without audience": Caller(owner=None, pro=set(), secret=set()),
    "sandboxed owner": Caller(sandboxed=True, pro=set(), secret=set()),
    "sandboxed group": Caller(name="group", sandboxed=True, pro=set(), secret=set()),
    "recall of the owner": Caller(recall=True, pro={"ann"}, secret={"ann"}),
    "recall without audience": Caller(owner=None, recall=True, pro=set(), secret=set()),
    "recall in a group": Caller(name="group", recall=True, pro=set(), secret=set()),
    "owner of the other agent": Caller(of_other=True, pro=set(), secret=set()),
}


@pytest.fixture
async def reported(world: Any) -> Any:
    """The world, with every session reported."""
    for agent in AGENTS:
        await world.report(agent)
    return world


async def authority_of(world: Any, caller: Caller, agent: str) -> dict[str, Any]:
    of = AGENTS[1 - AGENTS.index(agent)] if caller.of_other else agent
    key = f"agent:{of}:{caller.name}"
    authority: dict[str, Any] = {"kind": "session", "sessionKey": key, "sandboxed": caller.sandboxed}
    if caller.owner is not None:
        turn = {"agentId": of, "sessionKey": key, "sessionId": IDS[caller.name]}
        granted = await world.call("host", "audience.resolve", turn | {"senderIsOwner": caller.owner})
        authority["audience"] = granted.payload["audience"]
    if caller.recall:
        authority["conversationRecall"] = {
            "anchorSessionKey": key, "scope": "same-agent-private", "corpus": "sessions",
        }  # fmt: skip
    return authority


def requests() -> list[tuple[str, dict[str, Any] | None]]:
    calls: list[tuple[str, dict[str, Any] | None]] = [("provider.health", None)]
    calls += [("provider.candidates", {"kind": kind}) for kind in ("trigger", "project")]
    for query in ("lantern", "lit lantern"):
        calls += [
            ("provider.search", {"query": query}),
            ("provider.search", {"query": query, "sources": ["sessions"], "minScore": 0}),
            ("provider.search", {"query": query, "sources": ["sessions", "memory"], "maxResults": 1}),
        ]
    for agent in AGENTS:
        for name in NAMES:
            for ending in ("", ".deleted.2026-03-04T05-06-07.000Z"):
                reference = {
                    "providerId": "memory-sidecar", "id": f"sessions/{agent}/{IDS[name]}.jsonl{ending}",
                }  # fmt: skip
                calls.append(("provider.get", {"reference": reference | {"fragment": "L2-L2"}}))
    return calls


@pytest.mark.parametrize("name", CALLERS)
async def test_a_session_sees_exactly_the_transcripts_that_the_table_gives_it(
    reported: Any, name: str
) -> None:
    caller = CALLERS[name]
    for agent, expected in zip(AGENTS, (caller.pro, caller.secret), strict=True):
        opened = await reported.call(
            "host",
            "provider.open",
            {"agentId": agent, "authority": await authority_of(reported, caller, agent)},
        )
        seen: set[tuple[str, str]] = set()
        for method, request in requests():
            params = {"lease": opened.payload["lease"]} | ({} if request is None else {"request": request})
            answer = await reported.call("host", method, params)
            words = set(CANARY.findall(answer.raw.decode()))
            assert words <= {(agent, session) for session in expected}, (method, request)
            seen |= words
        assert seen == {(agent, session) for session in expected}, agent


TOKENS: dict[str, Callable[[str], set[str]]] = {
    "all": lambda _: ALL_BUT_SECRET,
    "pro": lambda agent: ALL_BUT_SECRET if agent == "pro" else set(),
    "bare": lambda _: set(),
    "host-pro": lambda agent: ALL_BUT_SECRET if agent == "pro" else set(),
}


@pytest.mark.parametrize("token", TOKENS)
async def test_an_operator_sees_the_transcripts_of_its_agents_but_no_incognito_or_deleted_one(
    reported: Any, token: str
) -> None:
    for agent in AGENTS:
        expected = {(agent, session) for session in TOKENS[token](agent)}
        seen: set[tuple[str, str]] = set()
        for method, request in requests():
            if method == "provider.candidates":
                continue
            params = {"agentId": agent, **(request or {})}
            name = method.replace("provider.", "memory.").replace("health", "status")
            if name == "memory.search":
                params["version"] = 2
            answer = await reported.call(token, name, params)
            seen |= set(CANARY.findall(answer.raw.decode()))
            assert seen <= expected, (method, request)
        assert seen == expected


async def test_the_log_holds_no_word_of_a_transcript(reported: Any) -> None:
    assert not CANARY.search(reported.log())


async def test_a_row_that_becomes_incognito_hides_its_transcript_from_everybody_at_once(
    reported: Any,
) -> None:
    search = {"version": 2, "agentId": "pro", "query": "lantern", "sources": ["sessions"], "minScore": 0}
    row = {"sessionKey": "agent:pro:ann", "sessionId": IDS["ann"], "chatType": "direct"}
    assert b"talk-pro-ann" in (await reported.call("all", "memory.search", search)).raw
    await reported.call("host", "session.put", row | {"incognito": True, "pending": True})
    assert b"talk-pro-ann" not in (await reported.call("all", "memory.search", search)).raw

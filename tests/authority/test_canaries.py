"""Callers x operations x agents over HTTP: no planted word reaches a caller that may not see it.

Each partition is planted with words that stand nowhere else. What a caller may see is said in `CALLERS`;
every byte of every answer is searched for every other partition's words, and the log for all of them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import urllib.request
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

CANARY = re.compile(r"canary-(pro|project-secret)-(\w+)")
NOTES = ("memory", "user", "daily", "shared")
NAMES = ("skipped",)
"""Stand in names of files that are not indexed: status may name them, for those who may read."""
NEVER = ("unindexed", "skippedtext", "live", "said")
"""No part of any corpus that is served here."""
QUERIES = ("lantern", "who filled the lantern", "lantern oil", "shared lantern words", "skipped", "said live")
FEW = 3
"""So many queries, paths and ways to name each agent are tried of the whole product in the fast suite."""
PATHS = (
    "MEMORY.md", "../project-secret/MEMORY.md", "memory/folder/Shared.md", "memory/file.md", "USER.md",
    "memory/2026-03-04.md", "memory/Shared.md", "memory/SHARED.md", "memory/shared.md",
    "memory/back/MEMORY.md", "../pro/MEMORY.md", "memory/../../project-secret/USER.md",
    "memory/../MEMORY.md", "{root}/project-secret/MEMORY.md", "{root}/pro/MEMORY.md",
    "memory/canary-pro-skipped.md", "memory/canary-pro-unindexed.txt", "sessions/canary-pro-live.jsonl",
    "sessions/pro/canary-pro-live.jsonl", "sessions/project-secret/canary-project-secret-live.jsonl",
)  # fmt: skip
MEANS = {"pro": "pro", "project-secret": "project-secret", "PRO": "pro", " pro ": "pro", "pro/": "pro",
         "Project-Secret": "project-secret", "project": "", "secret": "", "*": ""}  # fmt: skip
ASKED = (None, *MEANS)


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and of which agents it may see the notes and the whole status."""

    token: str | None
    reads: tuple[str, ...] = ()
    authority: Callable[[str], dict[str, Any]] | None = None
    """Through a lease instead of an operator's methods: the authority that the host vouches for."""


BOTH = ("pro", "project-secret")
CALLERS = {
    "nobody": Caller(token=None),
    "operator of all agents": Caller(token="all", reads=BOTH),
    "operator of both by name": Caller(token="listed", reads=BOTH),
    "operator of one": Caller(token="pro", reads=("pro",)),
    "administrator of one": Caller(token="admin-pro", reads=("pro",)),
    "operator without scope": Caller(token="bare"),
    "host token of all agents": Caller(token="host", reads=BOTH),
    "host token of one": Caller(token="host-pro", reads=("pro",)),
    "host token without scope": Caller(token="host-bare"),
}


def session(agent: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "session", "sessionKey": f"agent:{agent}:main", "sandboxed": False, **fields}


LEASED = {
    "lease: operator": Caller(
        token="host", reads=BOTH, authority=lambda _: {"kind": "operator", "scopes": ["operator.read"]}
    ),
    "lease: operator without scope": Caller(
        token="host", authority=lambda _: {"kind": "operator", "scopes": []}
    ),
    "lease: host operation": Caller(
        token="host", authority=lambda _: {"kind": "host", "operation": "status"}
    ),
    "lease: session without audience": Caller(token="host", authority=session),
    "lease: owner": Caller(
        token="host", reads=BOTH, authority=lambda agent: session(agent, audience="{owner}")
    ),
    "lease: sandboxed owner": Caller(
        token="host", authority=lambda agent: session(agent, audience="{owner}", sandboxed=True)
    ),
    "lease: owner of the other agent": Caller(
        token="host", authority=lambda agent: session(other(agent), audience="{other}")
    ),
    "lease: group": Caller(
        token="host",
        authority=lambda agent: session(agent, audience="{group}", sessionKey=f"agent:{agent}:group"),
    ),
    "lease: forged audience": Caller(
        token="host", authority=lambda agent: session(agent, audience="forged")
    ),
    "lease: owner under an id that its row contradicts": Caller(
        token="host", authority=lambda agent: session(agent, audience="{owner}", sessionId="f" * 36)
    ),
    "lease: admitted owner under an id that its row contradicts": Caller(
        token="host", authority=lambda agent: session(agent, audience="{admitted}", sessionId="f" * 36)
    ),
    "lease: owner of another token": Caller(
        token="host-pro", authority=lambda agent: session(agent, audience="{owner}")
    ),
    "lease: recall over transcripts": Caller(
        token="host",
        authority=lambda agent: session(
            agent,
            audience="{owner}",
            conversationRecall={
                "anchorSessionKey": f"agent:{agent}:main",
                "scope": "same-agent-private",
                "corpus": "sessions",
            },
        ),
    ),
}  # fmt: skip
STATUS_BESIDE_NOTES = {"lease: recall over transcripts": BOTH}
"""Who may see the whole status though it reads no notes: a recall pass is its owner's."""
SERVED: dict[str, Caller] = CALLERS | LEASED


def other(agent: str) -> str:
    return "pro" if agent == "project-secret" else "project-secret"


def operator_calls(root: str, *, most: int = 99) -> list[tuple[str, dict[str, Any]]]:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory.status", {}), ("sidecar.refresh", {}), ("sidecar.audit", {}), ("sidecar.notes", {}),
    ]  # fmt: skip
    for query in QUERIES[:most]:
        calls += [
            ("memory.search", {"query": query}),
            ("memory.search", {"query": query, "version": 2}),
            ("memory.search", {"query": query, "version": 2, "sources": ["sessions"]}),
            ("sidecar.explain", {"query": query, "minScore": 0}),
            ("sidecar.search", {"query": query, "path": "memory/**"}),
        ]
    for path in PATHS[:most]:
        reference = {"providerId": "memory-sidecar", "id": path.format(root=root)}
        calls += [
            ("memory.get", {"reference": reference}),
            ("memory.get", {"reference": reference | {"fragment": "L1-L9"}}),
        ]
    return calls


async def asked_directly(world: Any, caller: Caller, most: int) -> AsyncIterator[tuple[str | None, bytes]]:
    calls = operator_calls(str(world.root), most=most)
    for named, (method, params) in itertools.product(ASKED[: most + 1], calls):
        agent = {} if named is None else {"agentId": named}
        answer = await world.call(caller.token, method, params | agent)
        yield (None if named is None or method == "sidecar.audit" else MEANS[named]), answer.raw


async def asked_by_lease(world: Any, caller: Caller, most: int) -> AsyncIterator[tuple[str | None, bytes]]:
    assert caller.authority is not None
    for agent in BOTH:
        authority = json.dumps(caller.authority(agent))
        for name, of in (("owner", agent), ("other", other(agent)), ("group", agent)):
            handle = await audience(world, of, "group" if name == "group" else "main")
            authority = authority.replace(f"{{{name}}}", handle)
        authority = authority.replace("{admitted}", await admitted(world, agent))
        opened = await world.call(
            caller.token, "provider.open", {"agentId": agent, "authority": json.loads(authority)}
        )
        yield agent, opened.raw
        lease = opened.payload["lease"] if opened.status == 200 else "none"
        for method, request in lease_calls(str(world.root), most):
            params = {"lease": lease} if request is None else {"lease": lease, "request": request}
            yield agent, (await world.call(caller.token, method, params)).raw


def lease_calls(root: str, most: int) -> list[tuple[str, dict[str, Any] | None]]:
    calls: list[tuple[str, dict[str, Any] | None]] = [("provider.health", None), ("provider.refresh", None)]
    calls += [("provider.candidates", {"kind": kind}) for kind in ("trigger", "project")]
    for query in QUERIES[:most]:
        calls += [
            ("provider.search", {"query": query}),
            ("provider.search", {"query": query, "minScore": 0, "lexicalOnly": True}),
        ]
    for path in PATHS[:most]:
        reference = {"providerId": "memory-sidecar", "id": path.format(root=root)}
        calls.append(("provider.get", {"reference": reference}))
    return [*calls, ("provider.close", None)]


async def audience(world: Any, agent: str, name: str) -> str:
    """The handle of an agent's main session, a direct chat with its owner, or of its group."""
    key, session_id = f"agent:{agent}:{name}", "0" * 36
    row = {"sessionKey": key, "sessionId": session_id, "chatType": "group" if name == "group" else "direct"}
    assert (await world.call("host", "session.put", row)).status == 200
    turn = {"agentId": agent, "sessionKey": key, "sessionId": session_id, "senderIsOwner": True}
    granted = (await world.call("host", "audience.resolve", turn)).payload
    return str(granted["audience"]["handle"])


async def admitted(world: Any, agent: str) -> str:
    """The handle of an owner's audience on the host's word, for the agent's main session."""
    vouched = {"kind": "owner-private", "agentId": agent, "sessionKey": f"agent:{agent}:main"}
    return str((await world.call("host", "audience.admit", vouched)).payload["audience"]["handle"])


async def check(world: Any, name: str, most: int) -> None:
    caller = SERVED[name]
    asked = asked_directly if caller.authority is None else asked_by_lease
    seen: set[tuple[str, str]] = set()
    async for agent, raw in asked(world, caller, most):
        words = set(CANARY.findall(raw.decode()))
        allowed = set()
        if agent in caller.reads or (agent is None and len(caller.reads) == 1):
            allowed = {(agent or caller.reads[0], part) for part in (*NOTES, *NAMES)}
        elif agent in STATUS_BESIDE_NOTES.get(name, ()):
            allowed = {(agent, part) for part in NAMES}
        assert words <= allowed, (agent, raw)
        seen |= words
    wanted = {(agent, part) for agent in caller.reads for part in (*NOTES, *NAMES)}
    assert seen >= wanted, "the words can be seen by those who may"
    assert not {part for _, part in seen} & set(NEVER)


@pytest.mark.parametrize("name", SERVED)
async def test_no_word_reaches_a_caller_that_may_not_see_it(world: Any, name: str) -> None:
    await check(world, name, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVED)
async def test_no_word_reaches_a_caller_that_may_not_see_it_in_the_whole_product(
    world: Any, name: str
) -> None:
    await check(world, name, 99)


async def test_the_log_and_the_metrics_hold_no_word_no_query_and_no_secret(world: Any) -> None:
    for token in ("all", "pro", "bare", "host"):
        for query in QUERIES:
            await world.call(token, "memory.search", {"query": query, "agentId": "pro"})
    shown = await asyncio.to_thread(metrics, world)
    assert "sidecar_" in shown
    log = world.log()
    assert "access decided" in log
    assert not CANARY.findall(shown)
    assert not {part for _, part in CANARY.findall(log)} & {*NOTES, *NEVER}
    # "lantern" alone, the first query, is part of no sentence of ours either.
    for text in (*QUERIES, "-secret-0123456789abcdef"):
        assert text not in log, text
        assert text not in shown, text


def metrics(world: Any) -> str:
    request = urllib.request.Request(  # noqa: S310
        f"{world.service.url}/metrics", headers={"Authorization": f"Bearer {world.secrets['all']}"}
    )
    with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310
        return str(response.read().decode())


async def test_an_agent_that_a_token_does_not_list_is_answered_as_one_that_does_not_exist(world: Any) -> None:
    for method, params in operator_calls(str(world.root)):
        if method == "sidecar.audit":
            continue
        secret = await world.call("pro", method, params | {"agentId": "project-secret"})
        absent = await world.call("pro", method, params | {"agentId": "no-such-agent"})
        assert secret.status == absent.status == 400
        assert secret.error == absent.error == {"code": "INVALID_REQUEST", "message": "unknown agentId"}


async def test_a_reference_that_one_agent_got_opens_nothing_at_another(world: Any) -> None:
    hits = (
        await world.call("all", "memory.search", {"query": "lantern", "version": 2, "agentId": "pro"})
    ).payload
    # A heading that both have word for word is each one's own text, and its reference is the same name.
    own = [hit for hit in hits["hits"] if "canary-pro" in hit["excerpt"]]
    assert len(own) >= 4
    for hit in own:
        read = await world.call(
            "all", "memory.get", {"reference": hit["reference"], "agentId": "project-secret"}
        )
        assert read.payload.get("status") == "not_found"

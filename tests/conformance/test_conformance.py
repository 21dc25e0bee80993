"""The contract of U§3-5, line by line, over every provider and every way to call one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from callers import CALLERS, OPERATOR, Refused, Running
from counting import Counting
from subjects import Subject

from sidecar.domain.authority import CallerContext, HostOperation, Operator, OwnerPrivate, Session
from sidecar.domain.memory import Found, Page, Reference
from sidecar.domain.provider import Capabilities

HIT = {"reference", "excerpt", "score", "source", "citations", "automaticRecall"}
REFERENCE = {"providerId", "id", "revision", "fragment"}
CITATION = {"label", "reference", "url", "startLine", "endLine"}
RECALL = {"eligible", "projectKeys", "triggers", "importance"}
READ = {"status", "reference", "text", "citations", "truncated", "from", "lines", "nextFrom"}
PAGE = {"hits", "nextCursor", "coverage", "warning"}
STRANGER = Session(session_key="agent:main:telegram:direct:7", sandboxed=False)
OPERATION = HostOperation(operation="memory-wiki.query")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the contract. `needs` is what a caller must be able to do."""

    words: str
    run: Callable[[Situation], Awaitable[None]]
    needs: frozenset[str]


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What a case is run on."""

    subject: Subject
    caller: Any
    provider: Counting
    running: Running

    @asynccontextmanager
    async def opened(self, *authority: Any) -> Any:
        view = await self.caller.open(*authority)
        try:
            yield view
        finally:
            await view.close()

    async def capabilities(self) -> Capabilities:
        handle = await self.provider.inner.open("main", _context(), "cli")
        try:
            declared: Capabilities = handle.capabilities
            return declared
        finally:
            await handle.close()

    async def refused(self, call: Awaitable[Any], code: str, message: str) -> None:
        """The call fails with exactly these words, and nothing of it reached the provider."""
        before = list(self.provider.calls)
        with pytest.raises(Refused) as caught:
            await call
        assert (caught.value.code, caught.value.details_code, caught.value.message) == (
            "UNAVAILABLE", code, message,
        )  # fmt: skip
        assert self.provider.calls == before


def _context() -> CallerContext:
    return CallerContext(authority=OPERATOR, assert_current=lambda: None)


CASES: list[Case] = []


def case(words: str, *needs: str) -> Callable[[Any], Any]:
    def add(run: Any) -> Any:
        CASES.append(Case(words=words, run=run, needs=frozenset(needs)))
        return run

    return add


def lacks(what: str, feature: str = "source") -> str:
    return f"memory provider does not support the {what} {feature} capability".replace("  ", " ")


@case("a search finds the text that was asked for, in hits of exactly the contract's shape")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        page = await view.search(query=on.subject.query)
    assert set(page) <= PAGE
    assert len(page["hits"]) >= 3
    assert any(on.subject.known in hit["excerpt"] for hit in page["hits"])
    for hit in page["hits"]:
        assert set(hit) <= HIT
        assert set(hit["reference"]) <= REFERENCE
        assert hit["reference"]["providerId"] == on.subject.provider_id
        assert all(isinstance(value, str) and value.strip() for value in hit["reference"].values())
        for citation in hit.get("citations", []):
            assert set(citation) <= CITATION
            assert citation["label"].strip()
            assert citation.get("reference", hit["reference"])["providerId"] == on.subject.provider_id
            assert 1 <= citation.get("startLine", 1) <= citation.get("endLine", 1)
        if "automaticRecall" in hit:
            assert set(hit["automaticRecall"]) <= RECALL
            assert isinstance(hit["automaticRecall"]["eligible"], bool)


@case("hits that have scores come best first")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        scores = [hit.get("score", 0) for hit in (await view.search(query=on.subject.query))["hits"]]
    assert scores == sorted(scores, reverse=True)


@case("a query that nothing answers is an empty page and no failure")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        page = await view.search(query="xylophonist quartermaster")
    assert page["hits"] == []
    assert page.get("coverage") != "partial"


@case("a page holds no more than was asked for")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        assert len((await view.search(query=on.subject.query, maxResults=1))["hits"]) == 1


@case("a minimum score is strict")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        page = await view.search(query=on.subject.query)
        scores = [hit["score"] for hit in page["hits"] if "score" in hit]
        bar = scores[0] if scores else 0.01
        above = (await view.search(query=on.subject.query, minScore=bar))["hits"]
        assert len(above) == len([score for score in scores if score >= bar])
        assert (await view.search(query=on.subject.query, minScore=99))["hits"] == []


@case("what a hit names can be read, and holds what the hit showed")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        hits = (await view.search(query=on.subject.query))["hits"]
        hit = next(hit for hit in hits if on.subject.known in hit["excerpt"])
        read = await view.get(hit["reference"])
    assert set(read) <= READ
    assert read["status"] == "ok"
    assert read["reference"]["providerId"] == on.subject.provider_id
    assert on.subject.known in read["text"]


@case("a reference that names nothing is `not_found` and says nothing else")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        read = await view.get({"providerId": on.subject.provider_id, "id": on.subject.missing})
    assert read == {"status": "not_found"}


@case("`from` and `lines` choose the lines, and the answer says where they are and where it goes on")
async def _(on: Situation) -> None:
    handbook = {"providerId": on.subject.provider_id, "id": on.subject.handbook}
    async with on.opened() as view:
        middle = await view.get(handbook, from_=2, lines=1)
        last = await view.get(handbook, from_=3, lines=5)
    assert (middle["from"], middle["lines"], middle["nextFrom"], middle["truncated"]) == (2, 1, 3, True)
    text, _, notice = middle["text"].partition("\n\n")
    assert text == "second line of the handbook"
    assert notice == ("[More content available. Use from=3 to continue.]" if on.subject.notices else "")
    assert (last["from"], last["lines"], last["text"]) == (3, 1, "third line of the handbook")
    assert not {"truncated", "nextFrom"} & set(last)


@case("a reading past the end is an empty text, not a failure")
async def _(on: Situation) -> None:
    handbook = {"providerId": on.subject.provider_id, "id": on.subject.handbook}
    async with on.opened() as view:
        read = await view.get(handbook, from_=99)
    assert (read["status"], read["text"], read["lines"]) == ("ok", "", 0)


@case("a revision that is not this text's is not found; a provider without revisions looks at none")
async def _(on: Situation) -> None:
    stale = {"providerId": on.subject.provider_id, "id": on.subject.handbook, "revision": "0" * 40}
    async with on.opened() as view:
        read = await view.get(stale)
        hits = (await view.search(query=on.subject.query))["hits"]
    assert read["status"] == ("not_found" if on.subject.revisions else "ok")
    assert all(("revision" in hit["reference"]) is on.subject.revisions for hit in hits)


@case("a page that can be continued is, and no hit comes twice")
async def _(on: Situation) -> None:
    capabilities = await on.capabilities()
    async with on.opened() as view:
        whole = [hit["reference"] for hit in (await view.search(query=on.subject.query))["hits"]]
        page = await view.search(query=on.subject.query, maxResults=2)
        if not capabilities.pagination:
            assert "nextCursor" not in page
            return
        walked = [hit["reference"] for hit in page["hits"]]
        while "nextCursor" in page:
            page = await view.search(query=on.subject.query, maxResults=1, cursor=page["nextCursor"])
            walked += [hit["reference"] for hit in page["hits"]]
    assert [name for name in whole if name not in walked] == []
    assert len({msgspec.json.encode(name) for name in walked}) == len(walked)


@case("a cursor that was tampered with, or is of another query, gives no hits")
async def _(on: Situation) -> None:
    if not (await on.capabilities()).pagination:
        return
    async with on.opened() as view:
        page = await view.search(query=on.subject.query, maxResults=1)
        for query, cursor in (
            (on.subject.query, "x" + page["nextCursor"]),
            ("another question", page["nextCursor"]),
        ):
            with pytest.raises(Refused) as caught:
                await view.search(query=query, cursor=cursor)
            assert (caught.value.code, caught.value.details_code) == ("UNAVAILABLE", "CURSOR_INVALID")


@case("an undeclared source is refused before the provider is asked, the first one by name")
async def _(on: Situation) -> None:
    declared = (await on.capabilities()).sources
    async with on.opened() as view:
        for sources in (["memory"], ["sessions"], ["memory", "sessions"], ["sessions", "memory"]):
            missing = [source for source in sources if source not in declared]
            if missing:
                call = view.search(query="x", sources=sources)
                await on.refused(call, "CAPABILITY_UNSUPPORTED", lacks(missing[0]))
            else:
                await view.search(query="x", sources=sources)


@case("a cursor is refused before a provider without pages is asked")
async def _(on: Situation) -> None:
    if (await on.capabilities()).pagination:
        return
    async with on.opened() as view:
        await on.refused(
            view.search(query="x", cursor="c"), "CAPABILITY_UNSUPPORTED", lacks("pagination", "")
        )


@case("active project keys are refused before a provider without that filter is asked", "keys")
async def _(on: Situation) -> None:
    capabilities = await on.capabilities()
    async with on.opened() as view:
        asked = view.search(query=on.subject.query, activeProjectKeys=["example.com/x"])
        if capabilities.project_filter:
            hits = (await asked)["hits"]
            assert hits == [] if on.subject.partitions else len(hits) >= 3, "what has no project key passes"
        else:
            await on.refused(asked, "CAPABILITY_UNSUPPORTED", lacks("project filter", ""))


@case("an empty list of project keys asks for nothing", "keys")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        assert len((await view.search(query=on.subject.query, activeProjectKeys=[]))["hits"]) >= 3


@case("of several undeclared capabilities the source is named first, then the cursor", "keys")
async def _(on: Situation) -> None:
    capabilities = await on.capabilities()
    asked = {"sources": ["memory", "sessions"], "cursor": "c", "activeProjectKeys": ["k"]}
    order = {
        "sources": None if "sessions" in capabilities.sources else lacks("sessions"),
        "cursor": None if capabilities.pagination else lacks("pagination", ""),
        "activeProjectKeys": None if capabilities.project_filter else lacks("project filter", ""),
    }
    async with on.opened() as view:
        for name, message in order.items():
            if message is not None:
                await on.refused(view.search(query="x", **asked), "CAPABILITY_UNSUPPORTED", message)
            del asked[name]


@case("searching by words alone is a hint that every provider takes", "keys")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        assert len((await view.search(query=on.subject.query, lexicalOnly=True))["hits"]) >= 3


@case("candidates of a kind are given exactly where they are declared", "candidates")
async def _(on: Situation) -> None:
    capabilities = await on.capabilities()
    async with on.opened() as view:
        for kind in ("trigger", "project"):
            asked = view.candidates(kind=kind, activeProjectKeys=["k"])
            if kind not in capabilities.candidates:
                await on.refused(asked, "CAPABILITY_UNSUPPORTED", lacks(kind, "candidates"))
            elif not capabilities.project_filter:
                await on.refused(asked, "CAPABILITY_UNSUPPORTED", lacks("project filter", ""))
            else:
                assert set(await asked) <= PAGE


@case("a reference of another provider is refused before the provider is asked")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        call = view.get({"providerId": "somebody-else", "id": on.subject.handbook})
        await on.refused(call, "FOREIGN_REFERENCE", "memory reference belongs to a different provider")


@case("a provider that answers with another's reference gives the caller nothing")
async def _(on: Situation) -> None:
    foreign = Reference(provider_id="somebody-else", id="x")

    def stolen(result: Any) -> Any:
        if isinstance(result, Found):
            return msgspec.structs.replace(result, reference=foreign)
        if isinstance(result, Page):
            hits = [msgspec.structs.replace(hit, reference=foreign) for hit in result.hits]
            return msgspec.structs.replace(result, hits=tuple(hits))
        return result

    on.provider.alter = stolen
    handbook = {"providerId": on.subject.provider_id, "id": on.subject.handbook}
    async with on.opened() as view:
        for call in (view.search(query=on.subject.query), view.get(handbook)):
            with pytest.raises(Refused, match="memory reference belongs to a different provider") as caught:
                await call
            assert caught.value.details_code == "FOREIGN_REFERENCE"


@case("a provider that fails tells the caller nothing of itself, and the next call works")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        on.provider.failure = RuntimeError("/home/secret/path: boom")
        for call in (view.search(query="x"), view.health()):
            with pytest.raises(Refused) as caught:
                await call
            assert (caught.value.code, caught.value.details_code) == ("UNAVAILABLE", "PROVIDER_FAILED")
            assert "secret" not in caught.value.message
        on.provider.failure = None
        assert (await view.search(query=on.subject.query))["hits"]


@case("health is one of three words, with details for an operator and without host paths")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        health = await view.health()
    assert set(health) <= {"status", "message", "details"}
    assert health["status"] == "ready"
    assert health["details"]
    assert str(on.running.agent) not in repr(health)
    assert "/tmp" not in repr(health)  # noqa: S108


@case("health answers everybody, and says one word to those who may not read", "authority")
async def _(on: Situation) -> None:
    for authority in (STRANGER, OPERATION, Session(session_key=STRANGER.session_key, sandboxed=True)):
        async with on.opened(authority) as view:
            assert await view.health() == {"status": "ready"}


@case(
    "who may not read gets no hits and the reason; where the host decides, whoever it opened for", "authority"
)
async def _(on: Situation) -> None:
    why = {
        STRANGER: "this session has no owner-private memory audience",
        OPERATION: "host operations cannot read stored memories",
    }
    handbook = {"providerId": on.subject.provider_id, "id": on.subject.handbook}
    for authority, reason in why.items():
        async with on.opened(authority) as view:
            page = await view.search(query=on.subject.query)
            if on.subject.host_trusted:
                assert len(page["hits"]) >= 3
                assert (await view.get(handbook))["status"] == "ok"
                continue
            assert page["hits"] == []
            own = on.subject.provider_id
            assert page["warning"] == f"{own}: stored memories were not searched: {reason}"
            with pytest.raises(Refused) as caught:
                await view.get(handbook)
            assert caught.value.details_code == "ACCESS_DENIED"
            assert caught.value.message == f"{own}: memory access denied: {reason}"


@case("an operator without the scope reads nothing", "authority")
async def _(on: Situation) -> None:
    async with on.opened(Operator(scopes=("operator.write",))) as view:
        page = await view.search(query=on.subject.query)
        assert page["hits"] == []
        assert "missing scope: operator.read" in page["warning"]


@case("the agent's owner reads, another agent's does not", "revoke")
async def _(on: Situation) -> None:
    for agent_id, admitted in (("main", True), ("other", on.subject.host_trusted)):
        owner = Session(
            session_key=STRANGER.session_key, sandboxed=False, audience=OwnerPrivate(agent_id=agent_id)
        )
        async with on.opened(owner) as view:
            assert bool((await view.search(query=on.subject.query))["hits"]) is admitted


@case("a closed handle answers nothing, and closing twice closes once", "close")
async def _(on: Situation) -> None:
    open_before = on.provider.handles
    view = await on.caller.open()
    await view.close()
    await view.close()
    assert on.provider.handles == open_before
    for call in (view.search(query="x"), view.health()):
        with pytest.raises(Refused, match="memory provider handle is closed") as caught:
            await call
        assert caught.value.details_code == "LEASE_CLOSED"
    assert on.provider.calls == []


@case("a revocation outranks a capability error, and closing still works", "revoke")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        on.caller.revoke()
        await on.refused(view.search(query="x", sources=["sessions"], cursor="c"), "ACCESS_DENIED", "revoked")


@case("what was found before a revocation is discarded", "revoke")
async def _(on: Situation) -> None:
    def revoked(result: Any) -> Any:
        on.caller.revoke()
        return result

    on.provider.alter = revoked
    async with on.opened() as view:
        with pytest.raises(Refused, match="revoked"):
            await view.search(query=on.subject.query)


@case("a caller that is revoked before it opens opens nothing", "revoke")
async def _(on: Situation) -> None:
    before = on.provider.handles
    on.caller.revoke()
    with pytest.raises(Refused, match="revoked"):
        await on.caller.open()
    assert on.provider.handles == before


@case("every handle is closed after the call, also after one that failed", "envelope")
async def _(on: Situation) -> None:
    async with on.opened() as view:
        await view.search(query=on.subject.query)
        on.provider.failure = RuntimeError("boom")
        with pytest.raises(Refused):
            await view.search(query=on.subject.query)
    assert on.provider.handles == 0


@case("v1 is answered from files, and by a provider without files with the native owner's error", "envelope")
async def _(on: Situation) -> None:
    asked = on.running.call("memory.search", {"query": on.subject.query}, on.running.operator_token)
    if on.subject.files:
        answer = await asked
        assert any(on.subject.known in hit["snippet"] for hit in answer["results"])
        assert answer["searchMode"] == "fts-only"
        return
    with pytest.raises(Refused) as caught:
        await asked
    assert (caught.value.code, caught.value.message) == (
        "INVALID_REQUEST",
        f'memory plugin "{on.subject.provider_id}" uses the provider runtime; '
        "retry memory.search with version: 2",
    )


@case("opening says whose handle it is, by which adapter, and what it can do", "lease")
async def _(on: Situation) -> None:
    capabilities = await on.capabilities()
    async with on.opened() as view:
        told = dict(view.opened)
    assert told.pop("lease")
    assert told.pop("instance")
    assert told == {
        "providerId": on.subject.provider_id,
        "adapter": on.subject.adapter,
        "capabilities": {
            "sources": list(capabilities.sources),
            "pagination": capabilities.pagination,
            "candidates": list(capabilities.candidates),
            "projectFilter": capabilities.project_filter,
        },
    }


@case("a refresh is done where it is offered, else refused as a capability", "lease")
async def _(on: Situation) -> None:
    handle = await on.provider.inner.open("main", _context(), "cli")
    async with on.opened() as view:
        if hasattr(handle, "refresh"):
            assert await view.refresh() == {}
        else:
            with pytest.raises(Refused) as caught:
                await view.refresh()
            assert caught.value.details_code == "CAPABILITY_UNSUPPORTED"
    await handle.close()


PUT = [(caller, case) for caller in CALLERS for case in CASES if case.needs <= caller.can]


@pytest.mark.parametrize(("call_by", "contract"), PUT, ids=[f"{by.name}: {line.words}" for by, line in PUT])
@pytest.mark.asyncio(loop_scope="module")
async def test_the_contract(
    call_by: Any, contract: Case, subject: Subject, running: Running, provider: Counting
) -> None:
    """Each case, put by every caller that can put it, to every provider."""
    await contract.run(
        Situation(subject=subject, caller=call_by(running), provider=provider, running=running)
    )


def test_every_case_can_be_put_by_some_caller() -> None:
    able = frozenset[str]().union(*(caller.can for caller in CALLERS))
    assert [case.words for case in CASES if not case.needs <= able] == []

"""The lines of the contract about foreign references, failures, authority and handles (U§3-5)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from callers import Refused
from contract_cases import OPERATION, STRANGER, Situation, case, operator_context

from sidecar.domain.authority import Operator, OwnerPrivate, Session
from sidecar.domain.memory import Found, Page, Reference


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
    handle = await on.provider.inner.open("main", operator_context(), "cli")
    async with on.opened() as view:
        if hasattr(handle, "refresh"):
            assert await view.refresh() == {}
        else:
            with pytest.raises(Refused) as caught:
                await view.refresh()
            assert caught.value.details_code == "CAPABILITY_UNSUPPORTED"
    await handle.close()

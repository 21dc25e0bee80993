"""Each row of U§4's table is refused in the same words on every way in, before provider code runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from lease_stage import OPERATOR, OWN, Provider, Stage, ask, hit, staged

from sidecar.domain.errors import Forbidden, InvalidRequest
from sidecar.domain.memory import Citation, Found, Hit, LineRange, Page, Reference, ScoreParts

Way = Callable[[Stage, str, dict[str, Any]], Awaitable[Any]]
FOREIGN = Reference(provider_id="other", id="x")
FAILED = "memory provider records failed"
SOURCE = "memory provider does not support the sessions source capability"
PAGING = "memory provider does not support the pagination capability"
PROJECT = "memory provider does not support the project filter capability"


async def by_http(stage: Stage, operation: str, request: dict[str, Any]) -> Any:
    params = {"version": 2, **request}
    return (await stage.post(f"memory.{operation}", params, token=OPERATOR))[1]


async def by_socket(stage: Stage, operation: str, request: dict[str, Any]) -> Any:
    async with stage.socket(OPERATOR) as socket:
        return await ask(socket, f"memory.{operation}", {"version": 2, **request})


async def by_lease(stage: Stage, operation: str, request: dict[str, Any]) -> Any:
    lease = await stage.open()
    frame = (await stage.post(f"provider.{operation}", {"lease": lease, "request": request}))[1]
    await stage.call("provider.close", {"lease": lease})
    return frame


async def by_lease_on_a_socket(stage: Stage, operation: str, request: dict[str, Any]) -> Any:
    lease = await stage.open()
    async with stage.socket() as socket:
        return await ask(socket, f"provider.{operation}", {"lease": lease, "request": request})


EVERY_WAY = [by_http, by_socket, by_lease, by_lease_on_a_socket]
LEASES_ONLY = [by_lease, by_lease_on_a_socket]
ROWS: list[tuple[str, list[Way], str, dict[str, Any], str]] = [
    ("an undeclared source", EVERY_WAY, "search", {"query": "x", "sources": ["memory", "sessions"]}, SOURCE),
    ("a cursor without pagination", EVERY_WAY, "search", {"query": "x", "cursor": "c"}, PAGING),
    (
        "source before cursor", EVERY_WAY, "search",
        {"query": "x", "cursor": "c", "sources": ["sessions"]}, SOURCE,
    ),
    ("project keys", LEASES_ONLY, "search", {"query": "x", "activeProjectKeys": ["k"]}, PROJECT),
    (
        "cursor before project keys", LEASES_ONLY, "search",
        {"query": "x", "cursor": "c", "activeProjectKeys": ["k"]}, PAGING,
    ),
    (
        "an undeclared kind of candidate", LEASES_ONLY, "candidates",
        {"kind": "project", "activeProjectKeys": ["k"]},
        "memory provider does not support the project candidates capability",
    ),
    (
        "project keys of candidates", LEASES_ONLY, "candidates",
        {"kind": "trigger", "activeProjectKeys": ["k"]}, PROJECT,
    ),
    (
        "a foreign reference", EVERY_WAY, "get", {"reference": {"providerId": "other", "id": "r1"}},
        "memory reference belongs to a different provider",
    ),
]  # fmt: skip
CASES = [pytest.param(way, *rest, id=f"{name}, {way.__name__}") for name, ways, *rest in ROWS for way in ways]


@pytest.mark.parametrize(("way", "operation", "request_", "message"), CASES)
async def test_what_a_provider_does_not_declare_is_refused_before_it_is_called(
    way: Way, operation: str, request_: dict[str, Any], message: str
) -> None:
    async with staged(Provider(candidates=("trigger",))) as stage:
        frame = await way(stage, operation, request_)
        assert frame["error"]["code"] == "UNAVAILABLE"
        assert frame["error"]["message"] == message
        code = "FOREIGN_REFERENCE" if "reference" in message else "CAPABILITY_UNSUPPORTED"
        assert frame["error"]["details"]["code"] == code
        assert stage.provider.calls == []


async def test_refresh_is_refused_where_the_provider_has_none_and_reaches_one_that_has_it() -> None:
    async with staged() as stage:
        error = await stage.error("provider.refresh", {"lease": await stage.open()})
        assert error["message"] == "memory provider does not support refresh"
        assert error["details"]["code"] == "CAPABILITY_UNSUPPORTED"
        assert stage.provider.calls == []
    async with staged(Provider(candidates=("trigger",))) as stage:
        assert await stage.call("provider.refresh", {"lease": await stage.open()}) == {
            "instance": "this-process"
        }
        assert stage.provider.calls == ["refresh"]


async def test_empty_project_keys_and_absent_sources_are_no_demand() -> None:
    async with staged(Provider(candidates=("trigger",))) as stage:
        await by_lease(stage, "search", {"query": "x", "activeProjectKeys": []})
        await by_lease(stage, "candidates", {"kind": "trigger", "activeProjectKeys": []})
        assert stage.provider.calls == ["search", "candidates"]


async def test_what_a_provider_does_to_its_capabilities_after_opening_changes_nothing() -> None:
    provider = Provider()
    declared = ["memory"]
    provider.capabilities = msgspec.structs.replace(provider.capabilities, sources=declared)
    async with staged(provider) as stage:
        lease = await stage.open()
        declared.append("sessions")
        error = await stage.error(
            "provider.search", {"lease": lease, "request": {"query": "x", "sources": ["sessions"]}}
        )
        assert (error["message"], provider.calls) == (SOURCE, [])


class Chatty(Hit, frozen=True, kw_only=True):
    """A hit with a field that the contract does not know."""

    secret: str = "a host path"


def chatty() -> Chatty:
    plain = hit()
    return Chatty(**{name: getattr(plain, name) for name in plain.__struct_fields__})


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (Page(hits=(hit(reference=FOREIGN),)), "memory reference belongs to a different provider"),
        (
            Page(hits=(hit(citations=(Citation(label="x", reference=FOREIGN),)),)),
            "memory reference belongs to a different provider",
        ),
        (Page(hits=(chatty(),)), FAILED),
        (Page(hits=(hit(excerpt=7),)), FAILED),
        (Page(hits=(hit(score=float("nan")),)), FAILED),
        (Page(hits=(hit(lines=LineRange(1, 1), parts=ScoreParts(text="high")),)), FAILED),  # type: ignore[arg-type]
        (Page(hits=None), FAILED),  # type: ignore[arg-type]
        ({"hits": [], "extra": 1}, FAILED),
        (None, FAILED),
    ],
    ids=["foreign hit", "foreign citation", "extra field", "wrong excerpt", "NaN", "deep", "no hits", "dict",
         "none"],
)  # fmt: skip
async def test_a_page_that_breaks_the_contract_is_not_released_and_the_next_one_is(
    stage: Stage, page: Any, message: str
) -> None:
    good = stage.provider.page
    for way in EVERY_WAY:
        stage.provider.page = page
        frame = await way(stage, "search", {"query": "x"})
        assert (frame["error"]["code"], frame["error"]["message"]) == ("UNAVAILABLE", message)
        stage.provider.page = good
        frame = await way(stage, "search", {"query": "x"})
        assert [item["excerpt"] for item in frame["payload"]["hits"]] == ["a record"]


@pytest.mark.parametrize(
    "read",
    [
        Found(reference=FOREIGN, text="x"),
        Found(reference=OWN, text="x", citations=(Citation(label="x", reference=FOREIGN),)),
    ],
)
async def test_a_read_that_names_another_provider_is_not_released(stage: Stage, read: Found) -> None:
    stage.provider.read = read
    for way in EVERY_WAY:
        frame = await way(stage, "get", {"reference": {"providerId": "records", "id": "r1"}})
        assert frame["error"]["details"]["code"] == "FOREIGN_REFERENCE"


@pytest.mark.parametrize(
    "failure",
    [
        ValueError("/secret/path"),
        asyncio.CancelledError(),
        TimeoutError(),
        InvalidRequest("no"),
        Forbidden("no"),
    ],
)
async def test_a_provider_that_raises_gives_one_clean_error_and_the_next_call_works(
    stage: Stage, failure: BaseException
) -> None:
    async def fail() -> None:
        raise failure

    good = stage.provider.act
    for way in EVERY_WAY:
        stage.provider.act = fail
        frame = await way(stage, "search", {"query": "x"})
        assert (frame["error"]["code"], frame["error"]["message"]) == ("UNAVAILABLE", FAILED)
        assert frame["error"]["details"]["code"] == "PROVIDER_FAILED"
        stage.provider.act = good
        assert (await way(stage, "search", {"query": "x"}))["ok"]


async def test_a_provider_that_hangs_is_given_up_and_the_next_call_works(held: asyncio.Event) -> None:
    async def hang() -> None:
        await held.wait()

    async with staged(deadline=0.05) as stage:
        good = stage.provider.act
        for number, way in enumerate(EVERY_WAY, 1):
            stage.provider.act = hang
            frame = await way(stage, "search", {"query": "x"})
            assert frame["error"]["message"] == FAILED
            assert (stage.provider.cancelled, stage.provider.running) == (number, 0)
            stage.provider.act = good
            assert (await way(stage, "search", {"query": "x"}))["ok"]


async def test_a_provider_removed_in_mid_call_answers_no_more_and_a_new_one_does(stage: Stage) -> None:
    async def remove() -> None:
        stage.agents["main"] = stage.agents["spare"]

    kept = stage.agents["main"]
    stage.provider.act = remove
    for way in EVERY_WAY:
        frame = await way(stage, "search", {"query": "x"})
        assert frame["error"]["message"] == "memory provider instance is no longer current"
        assert (await way(stage, "search", {"query": "x"}))["ok"]
        stage.agents["main"] = kept


async def test_a_provider_whose_close_fails_or_hangs_is_let_go_of() -> None:
    async with staged() as stage:

        async def fail() -> None:
            raise RuntimeError("/secret/path")

        stage.provider.on_close = fail
        lease = await stage.open()
        assert (await stage.call("provider.close", {"lease": lease})) == {"instance": "this-process"}
        assert (await by_http(stage, "search", {"query": "x"}))["ok"]
        assert (stage.provider.closed, len(stage.leases)) == (2, 0)

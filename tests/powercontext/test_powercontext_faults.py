"""Whatever the server does, a failure is a failure within its time, never an empty answer; and it heals."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiohttp import web

from sidecar.domain.errors import Overloaded, ProviderFailed, Unavailable
from sidecar.domain.memory import Found, GetRequest, NotFound, Page, SearchRequest

pytestmark = pytest.mark.slow

SEARCH_SECONDS = 0.3
READ_SECONDS = 0.4
SLACK = 2.0
"""What a loaded machine may add to a deadline."""
KEY = "openclaw:agent:main"
HASTY = {"search_timeout_seconds": SEARCH_SECONDS, "timeout_seconds": READ_SECONDS}
BOILER = SearchRequest(query="boiler")


def faults() -> dict[str, Any]:
    from store_stub import answering, drip, error, half_a_body, hang

    return {
        "hung": hang,
        "a slow stream": drip,
        "too large": answering(lambda: web.Response(body=b" " * (9 * 1024 * 1024))),
        "half a body": half_a_body,
        "500": answering(lambda: error(500, "internal_error")),
        "503": answering(lambda: error(503, "inference_unavailable")),
        "busy": answering(lambda: error(503, "server_overloaded", **{"Retry-After": "60"})),
        "403": answering(lambda: error(403, "forbidden")),
        "409": answering(lambda: error(409, "conflict")),
        "422": answering(lambda: error(422, "invalid_access_request")),
        "no such route": answering(lambda: web.json_response({"detail": "Not Found"}, status=404)),
        "moved": answering(lambda: web.Response(status=302, headers={"Location": "http://127.0.0.1:9/"})),
        "HTML": answering(lambda: web.Response(text="<html>ok</html>", content_type="text/html")),
        "HTML error": answering(lambda: web.Response(status=502, text="<h1>Bad gateway</h1>")),
        "nothing": answering(lambda: web.Response()),
        "no content": answering(lambda: web.Response(status=204)),
        "another shape": answering(lambda: web.json_response({"hits": [], "items": []})),
        "a list": answering(lambda: web.json_response([])),
        "null results": answering(lambda: web.json_response({"results": None})),
        "deep": answering(lambda: web.Response(text="[" * 100_000)),
        "not text": answering(lambda: web.Response(body=b"\xff\xfe{}")),
    }


NAMES = (
    "hung", "a slow stream", "too large", "half a body", "500", "503", "busy", "403", "409", "422",
    "no such route", "moved", "HTML", "HTML error", "nothing", "no content", "another shape", "a list",
    "null results", "deep", "not text",
)  # fmt: skip
ENDLESS = ("hung", "a slow stream")


def only_on(path: str, fault: Any) -> Any:
    async def chosen(request: web.Request) -> Any:
        return await fault(request) if path in request.path else None

    return chosen


@pytest.mark.parametrize("name", NAMES)
async def test_every_fault_is_unavailable_in_time_and_told_in_health_and_heals(
    filled: Any, open_handle: Any, eventually: Any, name: str
) -> None:
    assert tuple(faults()) == NAMES
    [hit] = (await (await open_handle(filled)).search(BOILER)).hits
    handle = await open_handle(filled, **(HASTY if name in ENDLESS else {}))
    filled.fault = faults()[name]
    began = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        await handle.search(BOILER)
    assert "127.0.0.1" not in caught.value.message
    assert filled.token not in caught.value.message
    with pytest.raises(Unavailable):
        await handle.get(GetRequest(reference=hit.reference))
    health = await handle.health()
    assert time.monotonic() - began < SEARCH_SECONDS + 2 * READ_SECONDS + SLACK
    assert (health.status, health.message is not None) == ("unavailable", True)
    filled.fault = None

    async def healed() -> bool:
        return (await handle.health()).status == "ready"

    await eventually(healed)
    if name not in ENDLESS:
        assert [found.reference for found in (await handle.search(BOILER)).hits] == [hit.reference]
        assert isinstance(await handle.get(GetRequest(reference=hit.reference)), Found)


@pytest.mark.parametrize(
    "name", ["hung", "a slow stream", "500", "no such route", "another shape", "nothing", "403"]
)
@pytest.mark.parametrize("path", ["/resolve", "/search", "/server-info", "/capabilities"])
async def test_a_fault_at_any_step_of_a_search_is_a_failure_and_never_an_empty_page(
    filled: Any, open_handle: Any, name: str, path: str
) -> None:
    handle = await open_handle(filled, **(HASTY if name in ENDLESS else {}))
    filled.fault = only_on(path, faults()[name])
    with pytest.raises(ProviderFailed):
        await handle.search(BOILER)


@pytest.mark.parametrize("name", ["hung", "500", "no such route", "another shape"])
@pytest.mark.parametrize("path", ["/state", "/revisions/", "/resolve"])
async def test_a_fault_at_any_step_of_a_read_is_a_failure_and_never_not_found(
    filled: Any, open_handle: Any, name: str, path: str
) -> None:
    [hit] = (await (await open_handle(filled)).search(BOILER)).hits
    handle = await open_handle(filled, **(HASTY if name in ENDLESS else {}))
    filled.fault = only_on(path, faults()[name])
    with pytest.raises(ProviderFailed):
        await handle.get(GetRequest(reference=hit.reference))


async def test_a_server_that_is_stopped_and_started_again_is_used_again(
    filled: Any, open_handle: Any
) -> None:
    handle = await open_handle(filled)
    assert len((await handle.search(BOILER)).hits) == 1
    await filled.stop()
    with pytest.raises(ProviderFailed, match="cannot be reached"):
        await handle.search(BOILER)
    assert (await handle.health()).status == "unavailable"
    await filled.start()
    assert len((await handle.search(BOILER)).hits) == 1
    assert (await handle.health()).status == "ready"


async def test_a_restart_between_two_calls_is_not_noticed(filled: Any, open_handle: Any) -> None:
    handle = await open_handle(filled)
    for _ in range(3):
        assert len((await handle.search(BOILER)).hits) == 1
        await filled.stop()
        await filled.start()


async def test_a_busy_server_is_asked_once_more_and_no_oftener(filled: Any, open_handle: Any) -> None:
    from store_stub import error

    handle = await open_handle(filled, search_timeout_seconds=3)
    await handle.search(BOILER)
    refused = 0

    async def busy(_: web.Request) -> Any:
        nonlocal refused
        refused += 1
        return error(503, "server_overloaded", **{"Retry-After": "0"}) if refused <= failures else None

    filled.fault = busy
    failures = 1
    assert len((await handle.search(BOILER)).hits) == 1
    refused, failures = 0, 5
    with pytest.raises(Overloaded) as caught:
        await handle.search(BOILER)
    assert (refused, caught.value.retry_after_ms, caught.value.details_code) == (2, 0, "OVERLOADED")


async def test_a_wait_that_the_server_asks_for_is_kept_or_handed_on(filled: Any, open_handle: Any) -> None:
    handle = await open_handle(filled)
    await handle.search(BOILER)
    filled.fault = faults()["busy"]
    filled.calls.clear()
    with pytest.raises(Overloaded) as caught:
        await handle.search(BOILER)
    assert (len(filled.calls), caught.value.retry_after_ms) == (1, 60_000)


@pytest.mark.parametrize("contract", [(1, 2), (2, 4), (0, 9)])
async def test_a_server_of_another_contract_is_refused_by_version(
    filled: Any, open_handle: Any, contract: tuple[int, int]
) -> None:
    filled.contract = contract
    handle = await open_handle(filled)
    with pytest.raises(ProviderFailed, match=rf"contract {contract[0]}\.{contract[1]}, needed is 1\.3"):
        await handle.search(BOILER)
    health = await handle.health()
    assert health.status == "unavailable"
    assert "needed is 1.3" in (health.message or "")
    assert all("search" not in call for call in filled.calls)
    filled.contract = (1, 9)
    assert len((await handle.search(BOILER)).hits) == 1
    filled.features = {}
    assert (await handle.health()).status == "unavailable"


async def test_a_wrong_token_is_a_failure_that_does_not_tell_it(filled: Any, open_handle: Any) -> None:
    handle = await open_handle(filled, token="wrong-token-that-is-secret")
    with pytest.raises(ProviderFailed, match="refused the token") as caught:
        await handle.search(BOILER)
    assert "secret" not in caught.value.message
    health = await handle.health()
    assert (health.status, health.message) == ("unavailable", "powercontext: the server refused the token")


async def test_a_token_that_is_rotated_in_its_file_is_used_without_a_restart(
    filled: Any, tmp_path: Any
) -> None:
    from sidecar.adapters.powercontext import make

    from sidecar.domain.authority import CallerContext, Operator
    from sidecar.domain.provider import ProviderSetup

    path = tmp_path / "token"
    path.touch(mode=0o600)
    path.write_text(filled.token)
    provider = make(ProviderSetup(agent_id="main", options={"endpoint": filled.url, "token_file": str(path)}))
    context = CallerContext(authority=Operator(scopes=("operator.read",)), assert_current=lambda: None)
    handle = await provider.open("main", context, "cli")
    assert len((await handle.search(BOILER)).hits) == 1
    filled.token = "rotated-token-0123456789"
    path.write_text(filled.token)
    with pytest.raises(ProviderFailed, match="refused the token"):
        await handle.search(BOILER)
    assert len((await handle.search(BOILER)).hits) == 1
    await provider.aclose()


async def test_a_store_that_was_replaced_is_seen_and_old_references_name_nothing_there(
    filled: Any, open_handle: Any
) -> None:
    handle = await open_handle(filled)
    [hit] = (await handle.search(BOILER)).hits
    filled.server_id = "another-server"
    filled.scopes.clear()
    filled.bindings.clear()
    with pytest.raises(ProviderFailed, match="scope_not_found"):
        await handle.search(BOILER)
    assert (await handle.search(BOILER)).hits == ()
    assert await handle.get(GetRequest(reference=hit.reference)) == NotFound()


async def test_a_search_by_meaning_scores_by_the_cosine_and_words_alone_by_their_share(
    filled: Any, open_handle: Any
) -> None:
    filled.modes = ["auto", "fts", "vector", "hybrid"]
    [artifact_id] = filled.records
    filled.distances[artifact_id] = 0.8
    handle = await open_handle(filled)
    [hit] = (await handle.search(SearchRequest(query="boiler plumbing"))).hits
    assert (round(hit.score, 6), hit.parts.vector, hit.parts.text) == (0.68, hit.score, 0.5)
    lexical = await handle.search(SearchRequest(query="boiler plumbing", lexical_only=True))
    assert [found.score for found in lexical.hits] == [0.5]
    assert [body["mode"] for body in filled.bodies if "mode" in body] == ["hybrid", "text"]
    assert all("min_score" not in body for body in filled.bodies)


@pytest.mark.parametrize("name", ["503", "hung", "gone"])
async def test_without_vectors_a_search_falls_back_to_words_and_says_so(
    filled: Any, open_handle: Any, name: str
) -> None:
    filled.modes = ["auto", "fts", "vector", "hybrid"]
    handle = await open_handle(filled, search_timeout_seconds=4, timeout_seconds=20)
    assert (await handle.search(BOILER)).warning is None
    if name == "gone":
        filled.modes = ["auto", "fts"]
    else:
        fault = faults()[name]

        async def without_vectors(request: web.Request) -> Any:
            if request.path.endswith("/search") and (await request.json())["mode"] == "hybrid":
                return await fault(request)
            return None

        filled.fault = without_vectors
    page: Page = await handle.search(BOILER)
    assert len(page.hits) == 1
    assert (page.coverage, page.warning) == ("partial", "degraded: vector unavailable")
    assert (await handle.health()).status == "degraded"
    assert (await handle.search(SearchRequest(query="boiler", lexical_only=True))).warning is None
    filled.fault, filled.modes = None, ["auto", "fts", "vector", "hybrid"]
    assert (await handle.health()).status in ("ready", "degraded")
    assert (await handle.search(BOILER)).coverage == "complete"
    assert (await handle.health()).status == "ready"


async def test_many_calls_at_once_are_all_answered_and_few_reach_the_server_together(
    filled: Any, open_handle: Any, eventually: Any
) -> None:
    handle = await open_handle(filled, search_timeout_seconds=30)
    await handle.search(BOILER)
    running = most = 0
    full = asyncio.Event()

    async def held_until_full(_: web.Request) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await full.wait()
        running -= 1

    async def sixteen() -> bool:
        return running >= 16

    filled.fault = held_until_full
    searches = asyncio.gather(*(handle.search(BOILER) for _ in range(150)))
    await eventually(sixteen)
    full.set()
    assert {len(page.hits) for page in await searches} == {1}
    assert most == 16


async def test_a_call_that_breaks_off_is_made_once_more_and_no_oftener(filled: Any, open_handle: Any) -> None:
    handle = await open_handle(filled, search_timeout_seconds=30)
    await handle.search(BOILER)
    broken, breaks = 0, 1

    async def broken_off(request: web.Request) -> Any:
        nonlocal broken
        if broken == breaks:
            return None
        broken += 1
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    filled.fault = broken_off
    assert len((await handle.search(BOILER)).hits) == 1
    broken, breaks = 0, 9
    with pytest.raises(ProviderFailed, match="broke off"):
        await handle.search(BOILER)
    assert broken == 2


async def test_a_cancelled_caller_leaves_the_connections_usable(
    filled: Any, open_handle: Any, eventually: Any
) -> None:
    handle = await open_handle(filled, search_timeout_seconds=30)
    await handle.search(BOILER)
    filled.fault = faults()["hung"]
    filled.calls.clear()
    tasks = [asyncio.ensure_future(handle.search(BOILER)) for _ in range(40)]

    async def all_hang() -> bool:
        return len(filled.calls) >= 16

    await eventually(all_hang)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    filled.fault = None
    assert len((await handle.search(BOILER)).hits) == 1

"""An answer that cannot be right is a failure, whatever its form, and leads nowhere else."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from aiohttp import web

from sidecar.domain.errors import ProviderFailed, SettingsError, Unavailable
from sidecar.domain.memory import Found, GetRequest, Reference, SearchRequest

pytestmark = pytest.mark.slow

SEARCH_SECONDS = 0.3
READ_SECONDS = 0.4
SLACK = 2.0
"""What a loaded machine may add to a deadline."""
KEY = "openclaw:agent:main"
HASTY = {"search_timeout_seconds": SEARCH_SECONDS, "timeout_seconds": READ_SECONDS}
BOILER = SearchRequest(query="boiler")


def only_on(path: str, fault: Any) -> Any:
    async def chosen(request: web.Request) -> Any:
        return await fault(request) if path in request.path else None

    return chosen


def rewritten(path: str, change: Any) -> Any:
    """Answers under a path are the server's own, changed in one place."""

    async def fault(request: web.Request) -> Any:
        if path not in request.path:
            return None
        match = await request.app.router.resolve(request)
        answer = json.loads((await match.handler(request)).body)
        return web.json_response(change(answer) or answer)

    return fault


def in_hit(**fields: Any) -> Any:
    return lambda answer: answer["results"][0].update(fields)


ODD_HITS = {
    "another family": in_hit(family="topic-memory"),
    "an id that is a path": in_hit(artifact_id="../../v1/server-info"),
    "an id that reads like a project's": in_hit(artifact_id="art_1/project:p"),
    "an empty id": in_hit(artifact_id=""),
    "a revision 0": in_hit(revision=0),
    "a revision that is text": in_hit(revision="1"),
    "a revision beyond all numbers": in_hit(revision=10**30),
    "no text": in_hit(content={"kind": "fact", "text": None}),
    "no scores": in_hit(scores=None),
    "a distance that is text": in_hit(scores={"channels": {"vector": {"raw": "0", "metric": "l2_distance"}}}),
    "a distance that is no number": in_hit(
        scores={"channels": {"vector": {"raw": float("nan"), "metric": "l2_distance"}}}
    ),
}


@pytest.mark.parametrize("name", ODD_HITS)
async def test_a_hit_that_cannot_be_right_is_a_failure_and_never_handed_on(
    filled: Any, open_handle: Any, name: str
) -> None:
    handle = await open_handle(filled)
    filled.fault = rewritten("/search", ODD_HITS[name])
    with pytest.raises(ProviderFailed, match="something else than its contract"):
        await handle.search(BOILER)


@pytest.mark.parametrize("scope_id", ["../../v1/server-info", "scp_1?x=", "", "scp 1", "scp_1\r\nX: y", 7])
async def test_a_scope_whose_id_could_lead_elsewhere_is_never_asked(
    filled: Any, open_handle: Any, scope_id: Any
) -> None:
    handle = await open_handle(filled)
    filled.fault = rewritten("/resolve", lambda answer: answer.update(scope_id=scope_id))
    with pytest.raises(ProviderFailed, match="something else than its contract"):
        await handle.search(BOILER)
    assert filled.calls[-1].endswith("/resolve")


async def test_more_records_than_were_asked_for_are_cut_and_the_best_of_them_are_kept_apart(
    filled: Any, open_handle: Any
) -> None:
    def many(answer: Any) -> None:
        answer["results"] = [
            {**answer["results"][0], "artifact_id": f"art_{place}"} for place in range(5_000)
        ]

    filled.fault = rewritten("/search", many)
    page = await (await open_handle(filled)).search(SearchRequest(query="boiler", max_results=3))
    assert [hit.reference.id.split("/")[1] for hit in page.hits] == ["art_0", "art_1", "art_2"]


async def test_records_of_any_length_hold_up_nobody_else(filled: Any, open_handle: Any) -> None:
    """By the time that the loop's own thread works at a stretch, which does not depend on what else runs."""
    handle = await open_handle(filled)
    [hit] = (await handle.search(BOILER)).hits
    text = "boiler " + " ".join(f"word{number}" for number in range(1_800))
    name = {"family": "atomic-memory", "revision": 1, "artifact_id": hit.reference.id.split("/")[1]}
    record = {**name, "content": {"kind": "fact", "text": text}, "scores": {"channels": {}}}
    body = json.dumps({"results": [record] * 100}).encode()
    filled.fault = only_on("/search", answering_bytes(body))
    longest, running = 0.0, True

    async def watch() -> None:
        nonlocal longest
        before = time.thread_time()
        while running:
            await asyncio.sleep(0)
            now = time.thread_time()
            longest, before = max(longest, now - before), now

    watching = asyncio.create_task(watch())
    page = await handle.search(SearchRequest(query="boiler", max_results=100))
    running = False
    await watching
    assert len(page.hits) == 50
    assert longest < 0.05


def answering_bytes(body: bytes) -> Any:
    from store_stub import answering

    return answering(lambda: web.Response(body=body, content_type="application/json"))


@pytest.mark.parametrize(
    "token", ["two\r\nX-Lines: y", "t\u00f6ken-beyond-ascii", "nul\x00-in-a-token", "a b c d"]
)
async def test_a_token_that_no_header_can_carry_is_refused_at_start_or_by_the_server(
    filled: Any, open_handle: Any, token: str
) -> None:
    try:
        handle = await open_handle(filled, token=token)
    except (SettingsError, ValueError):
        return
    with pytest.raises(Unavailable) as caught:
        await handle.search(BOILER)
    assert token not in caught.value.message


ODD_READS = {
    "another scope": ("/revisions/", lambda answer: answer.update(scope_id="scp_somebody_else")),
    "another record": ("/revisions/", lambda answer: answer.update(artifact_id="art_another")),
    "another revision": ("/revisions/", lambda answer: answer.update(revision=2)),
    "the state of another record": (
        "/state",
        lambda answer: answer["artifact"].update(artifact_id="art_another"),
    ),
}


@pytest.mark.parametrize("name", ODD_READS)
async def test_a_record_under_another_name_than_asked_is_not_given_out(
    filled: Any, open_handle: Any, name: str
) -> None:
    handle = await open_handle(filled)
    [hit] = (await handle.search(BOILER)).hits
    filled.fault = rewritten(*ODD_READS[name])
    with pytest.raises(ProviderFailed, match="another record"):
        await handle.get(GetRequest(reference=hit.reference))
    filled.fault = None
    named = Reference(provider_id="powercontext", id=hit.reference.id)
    assert isinstance(await handle.get(GetRequest(reference=named)), Found)

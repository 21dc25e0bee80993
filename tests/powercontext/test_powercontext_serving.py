"""End to end: an agent writes to the real server, and callers read through the service (slow suite)."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

pytestmark = pytest.mark.slow

MAIN, OTHER, HASTY = "openclaw:agent:main", "openclaw:agent:other", "openclaw:agent:hasty"
BOILER = "The boiler was serviced in May"
SEARCH_SECONDS = 1.2
SLACK = 3.0
"""What a loaded machine may add to a deadline of the service as a client measures it."""


def configuration(url: str) -> str:
    """Three agents of one server; `hasty` has the default time for a search, the others plenty."""
    patient = "search_timeout_seconds = 30\ntimeout_seconds = 30\n"
    tables = ""
    for agent, more in (("main", patient), ("other", patient), ("hasty", "timeout_seconds = 2\n")):
        tables += (
            f'[agents.{agent}]\nprovider = "powercontext"\ndefault = {str(agent == "main").lower()}\n'
            f'[agents.{agent}.powercontext]\nendpoint = "{url}"\ntoken_env = "STORE_TOKEN"\n{more}'
        )
    return tables


def serve(launcher: Any, server: Any, *, token: str | None = None) -> Any:
    path = launcher.directory / "config.toml"
    path.write_text(configuration(server.url))
    environment = {"STORE_TOKEN": token or server.token}
    return launcher.serve(None, "--config", str(path), environment=environment)


@pytest.fixture(scope="module")
def service(shared_launcher: Any, real_server: Any) -> Iterator[Any]:
    """The service over the server, for the tests that leave it alone."""
    started = serve(shared_launcher, real_server)
    yield started
    assert started.stop() == 0


@pytest.fixture
async def written(real_server: Any) -> AsyncIterator[Any]:
    from agent_memory import AgentMemory

    async with aiohttp.ClientSession() as session:
        yield AgentMemory(real_server.url, real_server.token, session)


@pytest.fixture
def own_server(real_server: Any) -> Iterator[Any]:
    """The server, to be stopped, killed and held up; it runs again after each test."""
    yield real_server
    if not real_server.is_running:
        real_server.start()


@pytest.fixture
async def disturbed(own_server: Any, launcher: Any) -> AsyncIterator[Any]:
    """A service over that server with a record for two agents, running again whatever was done to it."""
    from agent_memory import AgentMemory

    service = serve(launcher, own_server)
    async with aiohttp.ClientSession() as session:
        memory = AgentMemory(own_server.url, own_server.token, session)
        for agent in (HASTY, MAIN):
            if BOILER not in await memory.listed(agent):
                await memory.remember(agent, BOILER)
    yield service
    assert service.stop() == 0


async def answer(service: Any, agent: str = "hasty") -> tuple[str, float]:
    """What one search gave, as a word, and the seconds it took: never an empty page."""
    began = time.monotonic()
    params = {"version": 2, "query": "boiler", "agentId": agent}
    status, frame = await service.post("/rpc/memory.search", params)
    took = time.monotonic() - began
    if status == 200:
        assert [hit["excerpt"] for hit in frame["payload"]["hits"]] == [BOILER]
        return "found", took
    assert (status, frame["error"]["code"]) == (503, "UNAVAILABLE"), frame
    return frame["error"]["details"]["code"], took


async def found_again(service: Any, eventually: Any) -> None:
    async def found() -> bool:
        return (await answer(service))[0] == "found"

    await eventually(found, within=240, pause=0.2)
    assert (await service.call("memory.status", {"agentId": "hasty"}))["status"] == "ready"


async def test_what_an_agent_remembers_revises_and_forgets_is_what_callers_read(
    service: Any, written: Any
) -> None:
    artifact_id = await written.remember(MAIN, "The spare key hangs behind the blue can.\nSince May.")
    page = await service.search("where is the spare key?")
    [hit] = page["hits"]
    assert {key: page[key] for key in ("version", "agentId", "providerId", "coverage")} == {
        "version": 2, "agentId": "main", "providerId": "powercontext", "coverage": "complete",
    }  # fmt: skip
    assert hit["excerpt"] == "The spare key hangs behind the blue can.\nSince May."
    assert hit["citations"][0]["label"] == f"powercontext:atomic-memory/{artifact_id}@1"
    read = await service.call("memory.get", {"reference": hit["reference"], "lines": 1})
    assert (read["status"], read["text"]) == ("ok", "The spare key hangs behind the blue can.")
    assert (read["truncated"], read["nextFrom"]) == (True, 2)
    await written.revise(MAIN, artifact_id, "The spare key hangs behind the red can.")
    [revised] = (await service.search("where is the spare key?"))["hits"]
    assert revised["excerpt"] == "The spare key hangs behind the red can."
    old = await service.call("memory.get", {"reference": hit["reference"]})
    assert old["text"] == "The spare key hangs behind the blue can.\nSince May."
    stranger = {"reference": hit["reference"], "agentId": "other"}
    assert (await service.call("memory.get", stranger))["status"] == "not_found"
    assert await service.excerpts("spare key", agentId="other") == []
    await written.forget(MAIN, artifact_id, revision=2)
    assert await service.excerpts("spare key") == []
    for reference in (hit["reference"], revised["reference"]):
        gone = await service.call("memory.get", {"reference": reference})
        assert gone == {
            "version": 2, "agentId": "main", "providerId": "powercontext", "status": "not_found",
        }  # fmt: skip


async def test_v1_answers_with_the_native_owner_error_and_no_file_is_made_up(service: Any) -> None:
    status, error = await service.error("memory.search", {"query": "x"})
    assert (status, error["code"], error["message"]) == (
        400,
        "INVALID_REQUEST",
        'memory plugin "powercontext" uses the provider runtime; retry memory.search with version: 2',
    )


async def test_undeclared_capabilities_are_refused_and_status_says_how_the_store_is(service: Any) -> None:
    for params, word in (({"sources": ["sessions"]}, "sessions source"), ({"cursor": "c"}, "pagination")):
        status, error = await service.error("memory.search", {"version": 2, "query": "x", **params})
        assert (status, error["details"]["code"]) == (503, "CAPABILITY_UNSUPPORTED")
        assert f"does not support the {word} capability" in error["message"]
    report = await service.call("memory.status", {})
    assert (report["status"], report["details"]) == (
        "ready",
        {"server": {"version": "1.4.1", "contract": "1.4"}, "searchMode": "fts-only"},
    )


async def test_a_wrong_token_is_unavailable_and_told_nowhere(launcher: Any, real_server: Any) -> None:
    service = serve(launcher, real_server, token="wrong-secret-of-the-store")
    status, error = await service.error("memory.search", {"version": 2, "query": "x"})
    assert (status, error["details"]["code"]) == (503, "PROVIDER_FAILED")
    assert error["message"] == "powercontext: the server refused the token"
    report = await service.call("memory.status", {})
    assert (report["status"], report["message"]) == ("unavailable", error["message"])
    assert service.stop() == 0
    assert "wrong-secret" not in launcher.log()


async def test_a_server_that_is_stopped_is_unavailable_and_after_its_start_all_is_there_again(
    disturbed: Any, own_server: Any, eventually: Any
) -> None:
    await found_again(disturbed, eventually)
    own_server.stop()
    what, took = await answer(disturbed)
    assert what == "PROVIDER_FAILED"
    assert took < SEARCH_SECONDS + SLACK
    assert (await disturbed.call("memory.status", {"agentId": "hasty"}))["status"] == "unavailable"
    own_server.start()
    await found_again(disturbed, eventually)


async def test_a_server_killed_in_mid_call_fails_those_calls_and_loses_nothing(
    disturbed: Any, own_server: Any, eventually: Any
) -> None:
    await found_again(disturbed, eventually)
    answers: list[str] = []

    async def ask_on() -> None:
        while "PROVIDER_FAILED" not in answers:
            # With time enough, so that what fails fails by the kill and not by a slow machine.
            answers.append((await answer(disturbed, "main"))[0])

    asking = [asyncio.create_task(ask_on()) for _ in range(8)]

    async def some_answered() -> bool:
        return len(answers) > 8

    await eventually(some_answered, within=240)
    own_server.stop(signal.SIGKILL)
    await asyncio.wait_for(asyncio.gather(*asking), 240)
    assert set(answers) <= {"found", "PROVIDER_FAILED", "OVERLOADED"}
    own_server.start()
    await found_again(disturbed, eventually)


async def test_a_server_that_hangs_is_unavailable_by_the_deadline_and_heals_when_it_goes_on(
    disturbed: Any, own_server: Any, eventually: Any
) -> None:
    await found_again(disturbed, eventually)
    own_server.pause()
    try:
        what, took = await answer(disturbed)
        assert what == "PROVIDER_FAILED"
        assert SEARCH_SECONDS <= took < SEARCH_SECONDS + SLACK
        assert (await disturbed.call("memory.status", {"agentId": "hasty"}))["status"] == "unavailable"
    finally:
        own_server.go_on()
    await found_again(disturbed, eventually)


async def test_an_overloaded_server_never_makes_an_answer_empty(
    disturbed: Any, own_server: Any, eventually: Any
) -> None:
    from agent_memory import AgentMemory

    await found_again(disturbed, eventually)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        memory = AgentMemory(own_server.url, own_server.token, session)
        scope = await memory.scope(HASTY)

        async def flood() -> int:
            body = {"scope_id": scope, "query": "boiler", "limit": 50}
            async with session.post(
                own_server.url + "/v1/memory/search",
                json=body,
                headers={"Authorization": f"Bearer {own_server.token}"},
            ) as response:
                await response.read()
                return response.status

        flooding = [asyncio.create_task(flood()) for _ in range(120)]
        answers = await asyncio.gather(*(answer(disturbed) for _ in range(60)))
        statuses = await asyncio.gather(*flooding)
    assert 503 in statuses  # it did shed load
    assert {what for what, _ in answers} <= {"found", "PROVIDER_FAILED", "OVERLOADED"}
    await found_again(disturbed, eventually)

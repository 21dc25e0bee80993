"""The running service: what it counts and shows, and that a stop under load loses nothing accepted."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from door_sockets import HEALTH, Socket, post
from openapi_spec_validator import OpenAPIV31SpecValidator
from prometheus_client.parser import text_string_to_metric_families

SECRETS = {f"{name}_TOKEN": f"{name}-0123456789abcdef" for name in ("ONE", "BOTH", "ADMIN")}
SEARCH = "/rpc/memory.search"
QUESTION = json.dumps({"version": 2, "query": "boiler"}).encode()


async def fetch(service: Any, route: str, token: str | None = None) -> tuple[int, str, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(service.url + route, headers=service.headers(token)) as response,
    ):
        return response.status, response.content_type, await response.read()


async def figures(service: Any) -> dict[tuple[str, ...], float]:
    """The samples of `/metrics` by name and label values."""
    status, kind, body = await fetch(service, "/metrics")
    assert (status, kind) == (200, "text/plain")
    return {
        (sample.name.removeprefix("memory_sidecar_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


@pytest.fixture(scope="module")
def served(shared_launcher: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two agents and three tokens: of one agent, of both, and an administrator's of one."""
    folder = tmp_path_factory.mktemp("agents")
    config = ""
    for agent in ("main", "other"):
        (folder / agent / "memory").mkdir(parents=True)
        (folder / agent / "MEMORY.md").write_text("- The boiler was serviced in March.\n")
        (folder / agent / "memory" / "a.md").write_text("Nothing about heating.\n")
        config += f'[agents.{agent}]\nworkspace = "{folder}/{agent}"\n'
    config = config.replace("[agents.other]", "default = true\n[agents.other]")
    for name, scope, agents in (
        ("ONE", "operator.read", '["main"]'),
        ("BOTH", "operator.read", '["main", "other"]'),
        ("ADMIN", "operator.admin", '["main"]'),
    ):
        config += f'[[tokens]]\nname = "{name.lower()}"\nrole = "operator"\nsecret_env = "{name}_TOKEN"\n'
        config += f'scopes = ["{scope}"]\nagents = {agents}\n'
    path = folder / "roster.toml"
    path.write_text(config)
    service = shared_launcher.serve(None, "--config", str(path), environment=SECRETS)
    service.operator_token = SECRETS["BOTH_TOKEN"]
    yield service
    assert service.stop() == 0


async def test_each_refusal_at_the_door_is_one_line_in_the_log_and_one_count(
    served: Any, shared_launcher: Any
) -> None:
    before = await figures(served)
    provoked: list[tuple[str, bytes]] = [
        ("host", b"GET /readyz HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        ("origin", b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n"),
        ("token-missing", b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("token-mismatch", post("no-such-token", SEARCH, QUESTION)),
        ("path", post(served.operator_token, "/nowhere", QUESTION)),
        ("method", post(served.operator_token, "/rpc", QUESTION).replace(b"POST", b"PUT")),
        ("type", post(served.operator_token, SEARCH, QUESTION).replace(b"/json", b"/xml")),
        ("size", post(served.operator_token, SEARCH, b"", length=2_000_000)),
        ("malformed", b"what?\r\n\r\n"),
    ]
    for _, request in provoked:
        caller = await Socket.open(served.port)
        caller.send(request)
        assert (await caller.answer())[0] >= 400
        caller.close()
    seen = await figures(served)
    lines = [json.loads(line) for line in shared_launcher.log().splitlines()]
    for reason, _ in provoked:
        assert seen["refusals_total", reason] == before.get(("refusals_total", reason), 0) + 1, reason
        assert len([line for line in lines if line.get("reason") == reason]) == 1, reason
    assert "no-such-token" not in shared_launcher.log()


async def test_metrics_show_calls_by_outcome_their_times_and_how_the_index_stands(
    served: Any, eventually: Any
) -> None:
    await served.ready()
    before = await figures(served)
    await served.search("boiler")
    await served.error("memory.search", {})
    await served.error("memory.nonsense-of-the-caller", {})
    await served.error("memory.get", {"reference": {"providerId": "other", "id": "x"}})
    seen = await figures(served)
    assert (
        seen["calls_total", "memory.search", "ok"]
        == before.get(("calls_total", "memory.search", "ok"), 0) + 1
    )
    assert (
        seen["calls_total", "memory.search", "INVALID_REQUEST"]
        == before.get(("calls_total", "memory.search", "INVALID_REQUEST"), 0) + 1
    )
    assert (
        seen["calls_total", "unknown", "INVALID_REQUEST"]
        == before.get(("calls_total", "unknown", "INVALID_REQUEST"), 0) + 1
    )
    assert (
        seen["calls_total", "memory.get", "FOREIGN_REFERENCE"]
        == before.get(("calls_total", "memory.get", "FOREIGN_REFERENCE"), 0) + 1
    )
    assert (
        seen["call_seconds_count", "memory.search"]
        == before.get(("call_seconds_count", "memory.search"), 0) + 2
    )
    assert 0 < seen["call_seconds_sum", "memory.search"] < 20
    assert seen["files", "main", "on_disk"] == seen["files", "main", "indexed"] == 2
    assert seen["watch_polling", "main"] in (0, 1)
    assert seen["calls_in_work",] == 0
    assert seen["access_allowed_total",] >= before["access_allowed_total",] + 1
    assert (await fetch(served, "/metrics", "x" * 40))[0] == 401
    denied = ("access_denied_total", "token-mismatch")
    assert (await figures(served))[denied] == seen.get(denied, 0) + 1
    assert seen["loop_stall_longest_seconds",] >= 0
    assert seen["loop_stalls_total",] >= 0

    async def nothing_pends() -> bool:
        # Young files are read once more when they have settled, and pend while that is done.
        return (await figures(served))["files", "main", "pending"] == 0

    await eventually(nothing_pends)
    assert seen["process_resident_memory_bytes",] > 1_000_000


@pytest.mark.parametrize(("name", "expected"), [("ONE", 403), ("BOTH", 200), ("ADMIN", 200)])
async def test_metrics_need_a_token_for_every_agent_or_an_administrators(
    served: Any, name: str, expected: int
) -> None:
    assert (await fetch(served, "/metrics", SECRETS[f"{name}_TOKEN"]))[0] == expected


async def test_the_openapi_document_is_served_valid_and_names_what_is_served(served: Any) -> None:
    status, kind, body = await fetch(served, "/openapi.json")
    assert (status, kind) == (200, "application/json")
    made = json.loads(body)
    OpenAPIV31SpecValidator(made).validate()
    for path, item in made["paths"].items():
        if "get" in item and "200" in item["get"]["responses"]:
            assert (await fetch(served, path))[0] == 200, path
    methods = [path.removeprefix("/rpc/") for path in made["paths"] if path.startswith("/rpc/")]
    for method in methods:
        _, frame = await served.post(f"/rpc/{method}", {"agentId": "nobody"})
        assert "unknown method" not in json.dumps(frame), method


@pytest.mark.slow
async def test_a_thousand_idle_connections_do_not_stop_health_or_a_search(example: Any) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    crowd = []
    try:
        for _ in range(1000):
            crowd.append(await Socket.open(example.port))
        for _ in range(20):
            began = time.monotonic()
            caller = await Socket.open(example.port)
            caller.send(HEALTH)
            assert (await caller.answer())[0] == 200
            assert time.monotonic() - began < 0.5
            caller.close()
        assert (await example.search("boiler"))["hits"]
    finally:
        for connection in crowd:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
async def test_a_stop_under_load_answers_every_request_that_was_accepted(example: Any) -> None:
    answered, accepted, lost = 0, 0, []

    async def ask_on_and_on() -> None:
        nonlocal answered, accepted
        while True:
            try:
                caller = await Socket.open(example.port)
            except OSError:
                return
            request = post(example.operator_token, SEARCH, b"", "Expect: 100-continue", length=len(QUESTION))
            try:
                caller.send(request)
                # Its word to go on is the proof that the request was accepted.
                if (await caller.answer())[0] != 100:
                    return
            except (ConnectionError, asyncio.IncompleteReadError):
                return
            accepted += 1
            try:
                caller.send(QUESTION)
                status, _, frame = await caller.answer()
                assert (status, frame["ok"]) == (200, True)
                answered += 1
            except (ConnectionError, asyncio.IncompleteReadError, AssertionError) as error:
                lost.append(repr(error))
            finally:
                caller.close()

    callers = [asyncio.create_task(ask_on_and_on()) for _ in range(30)]
    while answered < 100:
        await asyncio.wait(callers, timeout=0.02)
    began = time.monotonic()
    assert await asyncio.to_thread(example.stop) == 0
    assert time.monotonic() - began < 8
    await asyncio.gather(*callers)
    assert lost == []
    assert accepted == answered

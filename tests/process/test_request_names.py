"""What fails is led to its line of the log, and what is slow or waits is measured (spec §3, §4)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

ENDPOINT_DOWN = {
    "MEMORY_SIDECAR_EMBEDDINGS_PROVIDER": "openai-compatible",
    "MEMORY_SIDECAR_EMBEDDINGS_BASE_URL": "http://127.0.0.1:9/v1",
    "MEMORY_SIDECAR_EMBEDDINGS_MODEL": "none",
    "MEMORY_SIDECAR_EMBEDDINGS_ON_FAILURE": "error",
}
QUERY = {"version": 2, "query": "saffron lantern"}


@pytest.fixture(scope="module")
def started(shared_launcher: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    workspace: Path = tmp_path_factory.mktemp("workspace")
    (workspace / "MEMORY.md").write_text("- The saffron lantern hangs in the barn.\n")
    service = shared_launcher.serve(workspace, environment=ENDPOINT_DOWN)
    service.notes = workspace
    return service


@pytest.fixture
async def service(started: Any) -> Any:
    await started.ready()
    return started


def lines_of(launcher: Any, name: str) -> list[Any]:
    lines = [json.loads(line) for line in launcher.log().splitlines()]
    return [line for line in lines if line.get("request_id") == name]


async def test_a_failed_call_and_its_lines_of_the_log_carry_one_name(
    service: Any, shared_launcher: Any
) -> None:
    async with (
        aiohttp.ClientSession(headers=service.headers()) as session,
        session.post(f"{service.url}/rpc/memory.search", json=QUERY) as response,
    ):
        name, error = response.headers["X-Request-Id"], (await response.json())["error"]
    assert (error["details"]["code"], error["details"]["requestId"]) == ("PROVIDER_FAILED", name)
    said = [line["message"] for line in lines_of(shared_launcher, name)]
    assert said.count("call failed") == 1
    assert "saffron" not in shared_launcher.log()


async def test_every_call_of_a_socket_has_a_name_of_its_own(service: Any, shared_launcher: Any) -> None:
    names = set()
    async with (
        aiohttp.ClientSession(headers=service.headers()) as session,
        session.ws_connect(f"{service.url}/ws") as socket,
    ):
        for number in range(2):
            frame = {"type": "req", "id": str(number), "method": "memory.search", "params": QUERY}
            await socket.send_json(frame)
            names.add((await socket.receive_json())["error"]["details"]["requestId"])
    assert len(names) == 2
    assert all(lines_of(shared_launcher, name) for name in names)


async def test_what_is_allowed_or_refused_is_named_in_the_header_alone(
    service: Any, shared_launcher: Any
) -> None:
    async with aiohttp.ClientSession(headers=service.headers()) as session:
        async with session.post(f"{service.url}/rpc/memory.status", json={}) as response:
            assert response.status == 200
            name = response.headers["X-Request-Id"]
        async with session.post(f"{service.url}/rpc/memory.search", json={}) as response:
            assert response.status == 400
            assert "details" not in (await response.json())["error"]
            assert response.headers["X-Request-Id"] != name
    assert [line["message"] for line in lines_of(shared_launcher, name)] == ["access decided"]


async def test_the_command_line_prints_the_name(service: Any, shared_launcher: Any) -> None:
    done = shared_launcher.run(
        "search", "lantern", "--state-dir", str(service.state), "--workspace", str(service.notes),
    )  # fmt: skip
    assert done.returncode == 2
    named = re.search(r"\(request_id ([0-9a-f]{12}) in the log of the service\)", done.stderr)
    assert named is not None, done.stderr
    assert lines_of(shared_launcher, named[1])


async def test_the_parts_of_a_search_and_what_waits_are_measured(service: Any) -> None:
    async with aiohttp.ClientSession(headers=service.headers()) as session:
        asked = {"agentId": "main", "query": "lantern", "lexicalOnly": True}
        await session.post(
            f"{service.url}/rpc/manager.search", json=asked, headers=service.headers(service.host_token)
        )
        async with session.get(f"{service.url}/metrics") as response:
            page = await response.text()
    shown = dict(re.findall(r"^(memory_sidecar_\S+) (\S+)$", page, re.MULTILINE))
    assert float(shown["memory_sidecar_embedding_failures_total"]) >= 1
    assert float(shown['memory_sidecar_passages_waiting{agent="main"}']) == 1
    assert float(shown['memory_sidecar_index_lag_seconds{agent="main"}']) == 0
    assert float(shown['memory_sidecar_leg_seconds_count{agent="main",leg="embedding"}']) >= 1
    assert float(shown['memory_sidecar_leg_seconds_count{agent="main",leg="words"}']) >= 1

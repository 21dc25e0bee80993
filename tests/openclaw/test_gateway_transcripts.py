"""Transcripts through the published gateway: shown to whom they are authorised for, else withheld."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from between import Between
from gateway_host import Gateway

pytestmark = pytest.mark.slow

OWN, OTHERS = "the zeppelin waits at hangar nine", "the zeppelin burned in another talk"
NOTE = "The zeppelin museum opens at ten."


class Stage(NamedTuple):
    gateway: Gateway
    between: Between
    transcripts: Path


@pytest.fixture(scope="module")
def stage(shared_launcher: Any, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A gateway, a sidecar that reads its transcripts, and what can break single methods between them."""
    workspace, directory = tmp_path_factory.mktemp("notes"), tmp_path_factory.mktemp("gateway")
    (workspace / "MEMORY.md").write_text(f"# Memory\n\n- {NOTE}\n")
    transcripts = directory / "transcripts"
    transcripts.mkdir()
    configuration = shared_launcher.directory / "sidecar.toml"
    configuration.write_text(
        f'[agents.main]\nworkspace = "{workspace}"\nsearch_sources = ["memory", "sessions"]\n'
        f'[agents.main.sessions]\nenabled = true\ndirectory = "{transcripts}"\n'
    )
    sidecar = shared_launcher.serve(None, "--config", str(configuration))
    between = Between(directory / "between.sock", sidecar.state / "sidecar.sock")
    gateway = Gateway(
        directory,
        packages,
        workspace=workspace,
        plugin={"socketPath": str(between.path), "tokenFile": str(sidecar.state / "host.token")},
    )
    between.start()
    gateway.start()
    try:
        asyncio.run(gateway.ready())
        asyncio.run(talk(gateway, sidecar, transcripts))
        yield Stage(gateway, between, transcripts)
    finally:
        gateway.stop()
        between.stop()


async def talk(gateway: Gateway, sidecar: Any, transcripts: Path) -> None:
    """Two sessions of the gateway with a transcript each, both found by the sidecar."""
    async with gateway.connected(("operator.read", "operator.write")) as connection:
        for name, text in (("main", OWN), ("other", OTHERS)):
            made = await connection.call("sessions.create", key=f"agent:main:{name}", agentId="main")
            records = [
                {"type": "session", "version": 4, "id": made["sessionId"]},
                {"type": "message", "id": "m", "message": {"role": "user", "content": text}},
            ]
            path = transcripts / f"{made['sessionId']}.jsonl"
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
    await sidecar.ready()
    deadline = asyncio.get_running_loop().time() + 60
    while len(await sidecar.excerpts("zeppelin", sources=["sessions"])) < 2:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)


@pytest.fixture
def broken(stage: Stage) -> Iterator[Stage]:
    """The same while nobody answers who may see a transcript."""
    stage.between.broken = frozenset({"manager.authorize"})
    yield stage
    stage.between.broken = frozenset()


def told(hits: list[Any]) -> set[str]:
    return {hit["snippet"].removeprefix("User: ").removeprefix("- ") for hit in hits}


async def test_an_operator_finds_notes_and_transcripts_by_the_gateways_search(stage: Stage) -> None:
    async with stage.gateway.connected() as gateway:
        found = await gateway.call("memory.search", query="zeppelin", maxResults=10)
    assert told(found["results"]) == {NOTE, OWN, OTHERS}
    assert "manager.authorize" in stage.between.asked
    assert "stale" not in found


async def test_a_session_is_shown_its_own_transcript_and_no_others(stage: Stage) -> None:
    for session, text in (("main", OWN), ("agent:main:main", OWN), ("agent:main:other", OTHERS)):
        found = await stage.gateway.tool("memory_search", session, query="zeppelin", corpus="sessions")
        assert told(found["results"]) == {text}
        assert found["results"][0]["citation"].startswith("sessions/main/")
    stranger = await stage.gateway.tool(
        "memory_search", "agent:main:unknown", query="zeppelin", corpus="sessions"
    )
    assert (stranger["results"], stranger.get("status")) == ([], None)


async def test_transcripts_are_withheld_when_nobody_can_say_who_may_see_them_and_that_is_said(
    broken: Stage,
) -> None:
    async with broken.gateway.connected() as gateway:
        found = await gateway.call("memory.search", query="zeppelin", maxResults=10)
    assert told(found["results"]) == {NOTE}
    withheld = "Transcripts were withheld: memory sidecar unavailable: it does not answer"
    assert found["stale"] is True
    assert withheld in found["warning"]
    both = await broken.gateway.tool("memory_search", query="zeppelin", corpus="all")
    assert told(both["results"]) == {NOTE}
    assert withheld in both["warning"]
    alone = await broken.gateway.tool("memory_search", query="zeppelin", corpus="sessions")
    assert (alone["status"], alone["results"]) == ("error", [])
    for answer in (found, both, alone):
        assert OWN not in str(answer)
        assert str(broken.between.path.parent) not in str(answer)


async def test_after_that_they_are_shown_again(stage: Stage) -> None:
    found = await stage.gateway.tool("memory_search", query="zeppelin", corpus="sessions")
    assert told(found["results"]) == {OWN}


async def test_a_transcript_is_not_read_by_its_path(stage: Stage) -> None:
    found = await stage.gateway.tool("memory_search", query="zeppelin", corpus="sessions")
    read = await stage.gateway.tool("memory_get", path=found["results"][0]["path"])
    assert (read["status"], read["text"]) == ("error", "")

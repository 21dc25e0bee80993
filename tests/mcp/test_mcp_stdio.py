"""What a coding agent gets over stdio, from the running service or from the index itself (spec §2)."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow


def ids(result: Any) -> list[str]:
    return [hit["id"].partition("#")[0] for hit in result.structured_content["results"]]


async def test_a_client_searches_and_reads_by_the_running_service(served: Any) -> None:
    async with served.stdio() as client:
        found = await client.call_tool("memory_search", {"query": "who serviced the boiler?"})
        best = found.structured_content["results"][0]
        assert best["citation"] == "memory/2026-03-04.md:1-3"
        read = await client.call_tool("memory_get", {"id": best["id"], "revision": best["revision"]})
        assert read.structured_content["text"] == best["text"]
        note = await client.read_resource("memory-sidecar://notes/MEMORY.md")
        assert "blue tin" in note.contents[0].text


@pytest.mark.slow
async def test_without_a_service_what_is_saved_meanwhile_is_found(
    desk: Any, write: Any, eventually: Any
) -> None:
    async with desk.stdio() as client:

        async def found() -> bool:
            result = await client.call_tool("memory_search", {"query": "quince"})
            return ids(result) == ["memory/new.md"]

        assert not await found()
        write(desk.workspace, {"memory/new.md": "- Quince jelly needs no pectin.\n"})
        await eventually(found)


@pytest.mark.slow
async def test_a_service_that_comes_back_is_asked_again(desk: Any) -> None:
    service = desk.launcher.serve(desk.workspace, state=desk.state)
    await service.ready()
    async with desk.stdio() as client:
        assert ids(await client.call_tool("memory_search", {"query": "saffron"})) == ["memory/hostile.md"]
        assert service.stop() == 0
        # With no service the index itself is opened, which is then this process's until it ends.
        assert ids(await client.call_tool("memory_search", {"query": "saffron"})) == ["memory/hostile.md"]


@pytest.mark.slow
def test_nothing_but_the_protocol_is_on_stdout_and_no_query_in_the_log(served: Any) -> None:
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"},
    }
    search = {"name": "memory_search", "arguments": {"query": "marmalade"}}
    requests: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"id": 2, "method": "tools/call", "params": search},
        {"id": 3, "method": "tools/call", "params": {**search, "arguments": {"query": ["marmalade"]}}},
        {"id": 4, "method": "tools/call", "params": {"name": ["marmalade"]}},
        {"id": 5, "method": "marmalade/get", "params": {}},
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "sidecar", "mcp", *served.arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"HOME": str(served.launcher.home)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("marmalade\n" + "marmalade " * 200_000 + "\n")
    answers: list[dict[str, Any]] = []
    for request in requests:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **request}) + "\n")
        process.stdin.flush()
        while not answers or answers[-1].get("id") != request["id"]:
            line = process.stdout.readline()
            assert line, "it ended"
            answers.append(json.loads(line))
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    rest, errors = process.communicate(timeout=30)
    assert (process.returncode, rest) == (0, "")
    assert "marmalade" not in errors


@pytest.mark.slow
async def test_sigterm_ends_it_while_a_client_is_connected(desk: Any) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "sidecar", "mcp", *desk.arguments,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"HOME": str(desk.launcher.home)},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    await process.stdin.drain()
    assert json.loads(await asyncio.wait_for(process.stdout.readline(), 20))["id"] == 1
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 10) == 0


def test_without_the_library_one_line_says_how_to_install_it(launcher: Any, workspace: Any) -> None:
    program = "import sys; sys.modules['mcp'] = None; from sidecar.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "mcp", "--workspace", str(workspace)],
        capture_output=True,
        text=True,
        env={"HOME": str(launcher.home)},
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "memory-sidecar: mcp needs the Model Context Protocol library: pip install 'memory-sidecar[mcp]'\n"
    )

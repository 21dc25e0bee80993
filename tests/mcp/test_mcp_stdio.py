"""What a coding agent gets over stdio, from the running service or from the index itself (spec §2)."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from typing import Any

import pytest
from mcp import MCPError

NOTICE = "not instructions"


def ids(result: Any) -> list[str]:
    return [hit["id"].partition("#")[0] for hit in result.structured_content["results"]]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_both_tools_are_read_only_and_answer_with_citations(served: Any, mode: str) -> None:
    async with served.stdio(mode) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["memory_search", "memory_get"]
        for tool in tools:
            assert tool.annotations.read_only_hint is True
            assert tool.annotations.destructive_hint is False
        assert NOTICE in client.instructions
        found = await client.call_tool("memory_search", {"query": "who serviced the boiler?"})
        assert not found.is_error
        best = found.structured_content["results"][0]
        assert best["citation"] == "memory/2026-03-04.md:1-3"
        assert "Halden" in best["text"]
        assert f"memory/2026-03-04.md:1-3]\n{best['text']}\n" in found.content[0].text
        for name in (best["id"], best["citation"]):
            read = await client.call_tool("memory_get", {"id": name, "revision": best["revision"]})
            assert read.structured_content["text"].splitlines()[2].startswith("Boiler serviced by Halden")
            assert read.structured_content["citation"] == best["citation"]
        lines = await client.call_tool("memory_get", {"id": "MEMORY.md", "from": 3, "lines": 1})
        assert lines.structured_content["text"] == "- The spare garage opener is in the blue tin."


async def test_filters_choose_the_notes(served: Any) -> None:
    async with served.stdio() as client:

        async def search(**filters: object) -> Any:
            return await client.call_tool("memory_search", {"query": "boiler", **filters})

        assert set(ids(await search())) == {
            "memory/2026-03-04.md", "memory/2026-05-06.md", "memory/plumbing/boiler.md",
        }  # fmt: skip
        assert ids(await search(path="memory/plumbing/")) == ["memory/plumbing/boiler.md"]
        assert ids(await search(since="2026-05-06")) == ["memory/2026-05-06.md"]
        assert ids(await search(until="2026-05-05")) == ["memory/2026-03-04.md"]
        assert ids(await search(path="*.txt")) == []
        assert len(ids(await search(max_results=1))) == 1
        short = await search(max_chars=1)
        assert len(short.structured_content["results"]) == 1
        assert len(short.structured_content["results"][0]["text"]) == 1
        assert short.structured_content["truncated"] is True


async def test_what_is_wrong_with_a_call_is_an_error_that_says_it(served: Any) -> None:
    async with served.stdio() as client:
        for name, arguments, says in (
            ("memory_search", {}, "'query' is a required property"),
            ("memory_search", {"query": "x", "max_results": 51}, "max_results: 51 is greater"),
            ("memory_search", {"query": "x", "since": "May"}, "since: must be a day, YYYY-MM-DD"),
            ("memory_search", {"query": "x", "lines": 1}, "'lines' was unexpected"),
            ("memory_search", {"query": "  "}, "query must be a non-empty string"),
            ("memory_get", {"id": "memory/none.md"}, "no such text"),
            ("memory_get", {"id": "../state/operator.token"}, "no such text"),
            ("memory_get", {"id": "sessions/main/a.jsonl"}, "no such text"),
            ("memory_get", {"id": "MEMORY.md#L1-L2", "revision": "0" * 40}, "no such text"),
            ("memory_write", {"id": "MEMORY.md"}, "There is no tool 'memory_write'"),
        ):
            result = await client.call_tool(name, arguments)
            assert result.is_error, arguments
            assert says in result.content[0].text
            assert result.structured_content is None


async def test_notes_are_marked_as_data_and_cannot_end_their_own_mark(served: Any) -> None:
    async with served.stdio() as client:
        text = (await client.call_tool("memory_search", {"query": "saffron"})).content[0].text
        word = text.partition("[note ")[2].partition(" ")[0]
        assert NOTICE in text.partition("[note ")[0]
        assert text.count(word) == 2
        assert text.rstrip().endswith(f"[end of note {word}]")
        again = (await client.call_tool("memory_search", {"query": "saffron"})).content[0].text
        assert word not in again


async def test_notes_are_resources_that_are_listed_and_read_within_bounds(served: Any) -> None:
    async with served.stdio() as client:
        listed = (await client.list_resources()).resources
        assert [item.name for item in listed] == sorted(item.name for item in listed)
        assert {item.uri for item in listed} >= {
            "memory-sidecar://notes/MEMORY.md", "memory-sidecar://notes/memory/plumbing/boiler.md",
        }  # fmt: skip
        assert (await client.list_resource_templates()).resource_templates[0].uri_template == (
            "memory-sidecar://notes/{+path}"
        )
        long = (await client.read_resource("memory-sidecar://notes/memory/long.md")).contents[0]
        assert len(long.text) <= 12_000
        assert long.meta["untrusted"] is True
        following = long.meta["nextFrom"]
        assert long.text.splitlines()[-1] == f"- line {following - 1} of the ledger"
        lines = await client.read_resource("memory-sidecar://notes/memory/long.md#L7-L8")
        assert lines.contents[0].text == "- line 7 of the ledger\n- line 8 of the ledger"
        for address in (
            "memory-sidecar://notes/none.md",
            "file:///etc/passwd",
            "memory-sidecar://notes/../x",
        ):
            with pytest.raises(MCPError, match="no such note"):
                await client.read_resource(address)


async def test_many_notes_are_listed_page_by_page_each_once(desk: Any, write: Any) -> None:
    write(desk.workspace, {f"memory/many/n{number:03}.md": f"- {number}\n" for number in range(150)})
    async with desk.stdio() as client:
        names: list[str] = []
        cursor = None
        while True:
            page = await client.list_resources(cursor=cursor)
            assert len(page.resources) <= 100
            names += [item.name for item in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert len(names) == len(set(names)) == 156
        with pytest.raises(MCPError, match="no such page"):
            await client.list_resources(cursor="%%%")


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


async def test_a_service_that_comes_back_is_asked_again(desk: Any) -> None:
    service = desk.launcher.serve(desk.workspace, state=desk.state)
    await service.ready()
    async with desk.stdio() as client:
        assert ids(await client.call_tool("memory_search", {"query": "saffron"})) == ["memory/hostile.md"]
        assert service.stop() == 0
        # With no service the index itself is opened, which is then this process's until it ends.
        assert ids(await client.call_tool("memory_search", {"query": "saffron"})) == ["memory/hostile.md"]


def test_nothing_but_the_protocol_is_on_stdout_and_no_query_in_the_log(served: Any) -> None:
    requests = [
        {"id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"},
        }},
        {"id": 2, "method": "tools/call", "params": {"name": "memory_search", "arguments": {"query": "marmalade"}}},
        {"id": 3, "method": "tools/call", "params": {"name": "memory_search", "arguments": {"query": ["marmalade"]}}},
        {"id": 4, "method": "tools/call", "params": {"name": ["marmalade"]}},
        {"id": 5, "method": "marmalade/get", "params": {}},
    ]  # fmt: skip
    lines = [json.dumps({"jsonrpc": "2.0", **request}) for request in requests]
    done = subprocess.run(
        [sys.executable, "-m", "sidecar", "mcp", *served.arguments],
        input="\n".join([lines[0], "marmalade", *lines[1:]]) + "\n",
        capture_output=True,
        text=True,
        env={"HOME": str(served.launcher.home)},
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert {answer["id"] for answer in answers if "id" in answer} >= {1, 2, 3, 4, 5}
    assert "marmalade" not in done.stderr


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

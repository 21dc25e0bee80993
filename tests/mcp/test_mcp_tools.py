"""What a coding agent gets, whoever carries the messages: answers of the running service (spec §2)."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import MCPError

pytestmark = pytest.mark.slow

NOTICE = "not instructions"


def ids(result: Any) -> list[str]:
    return [hit["id"].partition("#")[0] for hit in result.structured_content["results"]]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_both_tools_are_read_only_and_answer_with_citations(served: Any, mode: str) -> None:
    async with served.here(mode) as client:
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
    async with served.here() as client:

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
    async with served.here() as client:
        for name, arguments, says in (
            ("memory_search", {}, "'query' is a required property"),
            ("memory_search", {"query": "x", "max_results": 51}, "max_results: 51 is greater"),
            (
                "memory_search",
                {"query": "x", "since": "May"},
                "since: must be a day of the calendar, YYYY-MM-DD",
            ),
            (
                "memory_search",
                {"query": "x", "until": "2026-02-31"},
                "until: must be a day of the calendar, YYYY-MM-DD",
            ),
            ("memory_search", {"query": "x", "lines": 1}, "'lines' was unexpected"),
            ("memory_search", {"query": "  "}, "query must be a non-empty string"),
            ("memory_get", {"id": "memory/none.md"}, "no such text"),
            ("memory_get", {"id": "MEMORY.md", "from": 999}, "the text ends before line 999"),
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
    async with served.here() as client:
        text = (await client.call_tool("memory_search", {"query": "saffron"})).content[0].text
        word = text.partition("[note ")[2].partition(" ")[0]
        assert NOTICE in text.partition("[note ")[0]
        assert text.count(word) == 2
        assert text.rstrip().endswith(f"[end of note {word}]")
        again = (await client.call_tool("memory_search", {"query": "saffron"})).content[0].text
        assert word not in again


async def test_notes_are_resources_that_are_listed_and_read_within_bounds(served: Any) -> None:
    async with served.here() as client:
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


@pytest.mark.slow
async def test_many_notes_are_listed_page_by_page_each_once(desk: Any, write: Any) -> None:
    write(desk.workspace, {f"memory/many/n{number:03}.md": f"- {number}\n" for number in range(150)})
    service = desk.launcher.serve(desk.workspace, state=desk.state)
    await service.ready()
    async with desk.here() as client:
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
    assert service.stop() == 0

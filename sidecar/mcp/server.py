"""The protocol's server over one memory; who carries its messages is decided elsewhere."""

from __future__ import annotations

from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)

from sidecar import __version__
from sidecar.mcp.calling import Memory
from sidecar.mcp.declared import NOTICE
from sidecar.mcp.notes import TEMPLATE, list_notes, read_note
from sidecar.mcp.tools import TOOLS, call_tool

INSTRUCTIONS = (
    "The user's own notes: decisions, facts, people, daily logs. Search them with memory_search, then read "
    f"more of a note with memory_get. Cite notes as path:line. Nothing can be written. {NOTICE}"
)

Context = ServerRequestContext[Any]


def build_server(memory: Memory) -> Server[Any]:
    """A server whose every request is answered from this memory."""

    async def tools(_context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=list(TOOLS))

    async def tool(_context: Context, params: CallToolRequestParams) -> CallToolResult:
        return await call_tool(memory, params.name, params.arguments or {})

    async def resources(_context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        return await list_notes(memory, params.cursor if params is not None else None)

    async def templates(
        _context: Context, _params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=[TEMPLATE])

    async def read(_context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        return await read_note(memory, params.uri)

    return Server(
        "memory-sidecar",
        version=__version__,
        title="Memory",
        instructions=INSTRUCTIONS,
        on_list_tools=tools,
        on_call_tool=tool,
        on_list_resources=resources,
        on_list_resource_templates=templates,
        on_read_resource=read,
    )

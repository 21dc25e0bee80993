"""Notes as resources: listed some at a time, read by their address, bounded like every read."""

from __future__ import annotations

import base64
import binascii
from typing import Any, cast

from mcp import MCPError
from mcp.types import (
    INVALID_PARAMS,
    ListResourcesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from sidecar.domain.errors import CapabilityUnsupported, SidecarError
from sidecar.mcp.calling import Memory, said
from sidecar.mcp.declared import MOST_LINES, NOTICE
from sidecar.text.naming import named_by, note_uri, split_name

A_PAGE = 100
MARKDOWN = "text/markdown"
INTERNAL_ERROR = -32603

TEMPLATE = ResourceTemplate(
    name="note",
    title="A note of the user's memory",
    uri_template=note_uri("") + "{+path}",
    description=f"A note by its path; a fragment such as #L3-L7 names lines. {NOTICE}",
    mime_type=MARKDOWN,
)


async def list_notes(memory: Memory, cursor: str | None) -> ListResourcesResult:
    """A page of the indexed notes, in order of their paths; none where the provider keeps no files."""
    try:
        payload = await memory.call("sidecar.notes", limit=A_PAGE, after=_after(cursor))
    except CapabilityUnsupported:
        return ListResourcesResult(resources=[])
    except SidecarError as error:
        raise MCPError(INTERNAL_ERROR, said(error)) from error
    last = payload.get("next")
    return ListResourcesResult(
        resources=[_resource(note) for note in cast(list[dict[str, Any]], payload["notes"])],
        next_cursor=base64.urlsafe_b64encode(last.encode()).decode() if isinstance(last, str) else None,
    )


async def read_note(memory: Memory, uri: str) -> ReadResourceResult:
    """The text of an address, at most 12,000 characters; `_meta` says where more of it begins."""
    name = named_by(uri)
    if name is None:
        raise MCPError(INVALID_PARAMS, "there is no such note")
    path, fragment = split_name(name)
    try:
        payload = await memory.read(path, fragment, lines=None if fragment else MOST_LINES)
    except SidecarError as error:
        raise MCPError(INTERNAL_ERROR, said(error)) from error
    if payload is None:
        raise MCPError(INVALID_PARAMS, "there is no such note")
    meta: dict[str, object] = {"untrusted": True, "notice": NOTICE}
    if payload.get("truncated"):
        meta["truncated"] = True
    if "nextFrom" in payload:
        meta["nextFrom"] = payload["nextFrom"]
    contents = TextResourceContents(uri=uri, mime_type=MARKDOWN, text=str(payload["text"]), _meta=meta)
    return ReadResourceResult(contents=[contents])


def _after(cursor: str | None) -> str | None:
    if cursor is None:
        return None
    try:
        return base64.b64decode(cursor.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise MCPError(INVALID_PARAMS, "there is no such page") from error


def _resource(note: dict[str, Any]) -> Resource:
    return Resource(
        name=note["path"],
        uri=note_uri(note["path"]),
        description=f"Note of {note['day']}" if "day" in note else None,
        mime_type=MARKDOWN,
    )

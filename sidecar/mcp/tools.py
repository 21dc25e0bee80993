"""The two tools: arguments to methods, answers to bounded text with citations, marked as untrusted."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from mcp.types import Annotations, CallToolResult, TextContent, Tool

from sidecar.domain.errors import InvalidRequest, SidecarError
from sidecar.mcp.calling import Memory, said
from sidecar.mcp.declared import GET, NOTICE, SEARCH, USUAL_CHARACTERS, USUAL_RESULTS
from sidecar.text.fragments import parse_fragment
from sidecar.text.naming import note_uri, split_name

Arguments = Mapping[str, Any]
TOOLS: tuple[Tool, ...] = (SEARCH, GET)
NOT_FOUND = "There is no such text: the note or these lines are gone, or were never there."
PAST_THE_END = "There are no such lines: the text ends before line {}."
_ASSISTANT = Annotations(audience=["assistant"])
_VALIDATORS = {tool.name: Draft202012Validator(tool.input_schema) for tool in TOOLS}


async def call_tool(memory: Memory, name: str, arguments: Arguments) -> CallToolResult:
    """The result of a tool; what is wrong with a call is a result too, for the model to read."""
    run = _RUN.get(name)
    if run is None:
        return _failed(f"There is no tool {name[:100]!r}.")
    try:
        _check(name, arguments)
        return await run(memory, arguments)
    except SidecarError as error:
        return _failed(said(error))


def _check(name: str, arguments: Arguments) -> None:
    error = best_match(_VALIDATORS[name].iter_errors(arguments))
    if error is not None:
        place = ".".join(str(step) for step in error.absolute_path)
        wrong = "must be a day of the calendar, YYYY-MM-DD" if error.validator == "pattern" else error.message
        raise InvalidRequest(f"{place}: {wrong}"[:300] if place else wrong[:300])


async def _search(memory: Memory, arguments: Arguments) -> CallToolResult:
    most = arguments.get("max_chars", USUAL_CHARACTERS)
    payload = await memory.call(
        "sidecar.search",
        query=arguments["query"],
        maxResults=arguments.get("max_results", USUAL_RESULTS),
        maxChars=most,
        sources=list(memory.sources),
        **{name: arguments.get(name) for name in ("path", "since", "until")},
    )
    results = [_result(hit, most) for hit in cast(list[dict[str, Any]], payload["hits"])]
    structured: dict[str, object] = {
        "notice": NOTICE,
        "results": results,
        "truncated": payload.get("truncated") is True,
        **{name: payload[name] for name in ("coverage", "warning") if name in payload},
    }
    return _answer(structured, _search_text(results, structured))


def _search_text(results: list[dict[str, object]], structured: Mapping[str, object]) -> str:
    found = "No result." if not results else f"Results: {len(results)}, best first."
    parts = [_marked(results)] if results else []
    if structured["truncated"]:
        parts.append("More was found than max_chars allows.")
    if "warning" in structured:
        parts.append(f"Warning: {structured['warning']}")
    return "\n\n".join([f"{found} {NOTICE}" if results else found, *parts])


async def _get(memory: Memory, arguments: Arguments) -> CallToolResult:
    path, fragment = split_name(arguments["id"])
    payload = await memory.read(
        path,
        fragment,
        arguments.get("revision"),
        lines=arguments.get("lines"),
        **{"from": arguments.get("from")},
    )
    if payload is None:
        return _failed(NOT_FOUND)
    first = payload.get("from")
    if payload.get("lines") == 0 and isinstance(first, int) and first > 1:
        return _failed(PAST_THE_END.format(first))
    read = _named(cast(dict[str, Any], payload["reference"])) | {"text": payload["text"]}
    structured = {"notice": NOTICE, **read, "truncated": payload.get("truncated") is True}
    text = f"{NOTICE}\n\n{_marked([read])}"
    if "nextFrom" in payload:
        structured["next_from"] = payload["nextFrom"]
        text += f"\n\nThe text goes on: read from line {payload['nextFrom']}."
    return _answer(structured, text)


def _result(hit: Mapping[str, Any], most: int) -> dict[str, object]:
    kept = {name: hit[name] for name in ("source", "score") if name in hit}
    return {**_named(hit["reference"]), **kept, "text": str(hit["excerpt"])[:most]}


def _named(reference: Mapping[str, Any]) -> dict[str, object]:
    """How a text is cited (`path:line`, `path:first-last`), read again, and opened as a resource."""
    path, fragment = str(reference["id"]), reference.get("fragment")
    lines = parse_fragment(fragment) if fragment else None
    out: dict[str, object] = {"citation": path, "id": f"{path}#{fragment}" if fragment else path}
    if lines is not None:
        out["citation"] = f"{path}:{lines.start}" + (f"-{lines.end}" if lines.end > lines.start else "")
        out["uri"] = f"{note_uri(path)}#{fragment}"
    if "revision" in reference:
        out["revision"] = reference["revision"]
    return out


def _marked(texts: list[dict[str, object]]) -> str:
    """Texts between marks with a word that no note can know, so that none can end its own."""
    word = secrets.token_hex(4)
    return "\n\n".join(
        f"[note {word} {' '.join(str(item['citation']).split())}]\n{item['text']}\n[end of note {word}]"
        for item in texts
    )


def _answer(structured: Mapping[str, object], text: str) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=text, annotations=_ASSISTANT)], structured_content=dict(structured)
    )


def _failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=message)], is_error=True)


_RUN: dict[str, Callable[[Memory, Arguments], Awaitable[CallToolResult]]] = {
    SEARCH.name: _search,
    GET.name: _get,
}

"""A provider that shares nothing with ours but the contract: records without lines, scores or sources.

It pages, it cites addresses, it names exact text by revision, and it has no files, no candidates and no
project filter. It is installed as an entry point, like anybody's.
"""

from __future__ import annotations

import hashlib

from sidecar.domain.authority import CallerContext
from sidecar.domain.errors import CursorInvalid
from sidecar.domain.memory import (
    Citation,
    Found,
    GetRequest,
    Hit,
    NotFound,
    Page,
    ReadResult,
    Reference,
    SearchRequest,
)
from sidecar.domain.provider import Capabilities, Health, ProviderSetup, Purpose

NAME = "awkward"
RECORDS = {
    "r/1": "The spare garage opener is in the blue tin.",
    "r/2": "Garage doors were painted green.",
    "r/3": "first line of the handbook\nsecond line of the handbook\nthird line of the handbook",
    "r/4": "The garage roof leaks in March.",
}


class Provider:
    provider_id = NAME

    def __init__(self, setup: ProviderSetup) -> None:
        self._agent_id = setup.agent_id

    async def open(self, agent_id: str, context: CallerContext, purpose: Purpose) -> Handle:
        del context, purpose
        assert agent_id == self._agent_id
        return Handle()


class Handle:
    capabilities = Capabilities(sources=("memory",), pagination=True, candidates=(), project_filter=False)

    async def search(self, request: SearchRequest) -> Page:
        wanted = request.query.casefold().split()
        # Nothing here has a score, so nothing can be shown to reach one.
        found = [] if (request.min_score or 0) > 0 else [
            name for name, text in RECORDS.items() if any(word in text.casefold() for word in wanted)
        ]  # fmt: skip
        start = 0 if request.cursor is None else _position(request.cursor, request.query)
        end = start + request.max_results
        return Page(
            hits=tuple(_hit(name) for name in found[start:end]),
            next_cursor=f"{_seal(request.query)}.{end}" if end < len(found) else None,
        )

    async def get(self, request: GetRequest) -> ReadResult:
        asked = request.reference
        text = RECORDS.get(asked.id)
        if text is None or asked.fragment is not None or asked.revision not in (None, _revision(text)):
            return NotFound()
        lines = text.split("\n")
        first = request.from_line or 1
        chosen = lines[first - 1 :][: request.line_count]
        more = bool(chosen) and first + len(chosen) <= len(lines)
        return Found(
            reference=_reference(asked.id),
            text="\n".join(chosen),
            truncated=more,
            from_line=first,
            line_count=len(chosen),
            next_from=first + len(chosen) if more else None,
        )

    async def health(self) -> Health:
        return Health(status="ready", details={"records": len(RECORDS)})

    async def close(self) -> None:
        """Nothing is held."""


def make(setup: ProviderSetup) -> Provider:
    return Provider(setup)


def _revision(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _reference(name: str) -> Reference:
    return Reference(provider_id=NAME, id=name, revision=_revision(RECORDS[name]))


def _hit(name: str) -> Hit:
    return Hit(
        reference=_reference(name),
        excerpt=RECORDS[name].split("\n")[0],
        citations=(Citation(label=name, url=f"https://records.example/{name}"),),
    )


def _seal(query: str) -> str:
    return hashlib.sha256(f"sealed {query}".encode()).hexdigest()[:16]


def _position(cursor: str, query: str) -> int:
    seal, _, position = cursor.partition(".")
    if seal != _seal(query) or not position.isdigit():
        raise CursorInvalid("this cursor is not one of ours for this query")
    return int(position)

"""What the protocol side needs of the memory: one agent of it, and somebody who answers methods."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from posixpath import normpath
from typing import Protocol

import msgspec

from sidecar.domain.errors import SidecarError
from sidecar.domain.memory import Source

log = logging.getLogger(__name__)


class Caller(Protocol):
    """Answers a method with its payload or raises from the error tree."""

    async def call(self, method: str, params: Mapping[str, object]) -> dict[str, object]:
        """The payload of `method`."""
        ...


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """One agent's memory. `sources` are those that the agent's configuration lets a search cover."""

    caller: Caller
    agent_id: str
    provider_id: str
    sources: tuple[Source, ...]

    async def call(self, method: str, **params: object) -> dict[str, object]:
        """The payload of a method about this agent; a parameter that is None is left out."""
        given = {name: value for name, value in params.items() if value is not None}
        return await self.caller.call(method, {"agentId": self.agent_id, **given})

    async def read(
        self, path: str, fragment: str | None, revision: str | None = None, **bounds: object
    ) -> dict[str, object] | None:
        """The text of a name, or None; transcripts are read only where a search would cover them."""
        if "sessions" not in self.sources and _is_transcript(path):
            return None
        reference = {"providerId": self.provider_id, "id": path}
        if fragment is not None:
            reference["fragment"] = fragment
        if revision is not None:
            reference["revision"] = revision
        payload = await self.call("memory.get", reference=reference, **bounds)
        return payload if payload.get("status") == "ok" else None


def _is_transcript(path: str) -> bool:
    plain = normpath(path)
    return plain.startswith("sessions/") and not plain.endswith(".md")


def said(error: SidecarError) -> str:
    """What an agent is told of an error: only what may leave the process, the rest is for the log."""
    if error.on_wire:
        return error.message
    log.error("the memory cannot be used: %s", error.message)
    return "The memory is not available now; memory-sidecar's log says why."

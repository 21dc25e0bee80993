"""One line of the contract as a value: its words, what it needs of a caller, and how it is put."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from callers import OPERATOR, Refused, Running
from counting import Counting
from subjects import Subject

from sidecar.domain.authority import CallerContext, HostOperation, Session
from sidecar.domain.provider import Capabilities

HIT = {"reference", "excerpt", "score", "source", "citations", "automaticRecall"}
REFERENCE = {"providerId", "id", "revision", "fragment"}
CITATION = {"label", "reference", "url", "startLine", "endLine"}
RECALL = {"eligible", "projectKeys", "triggers", "importance"}
READ = {"status", "reference", "text", "citations", "truncated", "from", "lines", "nextFrom"}
PAGE = {"hits", "nextCursor", "coverage", "warning"}
STRANGER = Session(session_key="agent:main:telegram:direct:7", sandboxed=False)
OPERATION = HostOperation(operation="memory-wiki.query")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the contract. `needs` is what a caller must be able to do."""

    words: str
    run: Callable[[Situation], Awaitable[None]]
    needs: frozenset[str]


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What a case is run on."""

    subject: Subject
    caller: Any
    provider: Counting
    running: Running

    @asynccontextmanager
    async def opened(self, *authority: Any) -> Any:
        view = await self.caller.open(*authority)
        try:
            yield view
        finally:
            await view.close()

    async def capabilities(self) -> Capabilities:
        handle = await self.provider.inner.open("main", operator_context(), "cli")
        try:
            declared: Capabilities = handle.capabilities
            return declared
        finally:
            await handle.close()

    async def refused(self, call: Awaitable[Any], code: str, message: str) -> None:
        """The call fails with exactly these words, and nothing of it reached the provider."""
        before = list(self.provider.calls)
        with pytest.raises(Refused) as caught:
            await call
        assert (caught.value.code, caught.value.details_code, caught.value.message) == (
            "UNAVAILABLE", code, message,
        )  # fmt: skip
        assert self.provider.calls == before


def operator_context() -> CallerContext:
    return CallerContext(authority=OPERATOR, assert_current=lambda: None)


CASES: list[Case] = []


def case(words: str, *needs: str) -> Callable[[Any], Any]:
    def add(run: Any) -> Any:
        CASES.append(Case(words=words, run=run, needs=frozenset(needs)))
        return run

    return add


def lacks(what: str, feature: str = "source") -> str:
    return f"memory provider does not support the {what} {feature} capability".replace("  ", " ")

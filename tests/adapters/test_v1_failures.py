"""When v1 cannot answer, it says so in upstream's words (U§2), and nothing of the engine shows."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.api.dispatch import Call
from sidecar.api.memory_methods import MemoryMethods
from sidecar.domain.authority import Bearer, CallerContext, Operator, Principal
from sidecar.domain.errors import ProviderFailed, SidecarError, StoreDamaged, Unavailable
from sidecar.domain.file_shaped import FileHits, FileSearch
from sidecar.service.audit import Audit
from sidecar.service.decisions import Decisions
from sidecar.wire import frames


class Failing:
    """A manager that fails, or finds nothing yet."""

    def __init__(self, failure: Exception | None) -> None:
        self._failure = failure
        self.asked: list[FileSearch] = []
        self.closed = 0

    async def search(self, query: str, options: FileSearch) -> FileHits:
        del query
        self.asked.append(options)
        if self._failure is not None:
            raise self._failure
        return FileHits(hits=(), stale="the first scan is still being indexed")

    def status(self) -> dict[str, object]:
        return {"provider": "none"}

    async def close(self) -> None:
        self.closed += 1


class Runtime:
    def __init__(self, manager: Failing) -> None:
        self._manager = manager

    def view(self, authority: object) -> None:
        """No transcripts here."""

    def manager(self, purpose: str) -> Failing:
        assert purpose == "cli"
        return self._manager


class Agent:
    serves_v1 = True
    decisions = Decisions(agent_id="main", sandboxed_access="deny", audit=Audit())

    def __init__(self, manager: Failing) -> None:
        self.manager = Runtime(manager)


async def ask(failure: Exception | None, **params: Any) -> tuple[Failing, Any]:
    manager = Failing(failure)
    methods = MemoryMethods({"main": Agent(manager)}, "main")  # type: ignore[dict-item]
    call = Call(
        params={"query": "x", **params},
        bearer=Bearer(
            principal=Principal(name="p", role="operator", scopes=("operator.read",)),
            key="p",
            holds=lambda: True,
        ),
        context=CallerContext(authority=Operator(scopes=("operator.read",)), assert_current=lambda: None),
    )
    try:
        return manager, await methods.search(call)
    except SidecarError as error:
        return manager, error


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (Unavailable("the embedding service is down"), "memory search failed: the embedding service is down"),
        (StoreDamaged("/home/x/catalog.db"), f"memory search failed: {frames.INTERNAL}"),
        (ValueError("/home/x"), f"memory search failed: {frames.INTERNAL}"),
    ],
)  # fmt: skip
async def test_a_failing_search_is_named_and_the_manager_closed(failure: Exception, message: str) -> None:
    manager, error = await ask(failure)
    assert isinstance(error, ProviderFailed)
    assert (error.message, manager.closed) == (message, 1)


async def test_the_engine_is_asked_what_v1_was_asked_and_says_how_it_is() -> None:
    manager, answer = await ask(None, maxResults=2.9, minScore=-1)
    assert manager.asked == [FileSearch(max_results=2, min_score=-1.0)]
    assert manager.closed == 1
    assert answer == {
        "agentId": "main",
        "provider": "none",
        "searchMode": "fts-only",
        "results": [],
        "stale": True,
        "warning": "Memory index is stale: the first scan is still being indexed. "
        "Search results may be incomplete.",
        "action": "Run: memory-sidecar index --agent main.",
    }

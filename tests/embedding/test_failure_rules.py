"""What a search does while embeddings fail: words go on, or the query is refused; words alone never fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from embedding_endpoint import Endpoint, status

from sidecar.domain.authority import CallerContext, Operator
from sidecar.domain.errors import EmbeddingFailed
from sidecar.domain.memory import Page, SearchRequest
from sidecar.runtime.agent import AgentRuntime
from sidecar.runtime.embedders import make_embedder
from sidecar.service.audit import Audit
from sidecar.service.hits import none_recorded
from sidecar.service.offload import Offload
from sidecar.service.preparing import Preparers
from sidecar.settings.model import (
    AgentSettings,
    EmbeddingSettings,
    OnFailure,
    SessionsSettings,
    WatchSettings,
)

pytestmark = pytest.mark.slow


class Searcher:
    """An agent over a workspace, and searches as its operator."""

    def __init__(self, agent: AgentRuntime) -> None:
        self.agent = agent

    async def search(self, query: str, *, lexical_only: bool = False) -> Page:
        context = CallerContext(
            authority=Operator(scopes=("operator.read",), connection_id="test"),
            assert_current=lambda: None,
            identity="test",
        )
        handle = await self.agent.provider.open("main", context, "cli")
        return await handle.search(SearchRequest(query=query, max_results=5, lexical_only=lexical_only))


@pytest.fixture(params=["lexical", "error"])
async def searcher(
    endpoint: Endpoint, workspace: Path, tmp_path: Path, request: pytest.FixtureRequest, write: Any
) -> AsyncIterator[Searcher]:
    write(workspace, {"memory/fruit.md": "A ripe banana.\n", "memory/sea.md": "The ship leaves at dawn.\n"})
    rule: OnFailure = request.param
    settings = EmbeddingSettings(
        provider="openai-compatible", base_url=endpoint.base_url, model="tiny", on_failure=rule
    )
    embedder = make_embedder(settings, {})
    assert embedder is not None
    offload = Offload(2)
    agent = await AgentRuntime.open(
        AgentSettings(id="main", workspace=workspace, sessions=SessionsSettings(directory=tmp_path / "none")),
        directory=tmp_path / "state",
        watch=WatchSettings(),
        embeddings=settings,
        embedder=embedder,
        offload=offload,
        preparers=Preparers(0),
        audit=Audit(),
        recorded_origin=none_recorded,
    )
    await agent.refresh()
    yield Searcher(agent)
    await agent.close()
    await embedder.close()
    offload.close()


async def test_words_alone_neither_ask_the_endpoint_nor_miss_it(
    endpoint: Endpoint, searcher: Searcher
) -> None:
    endpoint.fault = status(401)
    asked = len(endpoint.asked)
    page = await searcher.search("banana", lexical_only=True)
    assert [hit.path for hit in page.hits] == ["memory/fruit.md"]
    assert (page.coverage, page.warning) == ("complete", None)
    assert len(endpoint.asked) == asked


async def test_the_configured_rule_decides_and_words_alone_go_on(
    endpoint: Endpoint, searcher: Searcher, request: pytest.FixtureRequest
) -> None:
    assert (await searcher.search("banana")).coverage == "complete"
    endpoint.fault = status(401)
    for _ in range(2):
        if "error" in request.node.name:
            with pytest.raises(EmbeddingFailed, match="does not accept the API key"):
                await searcher.search("banana")
        else:
            page = await searcher.search("banana")
            assert page.coverage == "partial"
            assert "meaning was not searched: the embedding endpoint does not accept" in (page.warning or "")
            assert [hit.path for hit in page.hits] == ["memory/fruit.md"]
    assert (await searcher.search("banana", lexical_only=True)).coverage == "complete"
    health = await searcher.agent.health.report()
    assert health.status == "degraded"
    assert "embeddings are failing" in (health.message or "")


async def test_a_query_of_mere_signs_asks_nothing_and_is_no_error(
    endpoint: Endpoint, searcher: Searcher
) -> None:
    endpoint.fault = status(401)
    asked = len(endpoint.asked)
    assert (await searcher.search("?!")).hits == ()
    assert len(endpoint.asked) == asked

"""Failures that people reported of memory search over Markdown, each asked of the real service.

The docstring of every test names its case. A search is made with both contracts, and both must find the
same: what `both` gives is the list that v1 and v2 agree on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

WORDS_ONLY = {"MEMORY_SIDECAR_EMBEDDINGS_PROVIDER": "none"}


class Shown(NamedTuple):
    """A hit as both contracts show it."""

    path: str
    start: int
    end: int
    text: str


async def agreed(service: Any, query: str, **params: object) -> list[Shown]:
    """The hits of a query, best first, after checking that v1 and v2 give the same ones."""
    v1 = await service.search_v1(query, **params)
    v2 = await service.search(query, **params)
    first = [Shown(hit["path"], hit["startLine"], hit["endLine"], hit["snippet"]) for hit in v1["results"]]
    second = [
        Shown(
            hit["reference"]["id"],
            hit["citations"][0]["startLine"],
            hit["citations"][0]["endLine"],
            hit["excerpt"],
        )
        for hit in v2["hits"]
    ]
    assert first == second, query
    assert [hit["score"] for hit in v1["results"]] == [hit["score"] for hit in v2["hits"]]
    return second


@pytest.fixture(scope="session")
def words_only() -> dict[str, str]:
    """The environment of a service without embeddings."""
    return WORDS_ONLY


@pytest.fixture(scope="session")
def both() -> Callable[..., Awaitable[list[Shown]]]:
    """`await both(service, query, **params)`: the hits that v1 and v2 agree on."""
    return agreed


@pytest.fixture(scope="session")
def paths() -> Callable[..., Awaitable[list[str]]]:
    """`await paths(service, query)`: only where the hits stand."""

    async def ask(service: Any, query: str, **params: object) -> list[str]:
        return [hit.path for hit in await agreed(service, query, **params)]

    return ask


@pytest.fixture(scope="session")
def read_lines() -> Callable[..., Awaitable[Any]]:
    """`await read_lines(service, path, start, end)`: the answer of `memory.get` for these lines."""

    async def ask(service: Any, path: str, start: int, end: int) -> Any:
        reference = {"providerId": "memory-sidecar", "id": path}
        bounds = {"from": start, "lines": end - start + 1}
        return await service.call("memory.get", {"reference": reference, **bounds})

    return ask

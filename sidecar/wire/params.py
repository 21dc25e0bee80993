"""Parameters to requests: what each operator method was asked, after its rules hold (U§2, U§3)."""

from __future__ import annotations

from typing import cast

import msgspec

from sidecar.domain.memory import GetRequest, Reference, SearchRequest, Source
from sidecar.wire import javascript, rules
from sidecar.wire.rules import ABSENT, Params, field

DEFAULT_RESULTS = 20
MOST_RESULTS = 50


class AgentParam(msgspec.Struct, frozen=True):
    """The agent that was named, None when the parameter is absent."""

    name: str | None


class SearchV1(msgspec.Struct, frozen=True, kw_only=True):
    """A file-shaped search. `min_score` None: the engine's own default."""

    query: str
    max_results: int
    min_score: float | None
    agent: AgentParam


class SearchV2(msgspec.Struct, frozen=True, kw_only=True):
    """A provider-neutral search."""

    request: SearchRequest
    agent: AgentParam


class Get(msgspec.Struct, frozen=True, kw_only=True):
    """A read of a reference."""

    request: GetRequest
    agent: AgentParam


def search(params: Params) -> SearchV1 | SearchV2:
    """Decode `memory.search` of either version."""
    return search_v2(params) if rules.version_of(params) == 2 else _search_v1(params)


def _search_v1(params: Params) -> SearchV1:
    rules.check(rules.SEARCH_V1, params)
    return SearchV1(
        query=javascript.trim(cast(str, params["query"])),
        max_results=rules.clamp_v1_results(field(params, "maxResults")),
        min_score=javascript.finite_number(field(params, "minScore")),
        agent=_agent(params),
    )


def search_v2(params: Params) -> SearchV2:
    """Decode a provider-neutral search, whatever its `version` says."""
    rules.check(rules.SEARCH_V2, params)
    rules.check(rules.AGENT_V2, params)
    return SearchV2(request=search_request(params), agent=_agent(params))


def search_request(params: Params) -> SearchRequest:
    """The search in parameters that hold the rules of `rules.SEARCH_V2`."""
    named = field(params, "sources")
    asked = javascript.positive_integer(field(params, "maxResults"))
    cursor = field(params, "cursor")
    return SearchRequest(
        query=javascript.trim(cast(str, params["query"])),
        max_results=min(MOST_RESULTS, asked or DEFAULT_RESULTS),
        min_score=javascript.finite_number(field(params, "minScore")),
        cursor=None if cursor is ABSENT else cast(str, cursor),
        sources=None if named is ABSENT else tuple(dict.fromkeys(cast(list[Source], named))),
    )


def get(params: Params) -> Get:
    """Decode `memory.get`; `from` and `lines` stand beside `reference`, values are not trimmed."""
    rules.check(rules.GET, params)
    rules.check(rules.AGENT_V2, params)
    return Get(request=get_request(params), agent=_agent(params))


def get_request(params: Params) -> GetRequest:
    """The read in parameters that hold the rules of `rules.GET`."""
    return GetRequest(
        reference=Reference(
            provider_id=cast(str, field(params, "reference", "providerId")),
            id=cast(str, field(params, "reference", "id")),
            revision=javascript.text(field(params, "reference", "revision")),
            fragment=javascript.text(field(params, "reference", "fragment")),
        ),
        from_line=javascript.positive_integer(field(params, "from")),
        line_count=javascript.positive_integer(field(params, "lines")),
    )


def status(params: Params) -> AgentParam:
    """Decode `memory.status`: nothing but the agent."""
    rules.check(rules.AGENT_V2, params)
    return _agent(params)


def _agent(params: Params) -> AgentParam:
    value = field(params, "agentId")
    return AgentParam(value if isinstance(value, str) else None)

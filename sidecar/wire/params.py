"""Parameters to requests: what each operator method was asked, after its rules hold (U§2, U§3)."""

from __future__ import annotations

from typing import cast

import msgspec

from sidecar.domain.memory import GetRequest, NoteFilter, Reference, SearchRequest, Source
from sidecar.domain.why import WhyRequest
from sidecar.wire import javascript, rules
from sidecar.wire.rules import ABSENT, Params, field

DEFAULT_RESULTS = 20
MOST_RESULTS = 50
MOST_NOTES = 500


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


class BoundedSearch(msgspec.Struct, frozen=True, kw_only=True):
    """A provider-neutral search with our own filters, whose excerpts hold at most `max_chars`."""

    request: SearchRequest
    max_chars: int | None
    agent: AgentParam


class Notes(msgspec.Struct, frozen=True, kw_only=True):
    """The names of at most `limit` notes behind `after`, in their order."""

    after: str
    limit: int
    agent: AgentParam


class WhyAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Why a note is found or not."""

    request: WhyRequest
    agent: AgentParam


class Get(msgspec.Struct, frozen=True, kw_only=True):
    """A read of a reference."""

    request: GetRequest
    agent: AgentParam


class Refresh(msgspec.Struct, frozen=True, kw_only=True):
    """A scan to completion, from nothing with `rebuild`, and with `purge` without traces of old text."""

    rebuild: bool
    purge: bool
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


def explain(params: Params) -> SearchV2:
    """Decode `sidecar.explain`: a provider-neutral search among the notes of some paths and days."""
    rules.check(rules.SEARCH_V2, params)
    rules.check(rules.FILTERS, params)
    rules.check(rules.AGENT_V2, params)
    return SearchV2(
        request=msgspec.structs.replace(search_request(params), within=_within(params)), agent=_agent(params)
    )


def bounded_search(params: Params) -> BoundedSearch:
    """Decode `sidecar.search`."""
    rules.check(rules.SEARCH_V2, params)
    rules.check(rules.FILTERS, params)
    rules.check((rules.MAX_CHARS, *rules.AGENT_V2), params)
    return BoundedSearch(
        request=msgspec.structs.replace(search_request(params), within=_within(params)),
        max_chars=javascript.positive_integer(field(params, "maxChars")),
        agent=_agent(params),
    )


def notes(params: Params) -> Notes:
    """Decode `sidecar.notes`."""
    rules.check((*rules.NOTES, *rules.AGENT_V2), params)
    return Notes(
        after=javascript.text(field(params, "after")) or "",
        limit=min(MOST_NOTES, javascript.positive_integer(field(params, "limit")) or MOST_NOTES),
        agent=_agent(params),
    )


def why(params: Params) -> WhyAsked:
    """Decode `sidecar.why`."""
    rules.check((rules.QUERY, *rules.WHY, *rules.AGENT_V2), params)
    keys = field(params, "activeProjectKeys")
    return WhyAsked(
        request=WhyRequest(
            path=cast(str, params["path"]),
            query=javascript.trim(cast(str, params["query"])),
            line=javascript.positive_integer(field(params, "line")),
            active_project_keys=None if keys is ABSENT else tuple(cast(list[str], keys)),
        ),
        agent=_agent(params),
    )


def _within(params: Params) -> NoteFilter | None:
    path, since, until = (field(params, name) for name in ("path", "since", "until"))
    if path is since is until is ABSENT:
        return None
    return NoteFilter(path=javascript.text(path), since=javascript.text(since), until=javascript.text(until))


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


def refresh(params: Params) -> Refresh:
    """Decode `sidecar.refresh`."""
    rules.check(rules.REFRESH, params)
    return Refresh(
        rebuild=field(params, "rebuild") is True, purge=field(params, "purge") is True, agent=_agent(params)
    )


def _agent(params: Params) -> AgentParam:
    value = field(params, "agentId")
    return AgentParam(value if isinstance(value, str) else None)

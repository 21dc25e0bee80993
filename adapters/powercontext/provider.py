"""The provider `powercontext` (spec §5): neutral handles over a store that knows records and no files.

It declares what the store can do and no more: memory only, no paging, no candidates, a project filter that is
a partition. The store authorises nobody by agent, so this is the boundary: every call goes to the scope of
the agent that the handle was opened for.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from sidecar.adapters.powercontext.client import Client, deadline_in, remaining, within
from sidecar.adapters.powercontext.mapping import (
    LONGEST_QUERY,
    MOST_PROJECTS,
    PROVIDER_ID,
    Coverage,
    ScopeKey,
    best_first,
    hit_of,
    parse_id,
    parse_revision,
    read_of,
    scope_keys,
)
from sidecar.adapters.powercontext.options import MOST_RESULTS, Options, Token, read_options
from sidecar.adapters.powercontext.shapes import FoundRecord
from sidecar.adapters.powercontext.store import Server, Store, vectors_are_down

from sidecar.domain.authority import CallerContext
from sidecar.domain.errors import ProviderFailed, Unavailable
from sidecar.domain.memory import GetRequest, Hit, NotFound, Page, ReadResult, SearchRequest
from sidecar.domain.provider import Capabilities, Health, ProviderSetup, Purpose

CAPABILITIES = Capabilities(sources=("memory",), pagination=False, candidates=(), project_filter=True)
NO_VECTORS = "degraded: vector unavailable"
DEGRADED_SECONDS = 60.0
VECTOR_SHARE = 0.6
"""Of the time of a search; what is left is for asking again by words alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """What the handles of one agent share; it outlives every handle."""

    agent_id: str
    options: Options
    client: Client
    store: Store
    vectors: Vectors


class Vectors:
    """Remembers whether search by meaning failed a short while ago, or was there once and is gone."""

    def __init__(self) -> None:
        self._failed_until = 0.0
        self._had_once = False

    def failed(self) -> None:
        """A search had to do without."""
        self._failed_until = deadline_in(DEGRADED_SECONDS)

    def worked(self) -> None:
        """A search had them."""
        self._failed_until = 0.0

    def missing(self, server: Server) -> bool:
        """Whether searches lack what they would have otherwise."""
        self._had_once = self._had_once or server.hybrid
        return remaining(self._failed_until) > 0 or (self._had_once and not server.hybrid)


def make(setup: ProviderSetup) -> PowerContextProvider:
    """The provider of one agent; raises `SettingsError`. It connects at first use, not here."""
    options = read_options(setup.agent_id, setup.options)
    client = Client(endpoint=options.endpoint, token=Token(setup.agent_id, options))
    return PowerContextProvider(
        Services(
            agent_id=setup.agent_id,
            options=options,
            client=client,
            store=Store(client),
            vectors=Vectors(),
        )
    )


class PowerContextProvider:
    """Opens handles on one agent's records."""

    provider_id = PROVIDER_ID

    def __init__(self, services: Services) -> None:
        self._services = services

    async def open(
        self,
        agent_id: str,
        context: CallerContext,  # noqa: ARG002
        purpose: Purpose,  # noqa: ARG002
    ) -> PowerContextHandle:
        """A handle, whoever calls and whatever the purpose: opening asks nothing of the server."""
        if agent_id != self._services.agent_id:
            raise ProviderFailed("Memory provider unavailable")
        return PowerContextHandle(self._services)

    async def aclose(self) -> None:
        """End the connections; the server is others' as well and stays as it is."""
        await self._services.client.close()


class PowerContextHandle:
    """A view of the store, for callers that may read."""

    capabilities = CAPABILITIES

    def __init__(self, services: Services) -> None:
        self._services = services

    async def search(self, request: SearchRequest) -> Page:
        """The best records of the agent's own scope, or of the named projects' scopes and nothing else.

        A scope to which nothing was ever written is empty; whatever else gives no records is a failure.
        """
        query, notices = _fitting(request.query)
        keys = scope_keys(self._services.agent_id, request.active_project_keys)
        partial: list[str] = []
        if len(keys) > MOST_PROJECTS:
            partial.append(f"only {MOST_PROJECTS} of {len(keys)} projects were searched")
            keys = keys[:MOST_PROJECTS]
        options = self._services.options
        most = min(request.max_results, options.max_results)
        deadline = deadline_in(options.search_timeout_seconds)
        search = _Search(self._services, query=query, most=most, deadline=deadline)
        async with within(deadline):
            hits = await search.run(keys, lexical_only=request.lexical_only)
        if search.fell_back:
            partial.append(NO_VECTORS)
        minimum = options.min_score if request.min_score is None else request.min_score
        return Page(
            hits=best_first(hits, minimum=minimum, most=most),
            coverage="partial" if partial else "complete",
            warning="; ".join([*partial, *notices]) or None,
        )

    async def get(self, request: GetRequest) -> ReadResult:
        """The text of the named revision, or of the newest where none is named.

        `NotFound` for what was never there, is forgotten, or belongs to another agent, store or project.
        """
        reference = request.reference
        named = parse_id(reference.id)
        revision = None if reference.revision is None else parse_revision(reference.revision)
        if named is None or (revision is None and reference.revision is not None):
            return NotFound()
        services = self._services
        deadline = deadline_in(services.options.timeout_seconds)
        async with within(deadline):
            server = await services.store.server(deadline=deadline)
            if named.server_id != server.server_id:
                return NotFound()
            # The agent is the handle's, whatever the reference says.
            key = ScopeKey(services.agent_id, named.project)
            scope_id = await services.store.scope(key, deadline=deadline)
            if scope_id is None:
                return NotFound()
            found = await services.store.record(scope_id, named, revision, deadline=deadline)
        if found is None or (revision is not None and found.revision != revision):
            return NotFound()
        return read_of(named, found.revision, found.content.text, request)

    async def health(self) -> Health:
        """Whether the store can be asked."""
        services = self._services
        deadline = deadline_in(services.options.timeout_seconds)
        try:
            async with within(deadline):
                server = await services.store.server(deadline=deadline, afresh=True)
                ready = await services.store.ready(deadline=deadline)
        except Unavailable as error:
            return Health(status="unavailable", message=error.message)
        details = {
            "server": {"version": server.version, "contract": server.contract},
            "searchMode": "hybrid" if server.hybrid else "fts-only",
        }
        if not ready:
            return Health(
                status="unavailable", message="powercontext: the server is not ready", details=details
            )
        if services.vectors.missing(server):
            return Health(status="degraded", message=NO_VECTORS, details=details)
        return Health(status="ready", details=details)

    async def close(self) -> None:
        """A handle holds nothing of the shared connections."""


class _Search:
    """One search over a few scopes, side by side, all within one deadline."""

    def __init__(self, services: Services, *, query: str, most: int, deadline: float) -> None:
        self._services = services
        self._query = query
        self._coverage = Coverage(query)
        # Their order is by place and ours by score: look at more than are shown, so that none is missed.
        self._limit = min(MOST_RESULTS, 2 * most)
        self._deadline = deadline
        self._vector_deadline = deadline - (1 - VECTOR_SHARE) * remaining(deadline)
        self.fell_back = False

    async def run(self, keys: tuple[ScopeKey, ...], *, lexical_only: bool) -> list[Hit]:
        """The hits of every scope, unordered."""
        server = await self._services.store.server(deadline=self._deadline)
        hybrid = server.hybrid and not lexical_only
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._scope(key, server, hybrid=hybrid)) for key in keys]
        except ExceptionGroup as failures:
            raise _first(failures) from failures
        return [hit for task in tasks for hit in task.result()]

    async def _scope(self, key: ScopeKey, server: Server, *, hybrid: bool) -> list[Hit]:
        scope_id = await self._services.store.scope(key, deadline=self._deadline)
        if scope_id is None:
            return []
        records = (await self._records(scope_id, hybrid=hybrid))[: self._limit]
        # A tenth of a second of work for a hundred of the longest records.
        return await asyncio.to_thread(self._scored, records, key, server)

    def _scored(self, records: tuple[FoundRecord, ...], key: ScopeKey, server: Server) -> list[Hit]:
        return [
            hit_of(record, server_id=server.server_id, scope=key, coverage=self._coverage)
            for record in records
        ]

    async def _records(self, scope_id: str, *, hybrid: bool) -> tuple[FoundRecord, ...]:
        store, vectors = self._services.store, self._services.vectors
        if hybrid:
            try:
                found = await store.search(
                    scope_id, self._query, limit=self._limit, hybrid=True, deadline=self._vector_deadline
                )
            except ProviderFailed as error:
                if not vectors_are_down(error):
                    raise
            else:
                vectors.worked()
                return found
        found = await store.search(
            scope_id, self._query, limit=self._limit, hybrid=False, deadline=self._deadline
        )
        if hybrid:
            self.fell_back = True
            vectors.failed()
        return found


def _first(failures: ExceptionGroup[Exception]) -> Exception:
    """The error of the first task that failed; the others were cancelled for it."""
    error = failures.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error


def _fitting(query: str) -> tuple[str, list[str]]:
    """The query as the server takes it, and what the caller is told of a cut."""
    trimmed = query.strip()
    if not trimmed:
        raise ProviderFailed(f"{PROVIDER_ID}: query must be a non-empty string")
    if len(trimmed) <= LONGEST_QUERY:
        return trimmed, []
    return trimmed[:LONGEST_QUERY].rstrip(), [f"the query was cut to {LONGEST_QUERY} characters"]

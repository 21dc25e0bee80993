"""One PowerContext store as the provider sees it: gated by its contract, partitioned by our scope keys.

What is learnt of the server is kept for a minute and dropped at the first sign that it changed, so a server
that was replaced, repaired or rebound is seen as it is without a restart of ours.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from sidecar.adapters.powercontext import shapes
from sidecar.adapters.powercontext.client import Client, Late, Refusal, Unreachable
from sidecar.adapters.powercontext.mapping import Named, ScopeKey, contract_fault
from sidecar.adapters.powercontext.shapes import FAMILY, FoundRecord, RecordState, Revision

from sidecar.domain.errors import ProviderFailed

T = TypeVar("T")

KEPT_SECONDS = 60.0
MOST_SCOPES = 1024
SCOPE_GONE = "scope_not_found"
RECORD_GONE = "artifact_not_found"
MODE_GONE = "artifact_search_not_supported"
VECTOR_MODE = "hybrid"


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """What a server said of itself. `hybrid`: whether it finds by meaning as well as by words."""

    server_id: str
    version: str
    contract: str
    hybrid: bool


class UnsupportedServer(ProviderFailed):
    """The server answers, but its contract is not one that this adapter speaks."""


class Store:
    """The store of one agent. Every call ends by its `deadline` and raises from the error tree."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._server: tuple[Server, float] | None = None
        self._asking = asyncio.Lock()
        self._scopes: OrderedDict[str, tuple[str, float]] = OrderedDict()

    async def server(self, *, deadline: float, afresh: bool = False) -> Server:
        """The server, after its contract was found good. Raises `UnsupportedServer` otherwise.

        `afresh` asks now instead of believing what it said within the last minute.
        """
        if not afresh and (known := self._known()) is not None:
            return known
        async with self._asking:
            if not afresh and (known := self._known()) is not None:
                return known
            before = self._server
            server = await self._ask(deadline)
            if before is not None and before[0].server_id != server.server_id:
                self.forget()
            self._server = (server, _now() + KEPT_SECONDS)
            return server

    async def _ask(self, deadline: float) -> Server:
        info = await self._read("GET", "/v1/server-info", shapes.ServerInfo, deadline=deadline)
        fault = contract_fault(info)
        if fault is not None:
            self.forget()
            raise UnsupportedServer(f"powercontext: {fault}")
        able = await self._read("GET", "/v1/capabilities", shapes.ServerCapabilities, deadline=deadline)
        version = info.api_contract_version
        return Server(
            server_id=info.server_id,
            version=info.package_version[:64],
            contract=f"{version.major}.{version.minor}",
            hybrid=VECTOR_MODE in able.search_modes,
        )

    def _known(self) -> Server | None:
        return self._server[0] if self._server is not None and self._server[1] > _now() else None

    def forget(self) -> None:
        """Believe nothing any more of what the server said."""
        self._server = None
        self._scopes.clear()

    async def ready(self, *, deadline: float) -> bool:
        """Whether the server calls itself ready."""
        answer = await self._read("GET", "/health/ready", shapes.Ready, deadline=deadline)
        return answer.status == "ready"

    async def scope(self, key: ScopeKey, *, deadline: float) -> str | None:
        """The scope bound to a key, None where nothing was ever written under it.

        The server's default scope, which is everybody's, is never taken instead.
        """
        known = self._scopes.get(key.external_id)
        if known is not None and known[1] > _now():
            return known[0]
        try:
            scope = await self._read(
                "POST",
                "/v1/scope-bindings/resolve",
                shapes.Scope,
                body={"binding_keys": [key.binding], "allow_default": False},
                deadline=deadline,
            )
        except Refusal as error:
            if error.http_status == 404 and error.error_code == SCOPE_GONE:
                return None
            raise
        self._scopes[key.external_id] = (scope.scope_id, _now() + KEPT_SECONDS)
        if len(self._scopes) > MOST_SCOPES:
            self._scopes.popitem(last=False)
        return scope.scope_id

    async def search(
        self, scope_id: str, query: str, *, limit: int, hybrid: bool, deadline: float
    ) -> tuple[FoundRecord, ...]:
        """Active records of one scope, best first by the server's own order."""
        found = await self._read(
            "POST",
            f"/v1/scopes/{scope_id}/artifacts/{FAMILY}/search",
            shapes.SearchResults,
            body={
                "query": query,
                "limit": limit,
                "mode": "hybrid" if hybrid else "text",
                "include_scores": True,
            },
            deadline=deadline,
        )
        return found.results

    async def record(
        self, scope_id: str, named: Named, revision: int | None, *, deadline: float
    ) -> Revision | None:
        """The asked or else the newest revision of a record that is active now; None where there is none.

        Its state is asked after its text, so that a record which is being forgotten is not given out.
        """
        path = f"/v1/scopes/{scope_id}/artifacts/{FAMILY}/{named.artifact_id}"
        asked = path if revision is None else f"{path}/revisions/{revision}"
        try:
            found = await self._read("GET", asked, Revision, deadline=deadline)
            state = await self._read("GET", f"{path}/state", RecordState, deadline=deadline)
        except Refusal as error:
            if error.http_status == 404 and error.error_code == RECORD_GONE:
                return None
            raise
        is_asked = (
            (found.scope_id, found.artifact_id) == (scope_id, named.artifact_id)
            and revision in (None, found.revision)
            and state.artifact.artifact_id == named.artifact_id
        )
        if not is_asked:
            raise ProviderFailed("powercontext: the server answered with another record")
        return found if state.state == "active" else None

    async def _read(
        self,
        verb: str,
        path: str,
        shape: type[T],
        *,
        deadline: float,
        body: Mapping[str, object] | None = None,
    ) -> T:
        """A call whose failure may mean that the server is another one now, or not what it was."""
        try:
            return await self._client.read(verb, path, shape, deadline=deadline, body=body)
        except Unreachable:
            self.forget()
            raise
        except Refusal as error:
            if error.http_status in (401, 403) or error.error_code in (SCOPE_GONE, MODE_GONE):
                self.forget()
            raise


def vectors_are_down(error: Exception) -> bool:
    """Whether the server answers but cannot search by meaning now."""
    if isinstance(error, Late):
        return True
    if not isinstance(error, Refusal) or error.error_code is None:
        return False
    no_inference = error.http_status == 503 and error.error_code.startswith("inference_")
    return no_inference or (error.http_status == 422 and error.error_code == MODE_GONE)


def _now() -> float:
    return asyncio.get_running_loop().time()

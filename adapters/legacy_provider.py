"""The host-owned adapter of U§5: neutral handles over any file-shaped manager (spec §5.2).

What differs from upstream only narrows: asking for transcripts that are not indexed, or that nothing can
authorise, is degraded and said; hits of other projects are left out; a minimum score is strict; whatever
looks like a host path is taken out of health.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from sidecar.domain.authority import Authority, CallerContext, Conversation, Session
from sidecar.domain.errors import AccessDenied, CapabilityUnsupported, ProviderFailed, Unavailable
from sidecar.domain.file_shaped import (
    AuthoriseHits,
    FileHit,
    FileHits,
    FileRead,
    FileSearch,
    FileText,
    HitFilter,
    LegacyManager,
    LegacyRuntime,
)
from sidecar.domain.memory import (
    AutomaticRecall,
    Citation,
    Found,
    GetRequest,
    Hit,
    LineRange,
    NotFound,
    Page,
    ReadResult,
    Reference,
    SearchRequest,
)
from sidecar.domain.provider import Capabilities, Health, HealthStatus, Purpose
from sidecar.domain.sessions import TranscriptAuthoriser
from sidecar.policy.access import Operation, Partition
from sidecar.service.binding import WITHHELD
from sidecar.service.decisions import Decisions
from sidecar.text.annotations import strip
from sidecar.text.fragments import format_fragment, label
from sidecar.text.hostpaths import redacted, without_paths

PROVIDER_ID: Final = "memory-sidecar-legacy"
CAPABILITIES: Final = Capabilities(
    sources=("memory", "sessions"), pagination=False, candidates=(), project_filter=True
)
NO_CURSORS: Final = "legacy memory search does not support cursors"
NOT_INDEXED: Final = "session transcripts are not enabled, so they were not searched"
_HIDDEN: Final = frozenset({"workspaceDir", "dbPath", "extraPaths", "extensionPath"})
_OWNED: Final = frozenset({"cli", "status"})


@dataclass(frozen=True, kw_only=True, slots=True)
class LegacyServices:
    """What the handles of one agent share.

    `sees` says of one transcript hit whether an authority may see it (spec §5.4), beside the runtime's own
    filter, which knows no audience. Without it a conversation's audience sees no transcript. `view` goes with
    the search, so that hits which are to be filtered out take no place of others.
    """

    agent_id: str
    runtime: LegacyRuntime
    decisions: Decisions
    provider_id: str = PROVIDER_ID
    sees: Callable[[Authority, FileHit], bool] | None = None
    view: Callable[[Authority], TranscriptAuthoriser | None] | None = None


class LegacyProvider:
    """Opens handles over the managers of one agent."""

    adapter = "legacy"

    def __init__(self, services: LegacyServices) -> None:
        self._services = services
        self.provider_id = services.provider_id

    async def open(self, agent_id: str, context: CallerContext, purpose: Purpose) -> LegacyHandle:
        """A handle on a manager acquired for this purpose; raises `Unavailable` when there is none."""
        acquired = await self._services.runtime.acquire(agent_id, purpose)
        if acquired.manager is None:
            raise Unavailable(acquired.error or "memory plugin unavailable")
        kind = RefreshingLegacyHandle if _method(acquired.manager, "sync") is not None else LegacyHandle
        return kind(self._services, acquired.manager, context, purpose)


class LegacyHandle:
    """One caller's view of a manager."""

    capabilities = CAPABILITIES

    def __init__(
        self, services: LegacyServices, manager: LegacyManager, context: CallerContext, purpose: Purpose
    ) -> None:
        self._services = services
        self._manager = manager
        self._context = context
        self._purpose = purpose

    async def search(self, request: SearchRequest) -> Page:
        """The manager's hits that the caller may see, with their place as reference and citation."""
        if request.cursor is not None:
            raise CapabilityUnsupported(NO_CURSORS)
        denied = self._denied("search")
        if denied is not None:
            return Page(
                hits=(), warning=f"{self._services.provider_id}: stored memories were not searched: {denied}"
            )
        found: FileHits = await self._required("search")(request.query, self._options(request))
        self._context.assert_current()
        admitted = await self._admitted(found.hits)
        self._context.assert_current()
        asked = "sessions" in (request.sources or ())
        withheld = None
        if asked or any(hit.source == "sessions" for hit in found.hits):
            withheld = self._denied("search", "transcripts")
        hits = [
            hit
            for hit in admitted
            if (hit.source != "sessions" or (withheld is None and self._sees(hit))) and _passes(hit, request)
        ]
        reasons = [*self._unsearched(request), *([found.stale] if found.stale else [])]
        told = list(reasons)
        if asked and withheld is not None:
            told.insert(0, f"{self._services.provider_id}: transcripts were not searched: {withheld}")
        return Page(
            hits=tuple(self._hit(hit) for hit in hits[: request.max_results]),
            coverage="partial" if reasons else "complete",
            warning="; ".join(told) or None,
        )

    async def get(self, request: GetRequest) -> ReadResult:
        """The file that a reference names: neither its fragment nor its revision is looked at (U§5)."""
        denied = self._denied("get")
        if denied is not None:
            raise AccessDenied(f"{self._services.provider_id}: memory access denied: {denied}")
        read: FileText = await self._required("read_file")(
            FileRead(path=request.reference.id, from_line=request.from_line, line_count=request.line_count)
        )
        if read.status == "not_found":
            return NotFound()
        return Found(
            reference=Reference(provider_id=self._services.provider_id, id=read.path),
            text=read.text,
            truncated=read.truncated,
            from_line=read.from_line,
            line_count=read.line_count,
            next_from=read.next_from,
        )

    async def health(self) -> Health:
        """`degraded` while the last sync failed, else `ready`; the manager's status without host paths."""
        status = self._manager.status()
        failure = status.get("lastSyncError")
        word: HealthStatus = "degraded" if failure else "ready"
        if not self._services.decisions.full_health(self._context):
            return Health(status=word)
        return Health(
            status=word,
            message=without_paths(str(failure)) if failure else None,
            details={"legacy": redacted(status, _HIDDEN)},
        )

    async def close(self) -> None:
        """Close the manager if it is this caller's own; the shared one of `default` stays open."""
        close = _method(self._manager, "close")
        if self._purpose in _OWNED and close is not None:
            await close()

    def _denied(self, operation: Operation, partition: Partition = "memory") -> str | None:
        return self._services.decisions.denied(operation, self._context, partition=partition)

    def _sees(self, hit: FileHit) -> bool:
        authority = self._context.authority
        if self._services.sees is not None:
            return self._services.sees(authority, hit)
        return not (isinstance(authority, Session) and isinstance(authority.audience, Conversation))

    def _required(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = _method(self._manager, name)
        if method is None:
            shown = {"read_file": "readFile"}.get(name, name)
            raise ProviderFailed(f"memory runtime manager must implement {shown}")
        return method

    def _options(self, request: SearchRequest) -> FileSearch:
        authority = self._context.authority
        return FileSearch(
            max_results=request.max_results,
            min_score=request.min_score,
            strict=True,
            session_key=authority.session_key if isinstance(authority, Session) else None,
            lexical_only=request.lexical_only,
            active_project_keys=request.active_project_keys,
            sources=request.sources,
            transcripts=self._services.view(authority) if self._services.view is not None else None,
        )

    async def _admitted(self, hits: tuple[FileHit, ...]) -> Iterable[FileHit]:
        authorise: AuthoriseHits | None = self._services.runtime.authorize_search_hits
        if authorise is None:
            return [hit for hit in hits if hit.source != "sessions"]
        authority = self._context.authority
        session = authority if isinstance(authority, Session) else None
        return await authorise(
            HitFilter(
                agent_id=self._services.agent_id,
                hits=hits,
                requester_session_key=session.session_key if session is not None else None,
                sandboxed=session is not None and session.sandboxed,
                trusted_agent_scope=session is None,
                conversation_recall=session.conversation_recall if session is not None else None,
            )
        )

    def _unsearched(self, request: SearchRequest) -> list[str]:
        """Why transcripts that were asked for are not among the hits."""
        if "sessions" not in (request.sources or ()):
            return []
        indexed = self._manager.status().get("sources")
        if isinstance(indexed, list | tuple) and "sessions" not in indexed:
            return [NOT_INDEXED]
        return [WITHHELD] if self._services.runtime.authorize_search_hits is None else []

    def _hit(self, raw: FileHit) -> Hit:
        lines = LineRange(raw.start_line, raw.end_line)
        reference = Reference(
            provider_id=self._services.provider_id, id=raw.path, fragment=format_fragment(lines)
        )
        return Hit(
            reference=reference,
            excerpt=strip(raw.snippet),
            path=raw.path,
            lines=lines,
            score=raw.score,
            source=raw.source,
            citations=(
                Citation(
                    label=raw.citation or label(raw.path, lines),
                    reference=reference,
                    start_line=raw.start_line,
                    end_line=raw.end_line,
                ),
            ),
            recall=_recall(raw),
        )


class RefreshingLegacyHandle(LegacyHandle):
    """The handle on a manager that can sync."""

    async def refresh(self) -> None:
        """Have the manager sync; raises `AccessDenied` for a caller that may not read."""
        denied = self._denied("refresh")
        if denied is not None:
            raise AccessDenied(f"{self._services.provider_id}: memory access denied: {denied}")
        await self._required("sync")(reason="provider-refresh")


def _method(manager: LegacyManager, name: str) -> Callable[..., Awaitable[Any]] | None:
    found = getattr(manager, name, None)
    return found if callable(found) else None


def _keys(raw: FileHit) -> tuple[str, ...] | None:
    """The project keys of a hit; None where it has none at all, empty where what it has is no key."""
    if raw.project_key is None:
        return None
    return tuple(key for part in raw.project_key.split(";") if (key := part.strip()))


def _recall(raw: FileHit) -> AutomaticRecall:
    keys = _keys(raw)
    trusted = raw.provenance is not None and raw.provenance.origin_class in ("owner", "agent")
    return AutomaticRecall(
        eligible=raw.source == "memory" and trusted and keys != (),
        project_keys=keys or (),
        triggers=raw.triggers,
        importance=raw.importance,
    )


def _passes(raw: FileHit, request: SearchRequest) -> bool:
    """What a manager may let through and this provider does not: other sources, weak hits, other projects."""
    if request.sources is not None and raw.source not in request.sources:
        return False
    if request.min_score is not None and round(raw.score, 6) < request.min_score:
        return False
    if not request.active_project_keys:
        return True
    keys = _keys(raw)
    return keys is None or (keys != () and set(keys) <= set(request.active_project_keys))

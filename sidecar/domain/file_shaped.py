"""The file-shaped contract as types (U§2, U§5, U§12): what a legacy memory manager takes and gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from sidecar.domain.authority import ConversationRecall
from sidecar.domain.corpus import OriginClass
from sidecar.domain.memory import Source
from sidecar.domain.provider import Purpose
from sidecar.domain.sessions import TranscriptAuthoriser

SessionKind = Literal["interactive", "cron", "heartbeat", "subagent", "unknown"]


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where a text comes from; `observed_at` in milliseconds since 1970."""

    origin_class: OriginClass
    session_kind: SessionKind = "unknown"
    observed_at: int = 0


class FileHit(msgspec.Struct, frozen=True, kw_only=True):
    """A raw hit of a manager (`MemorySearchResult`, U§2). `project_key` holds keys joined with `;`."""

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: Source
    vector_score: float | None = None
    text_score: float | None = None
    importance: int | None = None
    triggers: str | None = None
    project_key: str | None = None
    citation: str | None = None
    provenance: Provenance | None = None


class FileHits(msgspec.Struct, frozen=True, kw_only=True):
    """What a manager's search found, in its order. `stale` says why something may be missing.

    `notices` say what was done to the query: nothing is missing for that.
    """

    hits: tuple[FileHit, ...]
    stale: str | None = None
    notices: tuple[str, ...] = ()


class FileSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a manager's search (U§5).

    Without `strict`, hits that match words survive `min_score` (U§11). `sources` None: what the manager
    searches unless told otherwise. `transcripts` is whose view of them the search is for; None: nobody's, so
    none are searched.
    """

    max_results: int = 6
    min_score: float | None = None
    strict: bool = False
    session_key: str | None = None
    lexical_only: bool = False
    active_project_keys: tuple[str, ...] | None = None
    sources: tuple[Source, ...] | None = None
    transcripts: TranscriptAuthoriser | None = None


class FileRead(msgspec.Struct, frozen=True, kw_only=True):
    """A read by path. The bounds are floored and at least 1; absent ones are the manager's own."""

    path: str
    from_line: float | None = None
    line_count: float | None = None


class FileText(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a read (U§12). Any `status` but `not_found`, or none at all, means that it was read."""

    text: str
    path: str
    status: str | None = None
    from_line: int | None = None
    line_count: int | None = None
    truncated: bool = False
    next_from: int | None = None


class HitFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Hits on their way to a caller, and who that is (U§5, U§7).

    `trusted_agent_scope`: the caller is no session. `requester_session_key` and `conversation_recall` are a
    session's own.
    """

    agent_id: str
    hits: tuple[FileHit, ...]
    requester_session_key: str | None = None
    sandboxed: bool = False
    trusted_agent_scope: bool = False
    conversation_recall: ConversationRecall | None = None


AuthoriseHits = Callable[[HitFilter], Awaitable[Sequence[FileHit]]]
"""Gives those of the hits that the caller may see: the same objects, in their order."""


class LegacyManager(Protocol):
    """What every manager has; `search`, `read_file`, `sync` and `close` are looked for by name (U§5).

    `async search(query: str, options: FileSearch) -> FileHits`, `async read_file(request: FileRead) ->
    FileText`, `async sync(*, reason: str) -> None`, `async close() -> None`.
    """

    def status(self) -> Mapping[str, object]:
        """How the manager is, as U§13 names it."""
        ...


class Acquired(msgspec.Struct, frozen=True, kw_only=True):
    """A manager, or why there is none."""

    manager: LegacyManager | None
    error: str | None = None


class LegacyRuntime(Protocol):
    """Where managers come from. A manager acquired for `default` is shared, others are the caller's own."""

    @property
    def authorize_search_hits(self) -> AuthoriseHits | None:
        """The hook that filters hits; without one, hits of transcripts are withheld."""
        ...

    async def acquire(self, agent_id: str, purpose: Purpose) -> Acquired:
        """A manager of that agent."""
        ...

"""Transcripts of one agent in this process: real files, engines and writer, without a server."""

from __future__ import annotations

import datetime
from pathlib import Path

from sidecar.domain.memory import Found, GetRequest, Hit, ReadResult, Reference, SearchRequest
from sidecar.domain.sessions import TranscriptAuthoriser, TranscriptGrant, TranscriptIdentity
from sidecar.embedding.guarded import GuardedEmbedder
from sidecar.ranking.floor import StrictFloor
from sidecar.ranking.parameters import DEFAULT
from sidecar.runtime.sessions import SessionRuntime
from sidecar.service.legs import weighted_words
from sidecar.service.offload import Offload
from sidecar.settings.model import AgentSettings, EmbeddingSettings, SessionsSettings, WatchSettings
from sidecar.text.terms import query_terms

PROVIDER = "memory-sidecar"


class Everything:
    """A caller that sees every transcript."""

    def grant(self, transcript: TranscriptIdentity, *, reset_cutoff: int | None) -> TranscriptGrant:  # noqa: ARG002
        return TranscriptGrant(allowed=True, reason="test")


EVERYTHING = Everything()


class Only:
    """A caller that sees the transcripts of some sessions, of one perhaps only what is before a line."""

    def __init__(self, *session_ids: str, before: int | None = None) -> None:
        self.session_ids = session_ids
        self.before = before
        self.cutoffs: dict[str, int | None] = {}

    def grant(self, transcript: TranscriptIdentity, *, reset_cutoff: int | None) -> TranscriptGrant:
        self.cutoffs[transcript.path] = reset_cutoff
        allowed = transcript.session_id in self.session_ids
        return TranscriptGrant(allowed=allowed, reason="test", before_line=self.before)


class Followed:
    """A folder of transcripts and what serves it."""

    def __init__(
        self, folder: Path, runtime: SessionRuntime, offload: Offload, embedder: GuardedEmbedder | None
    ) -> None:
        self.sessions = folder / "sessions"
        self.state = folder / "state"
        self.runtime = runtime
        self._offload = offload
        self._embedder = embedder

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        archives: bool = False,
        enabled: bool = True,
        embedder: GuardedEmbedder | None = None,
    ) -> Followed:
        """Serve `folder/sessions`; `enabled` False gives what is left of a state that is no longer wanted."""
        (folder / "sessions").mkdir(exist_ok=True)
        offload = Offload(2)
        settings = AgentSettings(
            id="main",
            workspace=folder,
            sessions=SessionsSettings(
                directory=folder / "sessions", enabled=enabled, include_reset_archives=archives
            ),
        )
        (folder / "state").mkdir(exist_ok=True)
        runtime = await SessionRuntime.open(
            settings,
            provider_id=PROVIDER,
            directory=folder / "state",
            watch=WatchSettings(),
            embeddings=EmbeddingSettings(provider="none" if embedder is None else "local"),
            embedder=embedder,
            offload=offload,
        )
        assert (runtime is not None) == enabled
        return cls(folder, runtime, offload, embedder)  # type: ignore[arg-type]

    async def close(self) -> None:
        """Release everything."""
        await self.runtime.close()
        self._offload.close()

    async def find(
        self, query: str, who: TranscriptAuthoriser = EVERYTHING, *, most: int = 50, least: float = 0.0
    ) -> tuple[Hit, ...]:
        """The hits of a query, and nothing done about what was seen to be out of date."""
        return (await self.search(query, who, most=most, least=least))[0]

    async def search(
        self, query: str, who: TranscriptAuthoriser = EVERYTHING, *, most: int = 50, least: float = 0.0
    ) -> tuple[tuple[Hit, ...], list[str]]:
        """Hits, and what a caller is told of text that changed; it is looked at again."""
        search = self.runtime.search
        visible = search.visible(who)
        terms = search.weigh(visible, query_terms(query))
        vector = None
        if self._embedder is not None:
            answer = await self._embedder.embed_query(query, weighted_words(query, terms))
            vector = answer.matrix[0]
        descent = search.descend(
            visible,
            terms,
            vector,
            SearchRequest(query=query, max_results=most),
            StrictFloor(least),
            today=datetime.date(2026, 6, 1),
            parameters=DEFAULT,
        )
        return descent.hits, search.noticed(descent.dropped, moved=search.moved())

    def get(
        self,
        name: str,
        fragment: str | None = None,
        who: TranscriptAuthoriser | None = EVERYTHING,
        **more: object,
    ) -> ReadResult:
        """A read of `sessions/main/<name>`."""
        revision = more.pop("revision", None)
        reference = Reference(
            provider_id=PROVIDER,
            id=f"sessions/main/{name}",
            fragment=fragment,
            revision=revision if isinstance(revision, str) else None,
        )
        return self.runtime.reader.get(GetRequest(reference=reference, **more), who)  # type: ignore[arg-type]

    def text(self, name: str, fragment: str | None = None, who: TranscriptAuthoriser = EVERYTHING) -> str:
        """The text of a read, empty where it is not found."""
        found = self.get(name, fragment, who)
        return found.text if isinstance(found, Found) else ""

    def documents(self) -> dict[str, int]:
        """The chunks that are indexed, with their numbers."""
        view = self.runtime.view()
        return {entry.path: number for number, entry in view.documents.items()}


def shown(hits: tuple[Hit, ...]) -> list[tuple[str, int, int, float, str]]:
    """Hits as values."""
    return [(hit.path, hit.lines.start, hit.lines.end, round(hit.score, 6), hit.excerpt) for hit in hits]

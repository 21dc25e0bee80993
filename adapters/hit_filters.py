"""The two filters over raw transcript hits: the host's own (U§7) and the table of who may see what (§5.4)."""

from __future__ import annotations

from collections.abc import Callable

from sidecar.domain.authority import Authority
from sidecar.domain.file_shaped import FileHit, HitFilter, SessionKind
from sidecar.domain.session_rows import SessionRows
from sidecar.domain.sessions import TranscriptGrant, TranscriptIdentity
from sidecar.policy.session_keys import kind_of
from sidecar.policy.transcripts import Requester, TranscriptRules, authorise_hits, authoriser

Identify = Callable[[str], TranscriptIdentity | None]
"""Whose transcript a hit's path names; None for a path that names none."""


ResetCutoff = Callable[[str], int | None]
"""The line of the last reset of the transcript at a path, if it is known and there was one."""


def unknown_kind(_path: str) -> SessionKind:
    """The kind of session of a transcript where no rows say whose it is."""
    return "unknown"


class HitFilters:
    """Both filters of one agent, over the session rows as they are at each call."""

    def __init__(
        self,
        *,
        agent_id: str,
        rules: TranscriptRules,
        rows: Callable[[], SessionRows],
        identify: Identify,
        reset_cutoff: ResetCutoff | None = None,
    ) -> None:
        self._agent_id = agent_id
        self._rules = rules
        self._rows = rows
        self._identify = identify
        self._reset_cutoff = reset_cutoff or _unknown_reset

    async def authorise(self, asked: HitFilter) -> list[FileHit]:
        """The hits that a requester may see by session visibility, without an audience (`manager.authorize`).

        Where the last reset of a transcript is not known, a recall pass sees nothing of its own.
        """
        grants = authorise_hits(
            asked.hits,
            agent_id=self._agent_id,
            requester=Requester(
                session_key=asked.requester_session_key,
                sandboxed=asked.sandboxed,
                trusted_agent_scope=asked.trusted_agent_scope,
                recall=asked.conversation_recall,
            ),
            rows=self._rows(),
            rules=self._rules,
            identify=self._identify,
            reset_cutoff=lambda transcript: self._reset_cutoff(transcript.path),
        )
        return [hit for hit, grant in zip(asked.hits, grants, strict=True) if grant.allowed]

    def kind(self, path: str) -> SessionKind:
        """What sort of session a transcript is of; unknown without a row, or where its rows differ."""
        transcript = self._identify(path)
        if transcript is None:
            return "unknown"
        kinds = {kind_of(row.session_key) for row in self._rows().once_with_id(transcript.session_id)}
        return kinds.pop() if len(kinds) == 1 else "unknown"

    def sees(self, authority: Authority, hit: FileHit) -> bool:
        """Whether an authority, with its audience, may see a transcript hit."""
        view = authoriser(authority, self._agent_id, rows=self._rows(), rules=self._rules)
        transcript = self._identify(hit.path)
        if view is None or transcript is None:
            return False
        return _covers(view.grant(transcript, reset_cutoff=self._reset_cutoff(hit.path)), hit)


def _unknown_reset(_path: str) -> int | None:
    return None


def _covers(grant: TranscriptGrant, hit: FileHit) -> bool:
    return grant.allowed and (grant.before_line is None or hit.end_line < grant.before_line)

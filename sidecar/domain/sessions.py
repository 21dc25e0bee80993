"""Session rows and transcripts as policy sees them (U§6, U§7, spec §4.2, §5.5)."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

Archived = Literal["reset", "deleted"]


class TranscriptIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Whose transcript a file is, read off its path alone. `agent_id` is None where no owner can be named."""

    path: str
    session_id: str
    agent_id: str | None = None
    archived: Archived | None = None


class TranscriptGrant(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict on one transcript; `reason` names the rule. `before_line`: only lines that end before it."""

    allowed: bool
    reason: str
    before_line: int | None = None


class TranscriptAuthoriser(Protocol):
    """One caller's view of the transcripts of one agent: visibility as a filter inside the search."""

    def grant(self, transcript: TranscriptIdentity, *, reset_cutoff: int | None) -> TranscriptGrant:
        """Whether the caller may see a transcript. `reset_cutoff` is the line of its last reset, if any."""
        ...

"""Session rows and transcripts as policy sees them (U§6, U§7, spec §4.2, §5.5)."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from sidecar.domain.authority import Audience, Bearer
from sidecar.domain.errors import AccessDenied

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


NOT_MINTED = "memory provider requires a host-minted memory audience"


class AudienceBinding(Protocol):
    """An audience in use: bound to one session and one lease, and asked again around every awaited step."""

    @property
    def audience(self) -> Audience:
        """What the handle stands for; the fields that a caller sends beside it are never looked at."""
        ...

    def assert_current(self) -> None:
        """Raise `AccessDenied` with U§6's sentence once the audience no longer holds."""
        ...

    async def settle(self) -> None:
        """Wait, within a bound, for session rows that are being written (U§6)."""
        ...


class Audiences(Protocol):
    """The audiences that this process minted, by their handles (spec §4.2)."""

    def bind(
        self,
        handle: str,
        *,
        agent_id: str,
        session_key: str,
        session_id: str | None,
        lease: str,
        bearer: Bearer,
    ) -> AudienceBinding:
        """The audience behind a handle of this token, for one session of `agent_id` and one lease.

        Raises `AccessDenied`: `NOT_MINTED` for a handle that the token did not make, else U§6's words.
        """
        ...

    def released(self, lease: str, *, opened: bool = True) -> None:
        """A lease has ended, and with it what was bound to it. Called once a lease, also without audience.

        `opened` False: it never was one, and what was bound to it may be used again.
        """
        ...


class NoAudiences:
    """A process that mints no audience, so every handle is a forgery."""

    def bind(
        self,
        handle: str,  # noqa: ARG002
        *,
        agent_id: str,  # noqa: ARG002
        session_key: str,  # noqa: ARG002
        session_id: str | None,  # noqa: ARG002
        lease: str,  # noqa: ARG002
        bearer: Bearer,  # noqa: ARG002
    ) -> AudienceBinding:
        """Refuse: there is nothing that the handle could stand for."""
        raise AccessDenied(NOT_MINTED)

    def released(self, lease: str, *, opened: bool = True) -> None:
        """Nothing was bound."""

"""Which transcripts a caller may see while no session is reported: operators the agent's (spec §5.4)."""

from __future__ import annotations

from sidecar.domain.authority import Authority, Operator
from sidecar.domain.sessions import TranscriptAuthoriser, TranscriptGrant, TranscriptIdentity
from sidecar.policy.access import READ_SCOPE, has_scope


class EveryTranscript:
    """Every transcript of one agent, but for what was deleted and what another agent owns."""

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id

    def grant(self, transcript: TranscriptIdentity, *, reset_cutoff: int | None) -> TranscriptGrant:  # noqa: ARG002
        """Allowed for the agent's own."""
        if transcript.agent_id != self._agent_id:
            return TranscriptGrant(allowed=False, reason="another-agent")
        if transcript.archived == "deleted":
            return TranscriptGrant(allowed=False, reason="deleted")
        return TranscriptGrant(allowed=True, reason="operator")


def without_rows(authority: Authority, agent_id: str) -> TranscriptAuthoriser | None:
    """The view of an authority without any session rows; None withholds every transcript."""
    match authority:
        case Operator(scopes=scopes) if has_scope(scopes, READ_SCOPE):
            return EveryTranscript(agent_id)
    return None

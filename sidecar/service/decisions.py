"""The policy asked for one agent, and every answer recorded (spec §3, §5.4)."""

from __future__ import annotations

from collections.abc import Callable

from sidecar.domain.authority import CallerContext
from sidecar.domain.errors import AudienceRefused
from sidecar.domain.session_rows import NO_ROWS, SessionRows
from sidecar.policy.access import (
    FULL_HEALTH,
    STATUS_ONLY,
    Deny,
    Operation,
    Partition,
    SandboxedAccess,
    Verdict,
    decide,
)
from sidecar.policy.legacy import read_through_legacy
from sidecar.policy.transcripts import recall_refused
from sidecar.service.audit import Audit, authority_kind
from sidecar.settings.model import AgentSettings


def no_rows() -> SessionRows:
    """The session rows of an agent of which no host has reported any."""
    return NO_ROWS


class Decisions:
    """Who may do what with one agent's memory.

    `rows` are the agent's session rows of now. `host_trusted`: notes go to whoever the host opened for, which
    is the rule of the provider `legacy`.
    """

    def __init__(
        self,
        *,
        agent_id: str,
        sandboxed_access: SandboxedAccess,
        audit: Audit,
        rows: Callable[[], SessionRows] = no_rows,
        host_trusted: bool = False,
    ) -> None:
        self._agent_id = agent_id
        self._sandboxed_access = sandboxed_access
        self._audit = audit
        self._rows = rows
        self._host_trusted = host_trusted

    @classmethod
    def of(
        cls, settings: AgentSettings, audit: Audit, rows: Callable[[], SessionRows] = no_rows
    ) -> Decisions:
        """Those of an agent as it is configured."""
        return cls(
            agent_id=settings.id,
            sandboxed_access=settings.sandboxed_access,
            audit=audit,
            rows=rows,
            host_trusted=settings.provider == "legacy",
        )

    def denied(
        self,
        operation: Operation,
        context: CallerContext,
        *,
        partition: Partition = "memory",
        method: str | None = None,
    ) -> str | None:
        """Why this caller may not, or None when it may. `method` is what the record calls it."""
        named = method or (operation if partition == "memory" else f"{operation} {partition}")
        verdict = self._recorded(self._decide(operation, context, partition), context, named)
        return verdict.reason if isinstance(verdict, Deny) else None

    def full_health(self, context: CallerContext) -> bool:
        """Whether health may carry counts and names for this caller: not under an audience that lapsed."""
        verdict = self._decide("health", context, "memory")
        try:
            context.assert_current()
        except AudienceRefused:
            verdict = STATUS_ONLY
        return self._recorded(verdict, context, "health") == FULL_HEALTH

    def _decide(self, operation: Operation, context: CallerContext, partition: Partition) -> Verdict:
        authority = context.authority
        if self._host_trusted and partition == "memory" and operation != "health":
            return read_through_legacy(authority)
        verdict = decide(
            operation, partition, authority, self._agent_id, sandboxed_access=self._sandboxed_access
        )
        if partition == "memory" or isinstance(verdict, Deny):
            return verdict
        return recall_refused(authority, self._agent_id, self._rows()) or verdict

    def _recorded(self, verdict: Verdict, context: CallerContext, method: str) -> Verdict:
        self._audit.decided(
            verdict,
            token_name=context.token_name,
            authority=authority_kind(context.authority),
            agent=self._agent_id,
            method=method,
        )
        return verdict

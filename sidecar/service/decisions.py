"""The policy asked for one agent, and every answer recorded (spec §3, §5.4)."""

from __future__ import annotations

from sidecar.domain.authority import CallerContext
from sidecar.policy.access import (
    FULL_HEALTH,
    Deny,
    Operation,
    Partition,
    SandboxedAccess,
    Verdict,
    decide,
)
from sidecar.service.audit import Audit, authority_kind


class Decisions:
    """Who may do what with one agent's memory."""

    def __init__(self, *, agent_id: str, sandboxed_access: SandboxedAccess, audit: Audit) -> None:
        self._agent_id = agent_id
        self._sandboxed_access = sandboxed_access
        self._audit = audit

    def denied(
        self, operation: Operation, context: CallerContext, *, partition: Partition = "memory"
    ) -> str | None:
        """Why this caller may not, or None when it may."""
        verdict = self._decide(operation, context, partition)
        return verdict.reason if isinstance(verdict, Deny) else None

    def full_health(self, context: CallerContext) -> bool:
        """Whether health may carry counts and names for this caller."""
        return self._decide("health", context, "memory") == FULL_HEALTH

    def _decide(self, operation: Operation, context: CallerContext, partition: Partition) -> Verdict:
        verdict = decide(
            operation,
            partition,
            context.authority,
            self._agent_id,
            sandboxed_access=self._sandboxed_access,
        )
        self._audit.decided(
            verdict,
            token_name=context.token_name,
            authority=authority_kind(context.authority),
            agent=self._agent_id,
            method=operation if partition == "memory" else f"{operation} {partition}",
        )
        return verdict

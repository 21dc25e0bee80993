"""What was decided, for whom and why (spec §3): one log event a decision, recent ones and counts in memory.

It never holds query or note text, session keys or secrets: reasons are the fixed sentences of the policy.
"""

from __future__ import annotations

import datetime
import logging
from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from sidecar.domain.authority import Authority, Conversation, HostOperation, Operator, OwnerPrivate
from sidecar.policy.access import Allow, Verdict

log = logging.getLogger(__name__)

MOST_KEPT = 1000
MOST_REASONS = 200
MOST_LOOKS = 32
HEALTH = "health"
OTHER_REASONS = "other"
NOBODY = "nobody"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One verdict. `token_name` and `agent` are empty where the door refused before either was known."""

    at: datetime.datetime
    token_name: str
    authority: str
    agent: str
    method: str
    verdict: Literal["allow", "deny"]
    reason: str


def authority_kind(authority: Authority) -> str:
    """What kind of caller this is, with the audience that a session has."""
    if isinstance(authority, Operator):
        return "operator"
    if isinstance(authority, HostOperation):
        return "host"
    match authority.audience:
        case OwnerPrivate():
            kind = "session owner-private"
        case Conversation():
            kind = "session conversation"
        case None:
            kind = "session"
    return f"{kind} sandboxed" if authority.sandboxed else kind


class Audit:
    """Keeps the last decisions and counts refusals by reason. Everything is bounded."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        most: int = MOST_KEPT,
    ) -> None:
        self._now = now
        self._recent: deque[Decision] = deque(maxlen=most)
        self._denied: dict[str, int] = {}
        self._allowed = 0

    def decided(self, verdict: Verdict, *, token_name: str, authority: str, agent: str, method: str) -> None:
        """Record one verdict of the policy."""
        allowed = isinstance(verdict, Allow)
        decision = Decision(
            at=self._now(),
            token_name=token_name,
            authority=authority,
            agent=agent,
            method=method,
            verdict="allow" if allowed else "deny",
            reason=verdict.rule if isinstance(verdict, Allow) else verdict.reason,
        )
        self._keep(decision)
        self._count(decision)

    def refused_at_door(self, reason: str) -> None:
        """Record somebody who was not let in. Strangers cannot push recent decisions out of sight."""
        self._count(
            Decision(
                at=self._now(),
                token_name="",
                authority=NOBODY,
                agent="",
                method="door",
                verdict="deny",
                reason=reason,
            )
        )

    @property
    def allowed(self) -> int:
        """How many decisions admitted."""
        return self._allowed

    def denials(self) -> dict[str, int]:
        """How many decisions refused, by reason."""
        return dict(self._denied)

    def recent(self, most: int = MOST_KEPT) -> list[Decision]:
        """The last decisions, newest first."""
        return list(reversed(self._recent))[:most]

    def _keep(self, decision: Decision) -> None:
        """Add a decision. Whoever watches asks for health every other second: while nothing else is decided,
        equal looks at it are one entry, the latest, so that they push nothing out of sight either.
        """
        if decision.method == HEALTH:
            for back in range(1, min(MOST_LOOKS, len(self._recent)) + 1):
                earlier = self._recent[-back]
                if earlier.method != HEALTH:
                    break
                if msgspec.structs.replace(earlier, at=decision.at) == decision:
                    del self._recent[-back]
                    break
        self._recent.append(decision)

    def _count(self, decision: Decision) -> None:
        log.info(
            "access decided",
            extra={
                "token_name": decision.token_name,
                "authority": decision.authority,
                "agent": decision.agent,
                "method": decision.method,
                "verdict": decision.verdict,
                "reason": decision.reason,
            },
        )
        if decision.verdict == "allow":
            self._allowed += 1
            return
        known = decision.reason in self._denied or len(self._denied) < MOST_REASONS
        reason = decision.reason if known else OTHER_REASONS
        self._denied[reason] = self._denied.get(reason, 0) + 1

"""Who may read notes through the file-shaped contract (spec §5.4): the host decided when it opened it."""

from __future__ import annotations

from sidecar.domain.authority import Authority, Operator
from sidecar.policy.access import READ_SCOPE, Allow, Deny, Verdict, has_scope

HOST_TRUSTED = "legacy-host-trusted"


def read_through_legacy(authority: Authority) -> Verdict:
    """Whoever the host opened for may read the notes; an operator still needs its scope."""
    match authority:
        case Operator(scopes=scopes):
            return (
                Allow("operator") if has_scope(scopes, READ_SCOPE) else Deny(f"missing scope: {READ_SCOPE}")
            )
        case _:
            return Allow(HOST_TRUSTED)

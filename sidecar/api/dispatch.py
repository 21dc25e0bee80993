"""The method table: method, role, scope, then the handler that decodes params and resolves the agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import msgspec

from sidecar.domain.authority import Bearer, CallerContext, Principal
from sidecar.domain.errors import AudienceRefused, Forbidden, InvalidRequest, SidecarError
from sidecar.policy.access import READ_SCOPE, Deny, has_scope
from sidecar.service.audit import Audit
from sidecar.wire.rules import Params

Payload = dict[str, object]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request as a handler sees it: `bearer` is its token, `context` what an operator may do with it."""

    params: Params
    bearer: Bearer
    context: CallerContext

    @property
    def principal(self) -> Principal:
        """Whom the token stands for."""
        return self.bearer.principal


class Method(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the table. `role` None: any role may call it."""

    handler: Callable[[Call], Awaitable[Payload]]
    scope: str = READ_SCOPE
    role: Literal["operator", "host"] | None = None


class Dispatcher:
    """Finds the method and checks role and scope before any parameter is looked at (spec §3, U§1).

    `instance` names this process in every answer of a host method, good or bad: rows and audiences live in
    memory only, so when it changes the host reports them again (spec §4.2). Refusals are recorded in `audit`,
    or in one that nobody reads.
    """

    def __init__(
        self, methods: Mapping[str, Method], *, instance: str = "", audit: Audit | None = None
    ) -> None:
        self._methods = dict(methods)
        self._instance = instance
        self._audit = audit or Audit()

    @property
    def names(self) -> tuple[str, ...]:
        """The methods that exist."""
        return tuple(self._methods)

    async def call(self, method: str, call: Call) -> Payload:
        """The payload of a call; raises from the error tree."""
        entry = self._methods.get(method)
        if entry is None:
            raise InvalidRequest(f"unknown method: {method[:100]}")
        if not _has_role(entry, call.principal):
            raise self._refused(method, call, Forbidden(f"unauthorized role: {call.principal.role}"))
        if not has_scope(call.principal.scopes, entry.scope):
            raise self._refused(method, call, missing_scope(entry.scope))
        if entry.role != "host":
            return await entry.handler(call)
        try:
            return {**await entry.handler(call), "instance": self._instance}
        except SidecarError as error:
            if isinstance(error, AudienceRefused):
                # Some sentences end with a session key, which is no reason.
                self._record(method, call, error.message.partition(": ")[0])
            error.details["instance"] = self._instance
            raise

    def open_to(self, principal: Principal) -> list[str]:
        """The methods that a principal may call, in order of name."""
        return sorted(
            name
            for name, entry in self._methods.items()
            if _has_role(entry, principal) and has_scope(principal.scopes, entry.scope)
        )

    def _refused(self, method: str, call: Call, error: Forbidden) -> Forbidden:
        self._record(method, call, error.message)
        return error

    def _record(self, method: str, call: Call, reason: str) -> None:
        principal = call.principal
        self._audit.decided(
            Deny(reason), token_name=principal.name, authority=principal.role, agent="", method=method
        )


def missing_scope(scope: str) -> Forbidden:
    """What a caller without a scope is told (U§1)."""
    return Forbidden(
        f"missing scope: {scope}",
        details={"code": "MISSING_SCOPE", "missingScope": scope, "requiredScopes": [scope]},
    )


def _has_role(entry: Method, principal: Principal) -> bool:
    return entry.role is None or entry.role == principal.role

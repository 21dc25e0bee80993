"""The method table: method, role, scope, then the handler that decodes params and resolves the agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal

import msgspec

from sidecar.api.counters import UNKNOWN_METHOD, Counters
from sidecar.domain.authority import Bearer, CallerContext, Principal
from sidecar.domain.errors import Forbidden, InvalidRequest, Overloaded, ProviderFailed, SidecarError
from sidecar.policy.access import READ_SCOPE, Deny, has_scope
from sidecar.service.audit import Audit
from sidecar.wire.rules import Params

log = logging.getLogger(__name__)

Payload = dict[str, object]

MOST_IN_WORK = 128
BUSY = "The server is busy. Please try again in a moment."
BUSY_RETRY_MS = 1000
STOPPING = "The service is stopping and could not finish this. Please ask again once it is back."
STOPPING_RETRY_MS = 2000


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

    At most `most_in_work` calls run at a time, over all connections; one more is told to come back.
    `instance` names this process in every answer of a host method, good or bad: rows and audiences live in
    memory only, so when it changes the host reports them again (spec §4.2). Refusals are recorded in `audit`,
    or in one that nobody reads.
    """

    def __init__(
        self,
        methods: Mapping[str, Method],
        *,
        instance: str = "",
        audit: Audit | None = None,
        counters: Counters | None = None,
        most_in_work: int = MOST_IN_WORK,
    ) -> None:
        self._methods = dict(methods)
        self._instance = instance
        self._audit = audit or Audit()
        self._counters = counters or Counters()
        self._most = most_in_work
        self._limits: set[asyncio.Timeout] = set()
        self._until: float | None = None

    @property
    def in_work(self) -> int:
        """How many calls run."""
        return len(self._limits)

    @property
    def names(self) -> tuple[str, ...]:
        """The methods that exist."""
        return tuple(self._methods)

    async def call(self, method: str, call: Call) -> Payload:
        """The payload of a call; raises from the error tree."""
        with self._counters.call(method if method in self._methods else UNKNOWN_METHOD):
            try:
                entry = self._admitted(method, call)
                payload = await self._handled(entry, call)
            except SidecarError as error:
                if error.is_refusal:
                    self._record(method, call, error)
                elif error.details_code == ProviderFailed.details_code:
                    # So that `details.requestId` leads to a line. No message: it may quote what was asked.
                    cause = type(error.__cause__ or error).__name__
                    log.warning("call failed", extra={"method": method, "error": cause})
                raise
            return payload if entry.role != "host" else {**payload, "instance": self._instance}

    def wind_down(self, seconds: float) -> None:
        """The process is about to end: a call that is not finished by then is told to come back."""
        self._until = asyncio.get_running_loop().time() + seconds
        for limit in self._limits:
            limit.reschedule(self._until)

    def open_to(self, principal: Principal) -> list[str]:
        """The methods that a principal may call, in order of name."""
        return sorted(
            name
            for name, entry in self._methods.items()
            if _has_role(entry, principal) and has_scope(principal.scopes, entry.scope)
        )

    async def _handled(self, entry: Method, call: Call) -> Payload:
        try:
            return await self._run(entry, call)
        except SidecarError as error:
            if entry.role == "host":
                error.details["instance"] = self._instance
            raise

    async def _run(self, entry: Method, call: Call) -> Payload:
        if self.in_work >= self._most:
            raise Overloaded(BUSY, retry_after_ms=BUSY_RETRY_MS)
        limit = asyncio.timeout_at(self._until)
        try:
            async with limit:
                self._limits.add(limit)
                try:
                    return await entry.handler(call)
                finally:
                    self._limits.discard(limit)
        except TimeoutError:
            if limit.expired():
                raise Overloaded(STOPPING, retry_after_ms=STOPPING_RETRY_MS) from None
            raise

    def _admitted(self, method: str, call: Call) -> Method:
        entry = self._methods.get(method)
        if entry is None:
            raise InvalidRequest(f"unknown method: {method[:100]}")
        if not _has_role(entry, call.principal):
            raise Forbidden(f"unauthorized role: {call.principal.role}")
        if not has_scope(call.principal.scopes, entry.scope):
            raise missing_scope(entry.scope)
        return entry

    def _record(self, method: str, call: Call, error: SidecarError) -> None:
        # A sentence about an audience may end with a session key, which is no reason.
        reason = error.message if isinstance(error, Forbidden) else error.message.partition(": ")[0]
        self._audit.decided(
            Deny(reason),
            token_name=call.principal.name,
            authority=error.authority or call.principal.role,
            agent=error.agent_id,
            method=method,
        )


def missing_scope(scope: str) -> Forbidden:
    """What a caller without a scope is told (U§1)."""
    return Forbidden(
        f"missing scope: {scope}",
        details={"code": "MISSING_SCOPE", "missingScope": scope, "requiredScopes": [scope]},
    )


def _has_role(entry: Method, principal: Principal) -> bool:
    return entry.role is None or entry.role == principal.role

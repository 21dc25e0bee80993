"""Trust at the door: Host and Origin, then the token, before route and body are looked at (spec §3)."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from sidecar.api.assets import PAGE_PATHS
from sidecar.api.counters import Counters
from sidecar.domain.authority import Bearer, Principal
from sidecar.domain.errors import Forbidden, Unauthenticated
from sidecar.policy.access import Deny
from sidecar.service.audit import Audit

MatchToken = Callable[[str], Principal | None]
BEARER = web.RequestKey("bearer", Bearer)
PRINCIPAL = web.RequestKey("principal", Principal)

HEALTH_PATH = "/healthz"
SOCKET_PATH = "/ws"
READS = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})


class Door:
    """Decides who comes in. Refusals are raised, recorded and counted, without token or address."""

    def __init__(
        self,
        *,
        match: MatchToken,
        allowed_hosts: Collection[str],
        allowed_origins: Collection[str],
        audit: Audit | None = None,
        counters: Counters | None = None,
    ) -> None:
        """Refusals are recorded in `audit` and `counters`, or in some that nobody reads."""
        self.counters = counters or Counters()
        self._match = match
        self._audit = audit or Audit()
        self._hosts = frozenset(host.lower() for host in allowed_hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in allowed_origins)

    def admit(self, request: web.Request) -> None:
        """Raise `Forbidden` or `Unauthenticated`, or leave bearer and principal on the request.

        The upgrade of `/ws` may come without a token; a token that it brings has to be right.
        """
        self._check_host(request)
        self._check_origin(request)
        if _is_open(request) or (_is_upgrade(request) and hdrs.AUTHORIZATION not in request.headers):
            return
        header = request.headers.get(hdrs.AUTHORIZATION, "")
        scheme, _, presented = header.partition(" ")
        presented = presented.strip()
        if scheme.lower() != "bearer" or not presented:
            self.refused("token-missing")
            raise Unauthenticated(
                "a bearer token is required in the Authorization header", details_code="AUTH_TOKEN_MISSING"
            )
        request[BEARER] = bearer = self.bearer(presented)
        request[PRINCIPAL] = bearer.principal

    def bearer(self, presented: str) -> Bearer:
        """Whom a presented secret stands for; raises `Unauthenticated`."""
        principal = self._match(presented)
        if principal is None:
            self.refused("token-mismatch")
            raise Unauthenticated("the token does not match", details_code="AUTH_TOKEN_MISMATCH")
        digest = hashlib.sha256(presented.encode("utf-8", "surrogatepass")).hexdigest()
        return Bearer(
            principal=principal,
            key=f"{principal.name} {digest}",
            holds=lambda: self._match(presented) == principal,
        )

    def refused(self, reason: str) -> None:
        """Record somebody who was not let in: one line in the log, which the audit writes, and one count."""
        self._audit.refused_at_door(reason)
        self.counters.refusals[reason] += 1

    def denied(self, principal: Principal, what: str, reason: str) -> None:
        """Record that somebody who was let in may not have what a route shows."""
        self._audit.decided(
            Deny(reason), token_name=principal.name, authority=principal.role, agent="", method=what
        )

    def _check_host(self, request: web.Request) -> None:
        if request.path == HEALTH_PATH:
            return
        named = request.headers.getall(hdrs.HOST, [])
        if len(named) == 1 and all(map(self._is_accepted, (*named, *_authority(request.raw_path)))):
            return
        self.refused("host")
        raise Forbidden("this Host is not accepted")

    def _is_accepted(self, host: str) -> bool:
        host = host.lower()
        return is_loopback_host(host) or host in self._hosts or host_name(host) in self._hosts

    def _check_origin(self, request: web.Request) -> None:
        for origin in request.headers.getall(hdrs.ORIGIN, []):
            own = f"{request.scheme}://{request.headers.get(hdrs.HOST, '')}"
            if origin.lower() not in self._origins and origin.lower() != own.lower():
                self.refused("origin")
                raise Forbidden("this Origin is not accepted")


def _is_open(request: web.Request) -> bool:
    """Whether anybody may ask: the liveness of the process, and the page's own files, which hold no data."""
    return request.path == HEALTH_PATH or (request.method in READS and request.path in PAGE_PATHS)


def _authority(target: str) -> tuple[str, ...]:
    """The host that a request target names itself, which then is the one that is meant (RFC 9112, 3.2.2)."""
    if target.startswith("/"):
        return ()
    try:
        return (urlsplit(target).netloc or target,)
    except ValueError:
        return (target,)


def _is_upgrade(request: web.Request) -> bool:
    return request.path == SOCKET_PATH and request.method == hdrs.METH_GET


def host_name(host: str) -> str:
    """The name or address of a Host header without its port; empty when it is not one."""
    try:
        parts = urlsplit(f"//{host}")
        valid = parts.port is None or True
    except ValueError:
        return ""
    if not valid or parts.username is not None or parts.path or parts.query or parts.fragment:
        return ""
    return (parts.hostname or "").lower()


def is_loopback_host(host: str) -> bool:
    """Whether a Host header names this machine's loopback."""
    name = host_name(host)
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False

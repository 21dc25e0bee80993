"""HTTP to a running service: a method's payload, or the error of our tree that it answered (spec §4)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import quote

import aiohttp
import msgspec

from sidecar.domain.errors import (
    AccessDenied,
    CapabilityUnsupported,
    CursorExpired,
    CursorInvalid,
    Forbidden,
    ForeignReference,
    InvalidRequest,
    LeaseClosed,
    Overloaded,
    ProviderFailed,
    SidecarError,
    StateError,
    Unauthenticated,
    Unavailable,
)
from sidecar.settings.state import SocketAddress

CALL_SECONDS = 60.0
CONNECT_SECONDS = 5.0
# Health answers in milliseconds whatever else is going on (spec §4); this allows for a machine that swaps.
ALIVE_SECONDS = 5.0
# Over the socket the name only has to be one that every service accepts.
SOCKET_BASE = "http://localhost"

_BY_DETAIL: Mapping[str, Callable[..., SidecarError]] = {
    "CAPABILITY_UNSUPPORTED": CapabilityUnsupported,
    "ACCESS_DENIED": AccessDenied,
    "CURSOR_INVALID": CursorInvalid,
    "CURSOR_EXPIRED": CursorExpired,
    "PROVIDER_FAILED": ProviderFailed,
    "OVERLOADED": Overloaded,
}
_BY_CODE: Mapping[str, Callable[..., SidecarError]] = {
    "INVALID_REQUEST": InvalidRequest,
    "FORBIDDEN": Forbidden,
}


class ServiceUnreachable(Unavailable):
    """No answer, or one that is not ours: the service ended, or something else listens there."""


class Readiness(msgspec.Struct, frozen=True):
    """Whether every agent of the token is indexed, with the counts that the service gave."""

    ready: bool
    counts: Mapping[str, object]


class SidecarClient:
    """Calls methods of one service. Build it with `over_socket` or `over_tcp`; close it."""

    def __init__(self, *, base: str, token: str, address: SocketAddress | None = None) -> None:
        self._base = base.rstrip("/")
        self._token = token
        self._address = address
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def over_socket(cls, state_dir: Path, token: str) -> Self:
        """A client of the service that owns a state directory; raises `StateError` for an unusable path."""
        return cls(base=SOCKET_BASE, token=token, address=SocketAddress(state_dir))

    @classmethod
    def over_tcp(cls, base_url: str, token: str) -> Self:
        """A client of the service at an address such as `http://127.0.0.1:8737`."""
        return cls(base=base_url, token=token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def call(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        timeout_seconds: float | None = CALL_SECONDS,
    ) -> dict[str, object]:
        """The payload of a method.

        Raises the error that the service answered, as the class of `sidecar.domain.errors` that stands for
        its code, and `ServiceUnreachable` when there was no answer within `timeout_seconds` (None: for ever).
        """
        body = msgspec.json.encode(params or {})
        _, answer = await self._request("POST", f"/rpc/{quote(method, safe='')}", body, timeout_seconds)
        payload = answer.get("payload")
        if answer.get("ok") is True and isinstance(payload, dict):
            return payload
        raise _error(answer.get("error", answer))

    async def require_alive(self) -> None:
        """Raise `ServiceUnreachable` within seconds when the service is stopped or stuck."""
        await self._request("GET", "/healthz", None, ALIVE_SECONDS)

    async def ready(self) -> Readiness:
        """Whether the first scan is done; raises like `call`."""
        status, answer = await self._request("GET", "/readyz", None, CALL_SECONDS)
        if status not in (200, 503) or "code" in answer:
            raise _error(answer.get("error", answer))
        return Readiness(status == 200, answer)

    async def close(self) -> None:
        """Release the connections; idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        if self._address is not None:
            self._address.close()

    async def _request(
        self, verb: str, path: str, body: bytes | None, timeout_seconds: float | None
    ) -> tuple[int, dict[str, object]]:
        headers = {"Authorization": f"Bearer {self._token}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=CONNECT_SECONDS)
        try:
            async with self._open_session().request(
                verb,
                f"{self._base}{path}",
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                answer = msgspec.json.decode(await response.read())
                status = response.status
        except TimeoutError as error:
            raise ServiceUnreachable("the service did not answer in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ServiceUnreachable("the service cannot be reached or broke off") from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ServiceUnreachable("what answers is not a memory-sidecar service") from error
        if not isinstance(answer, dict):
            raise ServiceUnreachable("what answers is not a memory-sidecar service")
        return status, answer

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = None
            if self._address is not None:
                connector = aiohttp.UnixConnector(path=str(self._address.path))
            # Proxy variables and .netrc are for the world outside, never for our own service.
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        return self._session


async def discover(state_dir: Path, token: Callable[[], str]) -> SidecarClient | None:
    """A client of the service that runs on this state directory, None when there is none.

    `token` gives the secret and is asked only when a service answers; what it raises comes through. Raises
    `StateError` when the directory belongs to somebody else, who could be listening for the secret.
    """
    owner = _owner(state_dir)
    if owner is None:
        return None
    address = SocketAddress(state_dir)
    try:
        _, writer = await asyncio.wait_for(asyncio.open_unix_connection(str(address.path)), CONNECT_SECONDS)
    except (OSError, TimeoutError):
        return None
    finally:
        address.close()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    if os.geteuid() not in (owner, 0):
        raise StateError(f"state directory {state_dir} belongs to another user: its service is not asked")
    return SidecarClient.over_socket(state_dir, token())


def _owner(state_dir: Path) -> int | None:
    try:
        return state_dir.stat().st_uid
    except OSError:
        return None


def _error(value: object) -> SidecarError:
    """The error of our tree that an error object stands for."""
    if not isinstance(value, dict) or not isinstance(value.get("code"), str):
        return ServiceUnreachable("what answers is not a memory-sidecar service")
    fields = cast(dict[str, Any], value)
    message = str(fields.get("message", fields["code"]))
    raw = fields.get("details")
    details: dict[str, object] = dict(raw) if isinstance(raw, dict) else {}
    wait = fields.get("retryAfterMs")
    detail = details.get("code")
    if isinstance(detail, str):
        if detail.startswith("AUTH_TOKEN_"):
            return Unauthenticated(message, details_code=detail)
        if detail == ForeignReference.details_code:
            return ForeignReference()
        if detail == LeaseClosed.details_code:
            return LeaseClosed()
    make = _BY_DETAIL.get(str(detail), _BY_CODE.get(fields["code"], Unavailable))
    return make(message, details=details, retry_after_ms=wait if isinstance(wait, int) else None)

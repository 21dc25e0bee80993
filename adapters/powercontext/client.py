"""HTTP to one PowerContext server: a decoded answer, or one declared error. Nothing else ever comes out.

An answer that is not wholly as the contract says is a failure, never an empty result. Messages name neither
the address nor the token.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import aiohttp
import msgspec
from sidecar.adapters.powercontext.options import Token
from sidecar.adapters.powercontext.shapes import ErrorAnswer

from sidecar.domain.errors import Overloaded, ProviderFailed

log = logging.getLogger(__name__)
T = TypeVar("T")

CONNECTIONS = 16
"""Calls in flight; further ones wait within their own time. The server sheds load past 64 from everybody."""

LARGEST_ANSWER = 8 * 1024 * 1024
DEFAULT_RETRY_SECONDS = 1.0
LEAST_SECONDS = 0.05
"""With less time left than this another attempt is not worth its request."""

OVERLOADED = "server_overloaded"


class Refusal(ProviderFailed):
    """The server answered with an error: its HTTP status and, where it gave one, its own code."""

    def __init__(self, status: int, error_code: str | None) -> None:
        said = f"{status} {error_code}" if error_code else f"{status}"
        reason = "refused the token" if status in (401, 403) else f"failed ({said})"
        super().__init__(f"powercontext: the server {reason}")
        self.http_status = status
        self.error_code = error_code


class Unreachable(ProviderFailed):
    """No connection, or one that broke off. `unsent`: the request surely did not arrive."""

    def __init__(self, *, unsent: bool) -> None:
        super().__init__("powercontext: the server cannot be reached or broke off")
        self.unsent = unsent


class Late(ProviderFailed):
    """No answer within the time that the call has."""

    def __init__(self) -> None:
        super().__init__("powercontext: the server did not answer in time")


class Malformed(ProviderFailed):
    """An answer that is not what the contract says."""

    def __init__(self) -> None:
        super().__init__("powercontext: the server answered something else than its contract says")


def deadline_in(seconds: float) -> float:
    """The moment on the event loop's clock that lies so far ahead."""
    return asyncio.get_running_loop().time() + seconds


def remaining(deadline: float) -> float:
    """Seconds until then; negative when it is past."""
    return deadline - asyncio.get_running_loop().time()


@asynccontextmanager
async def within(deadline: float) -> AsyncIterator[None]:
    """Everything inside ends by the deadline, with `Late` when it had to be cut off."""
    try:
        async with asyncio.timeout_at(deadline):
            yield
    except TimeoutError as error:
        raise Late from error


class Client:
    """Calls one server. Connects at first use; `close` it."""

    def __init__(self, *, endpoint: str, token: Token) -> None:
        self._endpoint = endpoint
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    async def read(
        self,
        verb: str,
        path: str,
        shape: type[T],
        *,
        deadline: float,
        body: Mapping[str, object] | None = None,
    ) -> T:
        """A call that changes nothing, so it is tried once more where the server was not reached or is full.

        Ends by `deadline`. Raises `Overloaded`, `Refusal`, `Unreachable`, `Late` or `Malformed`.
        """
        async with within(deadline):
            try:
                return await self._call(verb, path, shape, body)
            except Unreachable:
                if remaining(deadline) < LEAST_SECONDS:
                    raise
            except Overloaded as error:
                pause = (error.retry_after_ms or 0) / 1000
                if remaining(deadline) < pause + LEAST_SECONDS:
                    raise
                await asyncio.sleep(pause)
            return await self._call(verb, path, shape, body)

    async def write(
        self, verb: str, path: str, shape: type[T], *, deadline: float, body: Mapping[str, object]
    ) -> T:
        """A call that changes something: one attempt, so after a failure its outcome may be unknown."""
        async with within(deadline):
            return await self._call(verb, path, shape, body)

    async def close(self) -> None:
        """Release the connections; idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _call(self, verb: str, path: str, shape: type[T], body: Mapping[str, object] | None) -> T:
        headers = {"Accept-Encoding": "identity", **self._token.header()}
        data = None
        if body is not None:
            data = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"
        try:
            async with self._open_session().request(
                verb, f"{self._endpoint}{path}", data=data, headers=headers, allow_redirects=False
            ) as response:
                content = await _bounded(response)
                status, retry_after = response.status, response.headers.get("Retry-After")
        except aiohttp.ClientConnectorError as error:
            raise Unreachable(unsent=True) from error
        except aiohttp.ClientResponseError as error:
            raise Malformed from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(unsent=False) from error
        if status in (200, 201):
            try:
                return msgspec.json.decode(content, type=shape)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise Malformed from error
        await self._refuse(status, content, retry_after)
        raise Malformed

    async def _refuse(self, status: int, content: bytes, retry_after: str | None) -> None:
        try:
            code: str | None = msgspec.json.decode(content, type=ErrorAnswer).error.code[:64]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            code = None
        if status == 401:
            await asyncio.to_thread(self._token.reload)
        if status == 503 and code == OVERLOADED:
            raise Overloaded(
                "powercontext: the server is busy", retry_after_ms=round(_seconds(retry_after) * 1000)
            )
        raise Refusal(status, code)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS),
                timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > LARGEST_ANSWER:
            raise Malformed
    return bytes(content)


def _seconds(retry_after: str | None) -> float:
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
        return float(min(int(retry_after[:6]), 3600))
    return DEFAULT_RETRY_SECONDS

"""`GET /ws`: the same frames on one socket, many in flight, answered in any order (spec §4).

A socket is authorised by the header of its upgrade or by a first `connect`. Whatever a client sends is
answered, and only what the protocol calls for closes a socket. All bounds are in `SocketLimits`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import secrets
from collections import deque
from collections.abc import Callable
from typing import cast

import msgspec
from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

from sidecar.api.connections import keep
from sidecar.api.contexts import operator_context
from sidecar.api.dispatch import Call, Dispatcher, Payload
from sidecar.api.door import BEARER, Door
from sidecar.domain.authority import Bearer
from sidecar.domain.errors import (
    CallerRevoked,
    InvalidRequest,
    Overloaded,
    ProviderFailed,
    SidecarError,
    Unauthenticated,
)
from sidecar.domain.requests import begin_request
from sidecar.wire import frames, javascript, rules

log = logging.getLogger(__name__)

BUSY = "The server is busy. Please try again in a moment."
CLOSING = "gateway closing before request dispatch"
RETRY_MS = 1000
CONNECT, CANCEL = "connect", "rpc.cancel"


class SocketLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of sockets: bytes, seconds and counts.

    A message over `largest_frame` is answered and survived; one over `largest_message` is not even read to
    its end and closes the socket. `remembered` ids cannot be used again.
    """

    most_sockets: int = 256
    most_unproven: int = 32
    most_calls: int = 64
    connect_seconds: float = 5.0
    largest_unproven_frame: int = 4 * 1024
    largest_frame: int = 1024 * 1024
    largest_message: int = 2 * 1024 * 1024
    remembered: int = 1024
    heartbeat_seconds: float = 30.0
    drain_seconds: float = 2.8


LIMITS = SocketLimits()


class Sockets:
    """Every open socket of the process."""

    def __init__(self, *, door: Door, dispatcher: Dispatcher, limits: SocketLimits = LIMITS) -> None:
        self._door = door
        self._dispatcher = dispatcher
        self._limits = limits
        self._open: set[_Connection] = set()
        self._winding_down = False

    def __len__(self) -> int:
        return len(self._open)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Upgrade and serve one socket to its end; raises before the upgrade when there is no room."""
        bearer = request.get(BEARER)
        limits = self._limits
        socket = web.WebSocketResponse(
            timeout=2.0,
            heartbeat=limits.heartbeat_seconds,
            compress=False,
            max_msg_size=limits.largest_message,
            decode_text=False,  # invalid UTF-8 is answered by the frame decoder, not by a closed socket
        )
        if not socket.can_prepare(request).ok:
            raise InvalidRequest("this route takes a WebSocket upgrade")
        self._admit(bearer)
        connection = _Connection(
            socket,
            bearer=bearer,
            door=self._door,
            dispatcher=self._dispatcher,
            limits=limits,
            keep=lambda: keep(request),
        )
        self._open.add(connection)
        try:
            await socket.prepare(request)
            await connection.run()
        finally:
            self._open.discard(connection)
        return socket

    async def end_revoked(self) -> None:
        """Close the sockets whose token's secret no longer stands; their calls end unanswered."""
        ended = [item for item in self._open if item.bearer is not None and not item.bearer.holds()]
        await asyncio.gather(*(item.end(WSCloseCode.POLICY_VIOLATION, b"token rotated") for item in ended))

    async def wind_down(self) -> None:
        """Take no more calls; every socket closes once its calls are answered, within `drain_seconds`."""
        self._winding_down = True
        await asyncio.gather(*(item.wind_down() for item in self._open))

    def _admit(self, bearer: Bearer | None) -> None:
        if self._winding_down:
            raise Overloaded(CLOSING, retry_after_ms=RETRY_MS)
        unproven = sum(item.bearer is None for item in self._open)
        if len(self._open) >= self._limits.most_sockets or (
            bearer is None and unproven >= self._limits.most_unproven
        ):
            self._door.counters.refused("sockets")
            raise Overloaded(BUSY, retry_after_ms=RETRY_MS)


class _InFlight:
    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.cancelled = False
        self.answered = False


class _Connection:
    """One socket. `bearer` is None until `connect`."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        *,
        bearer: Bearer | None,
        door: Door,
        dispatcher: Dispatcher,
        limits: SocketLimits,
        keep: Callable[[], None],
    ) -> None:
        self._socket = socket
        self._keep = keep
        self._door = door
        self._dispatcher = dispatcher
        self._limits = limits
        self._calls: dict[str, _InFlight] = {}
        self._ids: set[bytes] = set()
        self._id_order: deque[bytes] = deque()
        self._is_up = False
        self._winding_down = False
        self.bearer = bearer
        self.id = f"ws-{secrets.token_hex(8)}"

    async def run(self) -> None:
        """Serve until either side closes; then nothing of this socket is left running."""
        self._is_up = True
        try:
            if self._winding_down or (self.bearer is None and not await self._introduced()):
                return
            while (message := await self._receive()) is not None:
                await self._take(message)
        finally:
            await self._abandon_calls()
            await self._socket.close()

    async def end(self, code: WSCloseCode, why: bytes) -> None:
        """Close the socket; `run` does the rest."""
        if self._is_up:
            await self._socket.close(code=code, message=why)

    async def wind_down(self) -> None:
        """Refuse new calls, let those in flight be answered, then close."""
        self._winding_down = True
        running = [call.task for call in self._calls.values()]
        if running:
            await asyncio.wait(running, timeout=self._limits.drain_seconds)
        await self.end(WSCloseCode.GOING_AWAY, b"closing")

    async def _receive(self) -> WSMessage | None:
        message = await self._socket.receive()
        return message if message.type in (WSMsgType.TEXT, WSMsgType.BINARY) else None

    async def _introduced(self) -> bool:
        """Whether a good `connect` came in time; frames that are none are answered before it."""
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                while (message := await self._receive()) is not None:
                    if len(message.data) > self._limits.largest_unproven_frame:
                        error = frames.BadFrame(f"over {self._limits.largest_unproven_frame} bytes")
                        await self._refuse(frames.INVALID_ID, error, WSCloseCode.MESSAGE_TOO_BIG)
                        return False
                    frame = await self._framed(message)
                    if frame is None:
                        continue
                    self._claim(frame.id)
                    try:
                        self.bearer = self._bearer_of(frame)
                    except Unauthenticated as error:
                        await self._refuse(frame.id, error, WSCloseCode.POLICY_VIOLATION)
                        return False
                    self._keep()
                    await self._send(frames.response(frame.id, self._hello(self.bearer)))
                    return True
        except TimeoutError:
            self._door.refused("connect-timeout")
            await self.end(WSCloseCode.POLICY_VIOLATION, b"no connect in time")
        return False

    async def _refuse(self, frame_id: str, error: SidecarError, code: WSCloseCode) -> None:
        await self._send(frames.failure(frame_id, error))
        await self.end(code, b"refused")

    def _bearer_of(self, frame: frames.RequestFrame) -> Bearer:
        token = javascript.text(rules.field(frame.params, "auth", "token"))
        if frame.method != CONNECT or token is None:
            self._door.refused("token-missing")
            raise Unauthenticated(
                "the first request must be connect with auth.token", details_code="AUTH_TOKEN_MISSING"
            )
        return self._door.bearer(token)

    def _hello(self, bearer: Bearer) -> Payload:
        principal = bearer.principal
        return {
            "connId": self.id,
            "role": principal.role,
            "scopes": list(principal.scopes),
            "methods": [*self._dispatcher.open_to(principal), CANCEL],
        }

    async def _framed(self, message: WSMessage) -> frames.RequestFrame | None:
        """The request frame of a message; what is none is answered here."""
        try:
            return _frame_of(message, self._limits.largest_frame)
        except frames.BadFrame as error:
            await self._send(frames.failure(error.id, error))
            return None

    async def _take(self, message: WSMessage) -> None:
        frame = await self._framed(message)
        if frame is None:
            return
        try:
            self._claim(frame.id)
            if frame.method == CONNECT:
                await self._send(frames.response(frame.id, self._connect_again(frame)))
            elif frame.method == CANCEL:
                await self._send(frames.response(frame.id, await self._cancel(frame)))
            else:
                self._start(frame)
        except SidecarError as error:
            await self._send(frames.failure(frame.id, error))

    def _claim(self, frame_id: str) -> None:
        digest = hashlib.blake2b(frame_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if frame_id in self._calls or digest in self._ids:
            raise InvalidRequest("invalid request frame: id was already used on this socket")
        self._ids.add(digest)
        self._id_order.append(digest)
        if len(self._id_order) > self._limits.remembered:
            self._ids.discard(self._id_order.popleft())

    def _connect_again(self, frame: frames.RequestFrame) -> Payload:
        """An authorised socket may ask who it is; it cannot become somebody else."""
        bearer = cast(Bearer, self.bearer)
        token = javascript.text(rules.field(frame.params, "auth", "token"))
        if token is not None and self._door.bearer(token).key != bearer.key:
            raise Unauthenticated("the token is not the socket's own", details_code="AUTH_TOKEN_MISMATCH")
        return self._hello(bearer)

    async def _cancel(self, frame: frames.RequestFrame) -> Payload:
        rules.check(rules.CANCEL, frame.params)
        await asyncio.sleep(0)  # a call that was only just sent begins, so that it can answer for itself
        call = self._calls.get(cast(str, frame.params["id"]))
        if call is None or call.answered or call.cancelled:
            return {"cancelled": False}
        call.cancelled = True
        call.task.cancel()
        return {"cancelled": True}

    def _start(self, frame: frames.RequestFrame) -> None:
        if self._winding_down:
            raise Overloaded(CLOSING, retry_after_ms=RETRY_MS)
        if len(self._calls) >= self._limits.most_calls:
            raise Overloaded(BUSY, retry_after_ms=RETRY_MS)
        bearer = cast(Bearer, self.bearer)
        context = operator_context(
            bearer, connection_id=self.id, is_connected=lambda: not self._socket.closed
        )
        call = Call(params=frame.params, bearer=bearer, context=context)
        task = asyncio.create_task(self._answer(frame, call), name=f"call on {self.id}")
        self._calls[frame.id] = _InFlight(task)
        task.add_done_callback(lambda _: self._calls.pop(frame.id))

    async def _answer(self, frame: frames.RequestFrame, call: Call) -> None:
        body = await self._outcome(frame, call)
        self._calls[frame.id].answered = True
        await self._send(body)

    async def _outcome(self, frame: frames.RequestFrame, call: Call) -> bytes:
        begin_request(secrets.token_hex(6))
        try:
            return frames.response(frame.id, await self._dispatcher.call(frame.method, call))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not self._calls[frame.id].cancelled or task.uncancel():
                raise
            return frames.failure(frame.id, CallerRevoked())
        except SidecarError as error:
            if not error.on_wire:
                log.exception("request failed")
            return frames.failure(frame.id, error)
        except Exception:  # the last line of defence: log it whole, answer with one sentence
            log.exception("unexpected error")
            return frames.failure(frame.id, ProviderFailed(frames.INTERNAL))

    async def _send(self, body: bytes) -> None:
        # A peer that is gone is noticed by the reader, which ends the socket.
        with contextlib.suppress(ConnectionError):
            await self._socket.send_frame(body, WSMsgType.TEXT)

    async def _abandon_calls(self) -> None:
        running = [call.task for call in self._calls.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _frame_of(message: WSMessage, largest: int) -> frames.RequestFrame:
    if message.type is WSMsgType.BINARY:
        raise frames.BadFrame("binary message")
    if len(message.data) > largest:
        raise frames.BadFrame(f"over {largest} bytes")
    return frames.decode_request(cast(bytes, message.data))

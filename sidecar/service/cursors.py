"""Cursors: opaque, unguessable, good only for the caller and search they were made for (spec §5.1)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import struct

import msgspec

from sidecar.domain.authority import Authority, CallerContext, HostOperation, Operator, Session
from sidecar.domain.errors import CursorInvalid
from sidecar.domain.memory import SearchRequest, Source
from sidecar.text.annotations import normalise_project_key

_PLACE = struct.Struct(">12sH")
_MAC_BYTES = 19
_LENGTH = _PLACE.size + _MAC_BYTES  # a multiple of 3: every character of its base64 counts

INVALID = "this memory cursor is not valid for this caller and search"


class CursorMint:
    """Makes and reads the cursors of one agent in this process; those of another, or made up, are invalid."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def make(self, walk: bytes, position: int, bound_to: bytes) -> str:
        """The cursor for the hits of a walk from `position` on."""
        place = _PLACE.pack(walk, position)
        return base64.urlsafe_b64encode(place + self._mac(place, bound_to)).decode("ascii")

    def read(self, cursor: str, bound_to: bytes) -> tuple[bytes, int]:
        """Walk and position; raises `CursorInvalid` unless it was made here, bound to the very same."""
        try:
            data = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
        except (UnicodeEncodeError, binascii.Error) as error:
            raise CursorInvalid(INVALID) from error
        # The decoder passes over superfluous padding: a cursor has the one spelling that was handed out.
        if base64.urlsafe_b64encode(data).decode("ascii") != cursor:
            raise CursorInvalid(INVALID)
        place, mac = data[: _PLACE.size], data[_PLACE.size :]
        if len(data) != _LENGTH or not hmac.compare_digest(mac, self._mac(place, bound_to)):
            raise CursorInvalid(INVALID)
        walk, position = _PLACE.unpack(place)
        return walk, position

    def _mac(self, place: bytes, bound_to: bytes) -> bytes:
        return hmac.digest(self._key, place + bound_to, "sha256")[:_MAC_BYTES]


def new_walk_id() -> bytes:
    """A name for a walk that nobody can guess."""
    return secrets.token_bytes(12)


class Owner(msgspec.Struct, frozen=True):
    """Whose walk it is: the token that asked, and on whose behalf."""

    token: str
    caller: tuple[str | None, ...]


def owner_of(context: CallerContext) -> Owner:
    """Who answers for what a search leaves to be kept."""
    return Owner(context.token_name, (*_kind(context.authority), context.identity))


def binding(context: CallerContext, request: SearchRequest, sources: tuple[Source, ...]) -> bytes:
    """What a cursor is bound to: the caller beyond one connection or lease, the query and all filters.

    The page size is not part of it. `sources` are those that the search covers, named or by default.
    """
    keys = tuple(sorted(set(map(normalise_project_key, request.active_project_keys or ()))))
    bound = (
        _kind(context.authority),
        context.identity,
        request.query,
        request.min_score,
        sources,
        keys,
        request.lexical_only,
        request.within,
    )
    return hashlib.sha256(repr(bound).encode("utf-8", "surrogatepass")).digest()


def _kind(authority: Authority) -> tuple[str | None, ...]:
    """Which kind of authority, and of a session also which one."""
    match authority:
        case Operator():
            return ("operator",)
        case Session(session_key=key, session_id=session_id):
            return ("session", key, session_id)
        case HostOperation(operation=operation):
            return ("host", operation)

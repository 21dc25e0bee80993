"""What an audience is refused with, and the steps of a test that uses one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sidecar.domain.authority import Bearer, OwnerPrivate, Principal
from sidecar.domain.errors import AccessDenied
from sidecar.domain.session_rows import SessionRow
from sidecar.host.audiences import AudienceBook, Minted
from sidecar.host.sessions import HostSessions

NOT_MINTED_AT_OPEN = "memory provider requires a host-minted memory audience"
NOT_MINTED = "memory audience was not minted by this host"
ELSEWHERE = "memory audience is bound to a different session"
STALE = "memory audience is no longer current"
UNAVAILABLE = "memory audience currency is unavailable; retry the operation"
RELEASED = "memory audience was released by its owner"
OWNER = OwnerPrivate(agent_id="main")
GATEWAY = Bearer(
    principal=Principal(name="gateway", role="host", scopes=("operator.read",)),
    key="gateway one",
    holds=lambda: True,
)


@contextmanager
def refused(words: str) -> Iterator[None]:
    with pytest.raises(AccessDenied) as caught:
        yield
    assert caught.value.message == words


def granted(book: AudienceBook, asked: SessionRow, *, owner: bool = True) -> str:
    found = book.resolve(session_key=asked.session_key, session_id=asked.session_id, sender_is_owner=owner)
    assert isinstance(found, Minted), found
    return found.handle


def bind(sessions: HostSessions, handle: str, asked: SessionRow, **changed: Any) -> Any:
    use = {
        "agent_id": "main",
        "session_key": asked.session_key,
        "session_id": asked.session_id,
        "lease": "lease-1",
        "bearer": GATEWAY,
    }
    return sessions.bind(handle, **use | changed)


async def resolved(sessions: HostSessions, asked: SessionRow, *, owner: bool = True) -> str:
    found = await sessions.resolve(
        agent_id="main",
        session_key=asked.session_key,
        session_id=asked.session_id,
        sender_is_owner=owner,
        bearer=GATEWAY,
    )
    assert isinstance(found, Minted), found
    return found.handle

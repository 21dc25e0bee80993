"""Builders for rows and audiences: readable ids, real parts."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sidecar.domain.authority import Bearer, Principal
from sidecar.domain.session_rows import SessionRow
from sidecar.host.audiences import AudienceBook
from sidecar.host.sessions import HostSessions
from sidecar.host.table import SessionTable

sys.path.insert(0, str(Path(__file__).parent))


def an_id(number: int) -> str:
    """A session id of the durable form."""
    return f"{number:08x}-0000-4000-8000-000000000000"


def a_row(name: str, number: int, **fields: Any) -> SessionRow:
    """A row of agent main; a parent given as a row makes the receipt."""
    parent = fields.pop("parent", None)
    if parent is not None:
        fields = {
            "parent_session_key": parent.session_key,
            "parent_session_id": parent.session_id,
            "parent_lifecycle_revision": parent.lifecycle_revision,
            "spawned_by_sender_is_owner": True,
        } | fields
    return SessionRow(session_key=f"agent:main:{name}", session_id=an_id(number), **fields)


def a_bearer(name: str = "gateway", which: str = "one") -> Bearer:
    """A token in use whose secret stands."""
    principal = Principal(name=name, role="host", scopes=("operator.read",))
    return Bearer(principal=principal, key=f"{name} {which}", holds=lambda: True)


@pytest.fixture
def bearer() -> Callable[..., Bearer]:
    return a_bearer


@pytest.fixture(name="row")
def _row() -> Callable[..., SessionRow]:
    return a_row


@pytest.fixture(name="session_id")
def _session_id() -> Callable[[int], str]:
    return an_id


@pytest.fixture
def mint() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"handle-{next(numbers)}"


@pytest.fixture
def book(mint: Callable[[], str]) -> AudienceBook:
    return AudienceBook(agent_id="main", table=SessionTable(), mint=mint)


@pytest.fixture
def sessions() -> HostSessions:
    """Real handles, and a wait that a test can outlast."""
    return HostSessions(["main", "other"], settle_seconds=0.1)

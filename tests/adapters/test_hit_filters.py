"""Raw transcript hits pass the host's filter and the table of authorities, over the rows of that moment."""

from __future__ import annotations

from typing import Any

import pytest
from sidecar.adapters.hit_filters import HitFilters

from sidecar.domain.authority import Authority, Conversation, HostOperation, Operator, OwnerPrivate, Session
from sidecar.domain.file_shaped import FileHit, HitFilter
from sidecar.domain.session_rows import SessionRow, SessionRows
from sidecar.domain.sessions import TranscriptIdentity
from sidecar.policy.transcripts import TranscriptRules

ANN, BOB = "agent:main:telegram:direct:ann", "agent:main:telegram:direct:bob"
IDS = {ANN: "a" * 36, BOB: "b" * 36}


def hit(path: str, source: Any = "sessions") -> FileHit:
    return FileHit(path=path, start_line=1, end_line=2, score=0.5, snippet="", source=source)


NOTE = hit("memory/a.md", "memory")
OF_ANN, OF_BOB = (hit(f"sessions/main/{IDS[key]}.jsonl") for key in (ANN, BOB))
OF_NOBODY = hit("sessions/main/notes.txt")


def identify(path: str) -> TranscriptIdentity | None:
    if not path.endswith(".jsonl"):
        return None
    return TranscriptIdentity(path=path, session_id=path.split("/")[-1][:-6], agent_id="main")


def rows() -> SessionRows:
    found = [SessionRow(session_key=key, session_id=IDS[key], chat_type="direct") for key in IDS]
    return SessionRows(
        by_key={row.session_key: row for row in found},
        keys={row.session_id: (row.session_key,) for row in found},
    )


def filters(given: SessionRows | None = None) -> HitFilters:
    return HitFilters(
        agent_id="main", rules=TranscriptRules(), rows=lambda: given or rows(), identify=identify
    )


@pytest.mark.parametrize(
    ("asked", "admitted"),
    [
        ({"requester_session_key": ANN}, [NOTE, OF_ANN]),
        ({"requester_session_key": ANN, "sandboxed": True}, [NOTE]),
        ({"trusted_agent_scope": True}, [NOTE, OF_ANN, OF_BOB]),
        ({}, [NOTE]),
    ],
)
async def test_a_host_may_pass_on_what_the_requester_sees(
    asked: dict[str, Any], admitted: list[FileHit]
) -> None:
    given = HitFilter(agent_id="main", hits=(NOTE, OF_ANN, OF_BOB, OF_NOBODY), **asked)
    assert await filters().authorise(given) == admitted


def session(key: str, audience: Any) -> Session:
    return Session(session_key=key, sandboxed=False, session_id=IDS[key], audience=audience)


@pytest.mark.parametrize(
    ("authority", "seen"),
    [
        (Operator(scopes=("operator.read",)), [OF_ANN, OF_BOB]),
        (Operator(scopes=()), []),
        (HostOperation(operation="status"), []),
        (session(ANN, None), []),
        (session(ANN, OwnerPrivate(agent_id="main")), [OF_ANN]),
        (session(ANN, OwnerPrivate(agent_id="other")), []),
        (session(ANN, Conversation(agent_id="main", session_key=ANN, session_id=IDS[ANN])), [OF_ANN]),
    ],
)
def test_an_authority_sees_what_its_row_of_the_table_says(authority: Authority, seen: list[FileHit]) -> None:
    found = filters()
    assert [hit for hit in (OF_ANN, OF_BOB, OF_NOBODY) if found.sees(authority, hit)] == seen


def test_the_rows_are_those_of_the_moment() -> None:
    owner = session(ANN, OwnerPrivate(agent_id="main"))
    now = [rows()]
    found = HitFilters(agent_id="main", rules=TranscriptRules(), rows=lambda: now[0], identify=identify)
    assert found.sees(owner, OF_ANN)
    now[0] = SessionRows()
    assert not found.sees(owner, OF_ANN)

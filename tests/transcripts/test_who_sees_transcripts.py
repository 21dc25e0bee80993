"""Who sees transcripts: what the authoriser says, asked again for every page and read (spec §5.4, §5.5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from transcript_follower import Only

from sidecar.domain.authority import (
    Authority,
    CallerContext,
    Conversation,
    ConversationRecall,
    HostOperation,
    Operator,
    OwnerPrivate,
    Session,
)
from sidecar.domain.corpus import OriginClass
from sidecar.domain.errors import AccessDenied
from sidecar.domain.file_shaped import FileSearch, Provenance
from sidecar.domain.memory import Found, GetRequest, NotFound, Reference, SearchRequest
from sidecar.domain.session_rows import NO_ROWS, SessionRow, SessionRows
from sidecar.domain.sessions import TranscriptAuthoriser
from sidecar.runtime.agent import AgentRuntime
from sidecar.service.audit import Audit
from sidecar.service.offload import Offload
from sidecar.service.preparing import Preparers
from sidecar.settings.model import AgentSettings, EmbeddingSettings, SessionsSettings, WatchSettings

BOTH = ("memory", "sessions")
OPERATOR = Operator(scopes=("operator.read",))
OWNER = Session(session_key="agent:main:main", sandboxed=False, audience=OwnerPrivate(agent_id="main"))
GUEST = Session(
    session_key="agent:main:group",
    sandboxed=False,
    audience=Conversation(agent_id="main", session_key="agent:main:group", session_id="group"),
)
HOST = HostOperation(operation="status")


class Access:
    """What each caller may see, to be changed between calls."""

    def __init__(self) -> None:
        self.of: dict[Authority, TranscriptAuthoriser] = {}

    def __call__(self, authority: Authority) -> TranscriptAuthoriser | None:
        return self.of.get(authority)


class Agent:
    """One agent over two notes and three transcripts."""

    def __init__(self, runtime: AgentRuntime, access: Access, audit: Audit) -> None:
        self.runtime = runtime
        self.access = access
        self.audit = audit
        self.rows = NO_ROWS
        self.untrusted: set[str] = set()
        self.sessions = Path()

    def recorded(self, path: str, _revision: str) -> OriginClass | None:
        return "untrusted" if path in self.untrusted else None

    async def handle(self, authority: Authority) -> Any:
        context = CallerContext(authority=authority, assert_current=lambda: None, identity="test")
        return await self.runtime.provider.open("main", context, "default")

    async def search(self, authority: Authority, query: str = "zeppelin", **more: Any) -> Any:
        request = SearchRequest(query=query, sources=BOTH, min_score=0.0, **more)
        return await (await self.handle(authority)).search(request)

    async def get(self, authority: Authority, path: str) -> Any:
        reference = Reference(provider_id="memory-sidecar", id=path)
        return await (await self.handle(authority)).get(GetRequest(reference=reference))


@pytest.fixture
async def agent(tmp_path: Path, say: Any, jsonl: Any) -> AsyncIterator[Agent]:
    workspace, sessions, state = tmp_path / "workspace", tmp_path / "sessions", tmp_path / "state"
    for folder in (workspace, sessions, state):
        folder.mkdir()
    (workspace / "MEMORY.md").write_text("- The zeppelin is blue.\n- The zeppelin is late.\n")
    for name in ("main", "group", "other"):
        talk = [say("user", f"{name} zeppelin talk {n}") for n in range(3)]
        (sessions / f"{name}.jsonl").write_bytes(jsonl(*talk))
    access, offload, audit = Access(), Offload(2), Audit()
    made: list[Agent] = []
    runtime = await AgentRuntime.open(
        AgentSettings(
            id="main", workspace=workspace, sessions=SessionsSettings(directory=sessions, enabled=True)
        ),
        directory=state,
        watch=WatchSettings(),
        embeddings=EmbeddingSettings(provider="none"),
        embedder=None,
        offload=offload,
        preparers=Preparers(0),
        audit=audit,
        recorded_origin=lambda path, named: made[0].recorded(path, named),
        transcripts=access,
        rows=lambda: made[0].rows,
    )
    made.append(Agent(runtime, access, audit))
    made[0].sessions = sessions
    await runtime.refresh()
    yield made[0]
    await runtime.close()
    offload.close()


def paths(page: Any) -> set[str]:
    return {hit.path for hit in page.hits}


async def test_without_an_authoriser_transcripts_are_withheld_and_notes_stay(agent: Agent) -> None:
    assert paths(await agent.search(OWNER)) == {"MEMORY.md"}
    assert isinstance(await agent.get(OWNER, "sessions/main/main.jsonl"), NotFound)


async def test_a_conversation_sees_its_own_transcript_and_no_note(agent: Agent) -> None:
    agent.access.of[GUEST] = Only("group")
    page = await agent.search(GUEST)
    assert paths(page) == {"sessions/main/group.jsonl"}
    assert page.warning == (
        "memory-sidecar: stored memories were not searched: this session has no owner-private memory audience"
    )
    assert isinstance(await agent.get(GUEST, "sessions/main/group.jsonl"), Found)
    for hidden in ("sessions/main/main.jsonl", "sessions/main/none.jsonl"):
        assert isinstance(await agent.get(GUEST, hidden), NotFound)
    with pytest.raises(AccessDenied):
        await agent.get(GUEST, "MEMORY.md")


async def test_a_host_operation_sees_nothing_and_is_told_why(agent: Agent) -> None:
    page = await agent.search(HOST)
    assert page.hits == ()
    assert "host operations cannot read stored memories" in page.warning
    for path in ("sessions/main/main.jsonl", "MEMORY.md"):
        with pytest.raises(AccessDenied):
            await agent.get(HOST, path)


async def test_a_sight_that_ends_between_two_pages_ends_there(agent: Agent) -> None:
    agent.access.of[OWNER] = Only("main", "group", "other")
    first = await agent.search(OWNER, max_results=1)
    assert first.next_cursor is not None
    agent.access.of[OWNER] = Only("main")
    seen: list[Any] = []
    cursor = first.next_cursor
    while cursor is not None:
        page = await agent.search(OWNER, max_results=1, cursor=cursor)
        seen += page.hits
        cursor = page.next_cursor
    assert {hit.path for hit in seen} <= {"MEMORY.md", "sessions/main/main.jsonl"}
    assert "sessions/main/main.jsonl" in {hit.path for hit in seen}


async def test_a_recall_pass_that_is_not_authorised_is_a_verdict_of_the_policy_said_and_in_the_audit(
    agent: Agent,
) -> None:
    recall = ConversationRecall(
        anchor_session_key="agent:main:direct:ann", scope="same-agent-private", corpus="configured"
    )
    asking = msgspec.structs.replace(OWNER, conversation_recall=recall)
    agent.access.of[asking] = Only("main")
    page = await agent.search(asking)
    assert paths(page) == {"MEMORY.md"}
    assert "transcripts were not searched: this recall pass is not authorised" in page.warning
    with pytest.raises(AccessDenied, match="memory access denied: this recall pass is not authorised"):
        await agent.get(asking, "sessions/main/main.jsonl")
    told = [(item.method, item.verdict, item.reason) for item in agent.audit.recent()]
    assert told == [
        ("get transcripts", "deny", "this recall pass is not authorised"),
        ("search transcripts", "deny", "this recall pass is not authorised"),
        ("search", "allow", "owner-private"),
    ]


async def test_v1_hits_pass_the_authoriser_too(agent: Agent) -> None:
    managers = agent.runtime.manager

    async def paths_of(authority: Authority) -> set[str]:
        asked = FileSearch(max_results=20, min_score=0.0, sources=BOTH, transcripts=managers.view(authority))
        return {hit.path for hit in (await managers.manager("cli").search("zeppelin", asked)).hits}

    assert await paths_of(OPERATOR) == {"MEMORY.md"}
    agent.access.of[OPERATOR] = Only("other")
    assert await paths_of(OPERATOR) == {"MEMORY.md", "sessions/main/other.jsonl"}


async def test_a_managers_transcript_hits_say_where_their_lines_come_from(
    agent: Agent, say: Any, jsonl: Any
) -> None:
    everything = Only("main", "group", "other", "mixed", "owned")
    talk = {
        "owned": [
            say("user", "An airship question.", timestamp=1767323045, __openclaw={"senderIsOwner": True}),
            say("assistant", "An airship answer.", timestamp=1767323046),
        ],
        "mixed": [
            say("user", "An airship from outside.", timestamp=1767323050),
            say("user", "An airship of mine.", timestamp=1767323040, __openclaw={"senderIsOwner": True}),
        ],
    }
    for name, records in talk.items():
        (agent.sessions / f"{name}.jsonl").write_bytes(jsonl(*records))
    await agent.runtime.refresh()
    for key in ("subagent:1", "cron:j:run:1"):
        row = SessionRow(session_key=f"agent:main:{key}", session_id="owned")
        agent.rows = SessionRows(by_key={row.session_key: row}, keys={"owned": (row.session_key,)})
        options = FileSearch(sources=("sessions",), transcripts=everything, max_results=5, min_score=0.0)
        found = await agent.runtime.manager.manager("default").search("airship", options)
        told = {hit.path.split("/")[-1]: hit.provenance for hit in found.hits}
        assert told == {
            "owned.jsonl": Provenance(
                origin_class="agent", session_kind=key.split(":")[0], observed_at=1767323046000
            ),
            "mixed.jsonl": Provenance(origin_class="untrusted", observed_at=1767323050000),
        }
    agent.untrusted.add(next(hit.path for hit in found.hits if "owned" in hit.path))
    found = await agent.runtime.manager.manager("default").search("airship", options)
    assert {hit.provenance.origin_class for hit in found.hits} == {"untrusted"}

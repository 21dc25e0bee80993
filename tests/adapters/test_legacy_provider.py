"""The legacy adapter over a manager that is not ours (U§5, spec §5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from sidecar.adapters.legacy_provider import (
    CAPABILITIES,
    NOT_INDEXED,
    WITHHELD,
    LegacyProvider,
    LegacyServices,
)

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
from sidecar.domain.errors import AccessDenied, CapabilityUnsupported, ProviderFailed, Unavailable
from sidecar.domain.file_shaped import (
    Acquired,
    FileHit,
    FileHits,
    FileRead,
    FileSearch,
    FileText,
    HitFilter,
    Provenance,
)
from sidecar.domain.memory import Found, GetRequest, NotFound, Reference, SearchRequest
from sidecar.domain.provider import Capabilities
from sidecar.service.audit import Audit
from sidecar.service.binding import open_bound
from sidecar.service.decisions import Decisions

OPERATOR = Operator(scopes=("operator.read",))
SESSION = Session(
    session_key="agent:main:telegram:direct:7",
    sandboxed=True,
    conversation_recall=ConversationRecall(
        anchor_session_key="agent:main:telegram:direct:7", scope="same-agent-private", corpus="configured"
    ),
)
NOTE = FileHit(
    path="memory/a.md",
    start_line=3,
    end_line=3,
    score=0.75,
    snippet="- Deploys freeze on Fridays <!-- trigger: deploy -->",
    source="memory",
    importance=8,
    triggers="deploy; release",
    project_key="github.com/acme/app; path:/srv/x",
    provenance=Provenance(origin_class="agent"),
)
TALK = FileHit(
    path="sessions/main/1.jsonl",
    start_line=1,
    end_line=2,
    score=0.5,
    snippet="User: hello",
    source="sessions",
)


class StatusOnly:
    """The least that a manager can be."""

    def __init__(self, **status: object) -> None:
        self._status: Mapping[str, object] = status

    def status(self) -> Mapping[str, object]:
        return self._status


class Manager(StatusOnly):
    """Somebody's manager: keeps what it was asked, answers what it was given."""

    def __init__(self, *hits: FileHit, **status: object) -> None:
        super().__init__(**status)
        self.hits = hits
        self.answer = FileText(text="text", path="memory/a.md")
        self.asked: list[Any] = []
        self.closed = 0

    async def search(self, query: str, options: FileSearch) -> FileHits:
        self.asked.append((query, options))
        return FileHits(hits=self.hits)

    async def read_file(self, request: FileRead) -> FileText:
        self.asked.append(request)
        return self.answer

    async def close(self) -> None:
        self.closed += 1


class Syncing(Manager):
    async def sync(self, *, reason: str) -> None:
        self.asked.append(reason)


class Runtime:
    """Gives one manager, and filters hits if it has a filter."""

    def __init__(self, manager: Any, *, error: str | None = None, admit: Any = None) -> None:
        self._manager = manager
        self._error = error
        self._admit = admit
        self.filters: list[HitFilter] = []

    @property
    def authorize_search_hits(self) -> Any:
        return None if self._admit is None else self._authorise

    async def _authorise(self, asked: HitFilter) -> Sequence[FileHit]:
        self.filters.append(asked)
        return [hit for hit in asked.hits if self._admit(hit)]

    async def acquire(self, agent_id: str, purpose: str) -> Acquired:
        del agent_id, purpose
        return Acquired(manager=self._manager, error=self._error)


async def opened(manager: Any, authority: Authority = OPERATOR, purpose: Any = "cli", **runtime: Any) -> Any:
    context = CallerContext(authority=authority, assert_current=lambda: None)
    services = LegacyServices(
        agent_id="main", runtime=Runtime(manager, **runtime), decisions=decisions(Audit())
    )
    return await LegacyProvider(services).open("main", context, purpose)


async def search(manager: Any, authority: Authority = OPERATOR, **request: Any) -> Any:
    handle = await opened(manager, authority)
    return await handle.search(SearchRequest(query="freeze", **request))


def test_it_declares_exactly_what_the_contract_says() -> None:
    assert Capabilities(
        sources=("memory", "sessions"), pagination=False, candidates=(), project_filter=True
    ) == CAPABILITIES  # fmt: skip


async def test_a_hit_is_converted_field_by_field() -> None:
    page = await search(Manager(NOTE))
    (hit,) = page.hits
    reference = Reference(provider_id="memory-sidecar-legacy", id="memory/a.md", fragment="L3-L3")
    assert (hit.reference, hit.score, hit.source) == (reference, 0.75, "memory")
    assert hit.excerpt == "- Deploys freeze on Fridays"
    (citation,) = hit.citations
    assert (citation.label, citation.reference) == ("memory/a.md#L3-L3", reference)
    assert (citation.start_line, citation.end_line, citation.url) == (3, 3, None)
    assert hit.recall is not None
    assert hit.recall.project_keys == ("github.com/acme/app", "path:/srv/x")
    assert (hit.recall.eligible, hit.recall.triggers, hit.recall.importance) == (True, "deploy; release", 8)
    assert (page.coverage, page.warning, page.next_cursor) == ("complete", None, None)


async def test_a_managers_own_citation_is_the_label() -> None:
    page = await search(Manager(FileHit(path="a", start_line=1, end_line=2, score=1, snippet="x",
                                        source="memory", citation="Notes, page 1")))  # fmt: skip
    assert page.hits[0].citations[0].label == "Notes, page 1"


def with_(**fields: Any) -> FileHit:
    from msgspec.structs import replace

    return replace(NOTE, **fields)


def decisions(audit: Audit) -> Decisions:
    return Decisions(agent_id="main", sandboxed_access="deny", audit=audit, host_trusted=True)


@pytest.mark.parametrize(
    ("hit", "eligible"),
    [
        (with_(provenance=Provenance(origin_class="owner")), True),
        (with_(provenance=Provenance(origin_class="agent"), project_key=None), True),
        (with_(provenance=Provenance(origin_class="untrusted")), False),
        (with_(provenance=Provenance(origin_class="system")), False),
        (with_(provenance=None), False),
        (with_(project_key=" ; ;"), False),
        (with_(source="sessions"), False),
    ],
)
async def test_only_trusted_notes_are_eligible_for_recall(hit: FileHit, eligible: bool) -> None:
    handle = await opened(Manager(hit, sources=["memory", "sessions"]), admit=lambda _: True)
    page = await handle.search(SearchRequest(query="x"))
    assert [found.recall.eligible for found in page.hits] == [eligible]


async def test_the_manager_is_asked_what_the_caller_asked() -> None:
    manager = Manager()
    request = {"max_results": 7, "min_score": 0.1, "sources": ("memory",), "lexical_only": True,
               "active_project_keys": ("k",)}  # fmt: skip
    await search(manager, SESSION, **request)
    await search(manager)
    (query, options), (_, plain) = manager.asked
    assert query == "freeze"
    assert options == FileSearch(**request, strict=True, session_key=SESSION.session_key)
    assert (plain.session_key, plain.sources, plain.active_project_keys) == (None, None, None)


async def test_a_cursor_is_refused_by_its_own_message() -> None:
    handle = await opened(Manager())
    with pytest.raises(CapabilityUnsupported, match="legacy memory search does not support cursors"):
        await handle.search(SearchRequest(query="x", cursor="c"))


async def test_methods_that_a_manager_lacks_are_named() -> None:
    handle = await opened(StatusOnly())
    with pytest.raises(ProviderFailed, match="memory runtime manager must implement search"):
        await handle.search(SearchRequest(query="x"))
    with pytest.raises(ProviderFailed, match="memory runtime manager must implement readFile"):
        await handle.get(GetRequest(reference=Reference(provider_id="memory-sidecar-legacy", id="a")))
    assert (await handle.health()).status == "ready"
    await handle.close()


@pytest.mark.parametrize("status", [None, "ok", "whatever"])
async def test_a_read_is_ok_whatever_its_status_but_not_found(status: str | None) -> None:
    manager = Manager()
    manager.answer = FileText(status=status, text="", path="memory/b.md", from_line=4, line_count=2,
                              truncated=True, next_from=6)  # fmt: skip
    handle = await opened(manager)
    asked = Reference(provider_id="memory-sidecar-legacy", id="./memory/b.md", fragment="L9-L9", revision="r")
    read = await handle.get(GetRequest(reference=asked, from_line=4, line_count=2))
    assert read == Found(
        reference=Reference(provider_id="memory-sidecar-legacy", id="memory/b.md"),
        text="", from_line=4, line_count=2, truncated=True, next_from=6,
    )  # fmt: skip
    assert manager.asked == [FileRead(path="./memory/b.md", from_line=4, line_count=2)]
    manager.answer = FileText(status="not_found", text="", path="memory/b.md")
    assert await handle.get(GetRequest(reference=asked)) == NotFound()


async def test_without_a_filter_transcripts_are_withheld_and_the_answer_says_so() -> None:
    page = await search(Manager(NOTE, TALK, sources=["memory", "sessions"]), sources=("memory", "sessions"))
    assert [hit.path for hit in page.hits] == ["memory/a.md"]
    assert (page.coverage, page.warning) == ("partial", WITHHELD)
    page = await search(Manager(NOTE, TALK))
    assert ([hit.path for hit in page.hits], page.coverage) == (["memory/a.md"], "complete")


async def test_asking_for_transcripts_that_are_not_indexed_is_degraded_and_said() -> None:
    page = await search(Manager(NOTE, sources=["memory"]), sources=("sessions",))
    assert (page.coverage, page.warning) == ("partial", NOT_INDEXED)


@pytest.mark.parametrize(
    ("authority", "expected"),
    [
        (OPERATOR, {"trusted_agent_scope": True}),
        (HostOperation(operation="status"), {"trusted_agent_scope": True}),
        (SESSION, {"requester_session_key": SESSION.session_key, "sandboxed": True,
                   "conversation_recall": SESSION.conversation_recall}),
    ],
)  # fmt: skip
async def test_the_filter_is_told_who_asks_and_decides(
    authority: Authority, expected: dict[str, Any]
) -> None:
    context = CallerContext(authority=authority, assert_current=lambda: None)
    runtime = Runtime(Manager(NOTE, TALK), admit=lambda hit: hit is TALK)
    services = LegacyServices(agent_id="main", runtime=runtime, decisions=decisions(Audit()))
    handle = await LegacyProvider(services).open("main", context, "cli")
    page = await handle.search(SearchRequest(query="x"))
    assert [hit.path for hit in page.hits] == ([TALK.path] if authority is OPERATOR else [])
    assert runtime.filters == [HitFilter(agent_id="main", hits=(NOTE, TALK), **expected)]


OWNER = Session(session_key="agent:main:main", sandboxed=False, audience=OwnerPrivate(agent_id="main"))
GROUP = Session(
    session_key="agent:main:telegram:group:7",
    sandboxed=False,
    audience=Conversation(agent_id="main", session_key="agent:main:telegram:group:7", session_id="1"),
)


@pytest.mark.parametrize(
    ("authority", "without_table", "with_table"),
    [
        (OPERATOR, True, True),
        (OWNER, True, True),
        (GROUP, False, True),
        (Session(session_key=OWNER.session_key, sandboxed=False), False, False),
        (Session(session_key=OWNER.session_key, sandboxed=True, audience=OWNER.audience), False, False),
        (HostOperation(operation="status"), False, False),
    ],
)
async def test_transcripts_go_to_whom_the_table_and_the_filter_both_admit(
    authority: Authority, without_table: bool, with_table: bool
) -> None:
    context = CallerContext(authority=authority, assert_current=lambda: None)
    for sees, admitted in ((None, without_table), (lambda *_: True, with_table), (lambda *_: False, False)):
        services = LegacyServices(
            agent_id="main",
            runtime=Runtime(Manager(NOTE, TALK), admit=lambda _: True),
            decisions=decisions(Audit()),
            sees=sees,
        )
        handle = await LegacyProvider(services).open("main", context, "cli")
        page = await handle.search(SearchRequest(query="x"))
        assert [hit.path for hit in page.hits] == [NOTE.path] + [TALK.path] * admitted


async def test_every_decision_is_recorded_by_the_name_of_its_rule() -> None:
    audit = Audit()
    context = CallerContext(authority=SESSION, assert_current=lambda: None, token_name="gateway")
    services = LegacyServices(agent_id="main", runtime=Runtime(Manager(NOTE)), decisions=decisions(audit))
    handle = await LegacyProvider(services).open("main", context, "cli")
    await handle.search(SearchRequest(query="x"))
    (decision,) = audit.recent(10)
    assert (decision.token_name, decision.method, decision.verdict) == ("gateway", "search", "allow")
    assert decision.reason == "legacy-host-trusted"


async def test_the_caller_is_asked_again_between_search_and_filter() -> None:
    current = [True]

    def assert_current() -> None:
        if not current[0]:
            raise AccessDenied("revoked")

    class Revoking(Manager):
        async def search(self, query: str, options: FileSearch) -> FileHits:
            current[0] = False
            return await super().search(query, options)

    runtime = Runtime(Revoking(NOTE), admit=lambda _: True)
    services = LegacyServices(agent_id="main", runtime=runtime, decisions=decisions(Audit()))
    context = CallerContext(authority=OPERATOR, assert_current=assert_current)
    handle = await LegacyProvider(services).open("main", context, "cli")
    with pytest.raises(AccessDenied, match="revoked"):
        await handle.search(SearchRequest(query="x"))
    assert runtime.filters == []


async def test_a_managers_weak_hits_and_hits_of_other_projects_are_left_out() -> None:
    weak, strong = with_(score=0.2999999), with_(score=0.3)
    page = await search(Manager(weak, strong), min_score=0.3)
    assert [hit.score for hit in page.hits] == [0.2999999, 0.3], "to six decimals, as callers see it"
    page = await search(Manager(with_(score=0.29), strong), min_score=0.3)
    assert [hit.score for hit in page.hits] == [0.3]
    hits = [with_(project_key=key) for key in (None, "a", "a; b", "!invalid-project-annotation", " ; ")]
    page = await search(Manager(*hits), active_project_keys=("a",))
    assert [hit.recall.project_keys for hit in page.hits] == [(), ("a",)]
    page = await search(Manager(*hits), active_project_keys=())
    assert len(page.hits) == 5


async def test_health_follows_the_last_sync_and_shows_no_host_path_anywhere() -> None:
    manager = Manager(
        backend="builtin", workspaceDir="/home/ada/ws", dbPath="/home/ada/x.db", extraPaths=["/srv/notes"],
        vector={"extensionPath": "/opt/vec.so", "loadError": "dlopen '/opt/my libs/vec.so' failed"},
        sourceCounts=[{"source": "memory", "issues": ["skipped C:\\Users\\ada\\notes"]}],
        custom={"/home/ada/key": "see https://docs.example/a/b", "n": [1, None, True, ("~/x",)]},
        lastSyncError="EACCES: open /home/ada/ws/memory/a.md",
    )  # fmt: skip
    health = await (await opened(manager)).health()
    assert (health.status, health.message) == ("degraded", "EACCES: open [path]")
    assert health.details == {
        "legacy": {
            "backend": "builtin",
            "vector": {"loadError": "dlopen '[path]' failed"},
            "sourceCounts": [{"source": "memory", "issues": ["skipped [path]"]}],
            "custom": {"[path]": "see https://docs.example/a/b", "n": [1, None, True, ["[path]"]]},
            "lastSyncError": "EACCES: open [path]",
        }
    }
    ready = await (await opened(Manager())).health()
    assert (ready.status, ready.message) == ("ready", None)


async def test_who_may_not_see_details_gets_the_word_alone() -> None:
    for authority in (SESSION, HostOperation(operation="status"), Operator(scopes=())):
        health = await (await opened(Manager(lastSyncError="disk full"), authority)).health()
        assert (health.status, health.message, health.details) == ("degraded", None, None)


async def test_a_status_that_fails_is_a_failure() -> None:
    class Broken(Manager):
        def status(self) -> Mapping[str, object]:
            raise RuntimeError("closed")

    context = CallerContext(authority=OPERATOR, assert_current=lambda: None)
    services = LegacyServices(agent_id="main", runtime=Runtime(Broken()), decisions=decisions(Audit()))
    handle = await open_bound(LegacyProvider(services), "main", context, "status")
    with pytest.raises(ProviderFailed):
        await handle.health()


@pytest.mark.parametrize(("purpose", "closed"), [("cli", 1), ("status", 1), ("default", 0)])
async def test_only_a_manager_of_ones_own_is_closed(purpose: str, closed: int) -> None:
    manager = Manager()
    await (await opened(manager, purpose=purpose)).close()
    assert manager.closed == closed


async def test_refresh_is_there_exactly_when_the_manager_can_sync() -> None:
    assert not hasattr(await opened(Manager()), "refresh")
    manager = Syncing()
    await (await opened(manager)).refresh()
    assert manager.asked == ["provider-refresh"]


@pytest.mark.parametrize(
    ("error", "message"),
    [(None, "memory plugin unavailable"), ("memory search disabled", "memory search disabled")],
)
async def test_without_a_manager_opening_says_why(error: str | None, message: str) -> None:
    with pytest.raises(Unavailable) as caught:
        await opened(None, error=error)
    assert caught.value.message == message

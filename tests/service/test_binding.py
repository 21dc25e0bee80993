"""The binding refuses before provider code runs, and releases nothing that it should not (U§4)."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.domain.authority import (
    Authority,
    CallerContext,
    Conversation,
    HostOperation,
    Operator,
    OwnerPrivate,
    Session,
)
from sidecar.domain.errors import (
    AccessDenied,
    CapabilityUnsupported,
    ForeignReference,
    LeaseClosed,
    ProviderFailed,
    StateError,
    Unavailable,
)
from sidecar.domain.memory import (
    Found,
    GetRequest,
    Hit,
    LineRange,
    NoteFilter,
    Page,
    ReadResult,
    Reference,
    SearchRequest,
)
from sidecar.domain.provider import CandidateRequest, Capabilities, Health
from sidecar.service.audit import Audit
from sidecar.service.binding import BAD_SHAPE, WITHHELD, BoundHandle, open_bound
from sidecar.service.decisions import Decisions

OWN, FOREIGN = Reference(provider_id="own", id="a"), Reference(provider_id="other", id="a")


class Provider:
    """A record-only provider that counts what reaches it and can be told to misbehave."""

    provider_id = "own"

    def __init__(self, **capabilities: Any) -> None:
        declared: dict[str, Any] = {
            "sources": ("memory",), "pagination": False, "candidates": (), "project_filter": False,
        }  # fmt: skip
        self.capabilities = Capabilities(**declared | capabilities)
        self.calls: list[str] = []
        self.closed = 0
        self.reference = OWN
        self.failure: Exception | None = None
        self.current = True

    async def open(self, _agent_id: str, _context: CallerContext, _purpose: str) -> Any:
        return self

    async def search(self, _request: SearchRequest) -> Page:
        self._called("search")
        hit = Hit(
            reference=self.reference, excerpt="x", path="a", lines=LineRange(1, 1), score=1, source="memory"
        )
        return Page(hits=(hit,))

    async def get(self, _request: GetRequest) -> ReadResult:
        self._called("get")
        return Found(reference=self.reference, text="x")

    async def health(self) -> Health:
        self._called("health")
        return Health(status="ready")

    async def close(self) -> None:
        self.closed += 1

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.failure is not None:
            raise self.failure


class CandidateProvider(Provider):
    async def candidates(self, _request: CandidateRequest) -> Page:
        self._called("candidates")
        return Page(hits=())


def context_of(provider: Provider) -> CallerContext:
    def assert_current() -> None:
        if not provider.current:
            raise AccessDenied("revoked")

    return CallerContext(authority=Operator(scopes=("operator.read",)), assert_current=assert_current)


async def bound(provider: Provider) -> BoundHandle:
    return await open_bound(provider, "main", context_of(provider), "cli")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            {"sources": ("memory", "sessions")},
            "memory provider does not support the sessions source capability",
        ),
        ({"cursor": "c"}, "memory provider does not support the pagination capability"),
        ({"active_project_keys": ("k",)}, "memory provider does not support the project filter capability"),
        (
            {"sources": ("sessions",), "cursor": "c", "active_project_keys": ("k",)},
            "memory provider does not support the sessions source capability",
        ),
    ],
)
async def test_an_undeclared_search_capability_is_refused_before_the_provider_is_called(
    request_: dict[str, Any], message: str
) -> None:
    provider = Provider()
    handle = await bound(provider)
    with pytest.raises(CapabilityUnsupported) as caught:
        await handle.search(SearchRequest(query="x", **request_))
    assert (caught.value.message, provider.calls) == (message, [])


async def test_undeclared_candidates_are_refused_and_declared_ones_pass() -> None:
    plain = Provider()
    handle = await bound(plain)
    with pytest.raises(CapabilityUnsupported) as caught:
        await handle.candidates(CandidateRequest(kind="trigger"))
    assert caught.value.message == "memory provider does not support the trigger candidates capability"
    able = CandidateProvider(candidates=("trigger",))
    handle = await bound(able)
    await handle.candidates(CandidateRequest(kind="trigger", active_project_keys=()))
    with pytest.raises(CapabilityUnsupported) as caught:
        await handle.candidates(CandidateRequest(kind="trigger", active_project_keys=("k",)))
    assert caught.value.message == "memory provider does not support the project filter capability"
    assert able.calls == ["candidates"]


async def test_a_foreign_reference_is_refused_on_the_way_in_and_on_the_way_out() -> None:
    provider = Provider()
    handle = await bound(provider)
    with pytest.raises(ForeignReference, match="memory reference belongs to a different provider"):
        await handle.get(GetRequest(reference=FOREIGN))
    assert provider.calls == []
    provider.reference = FOREIGN
    for call in (handle.search(SearchRequest(query="x")), handle.get(GetRequest(reference=OWN))):
        with pytest.raises(ForeignReference):
            await call


async def test_a_revocation_outranks_a_capability_error_and_discards_a_result() -> None:
    provider = Provider()
    handle = await bound(provider)
    provider.current = False
    with pytest.raises(AccessDenied, match="revoked"):
        await handle.search(SearchRequest(query="x", sources=("sessions",)))
    provider.current = True

    async def revoked_meanwhile(_request: SearchRequest) -> Page:
        provider.current = False
        return Page(hits=())

    provider.search = revoked_meanwhile  # type: ignore[method-assign]
    with pytest.raises(AccessDenied, match="revoked"):
        await handle.search(SearchRequest(query="x"))


async def test_a_closed_handle_answers_nothing_and_closing_twice_closes_once() -> None:
    provider = Provider()
    handle = await bound(provider)
    provider.current = False
    await handle.close()
    await handle.close()
    assert provider.closed == 1
    with pytest.raises(LeaseClosed, match="memory provider handle is closed"):
        await handle.health()


@pytest.mark.parametrize(
    "provider",
    [
        Provider(sources=()),
        Provider(candidates=("trigger",)),
        CandidateProvider(),
        Provider(sources=("mail",)),
    ],
)
async def test_a_handle_of_the_wrong_shape_is_closed_and_refused(provider: Provider) -> None:
    with pytest.raises(Unavailable) as caught:
        await bound(provider)
    assert (caught.value.message, provider.closed) == (BAD_SHAPE, 1)


async def test_a_caller_revoked_while_the_provider_opens_gets_nothing_and_the_lease_is_closed() -> None:
    provider = Provider()

    async def slow_open(*_: Any) -> Provider:
        provider.current = False
        return provider

    provider.open = slow_open  # type: ignore[method-assign]
    with pytest.raises(AccessDenied):
        await bound(provider)
    assert provider.closed == 1


@pytest.mark.parametrize("failure", [ValueError("/secret/path"), StateError("/secret/path"), KeyError("x")])
async def test_whatever_a_provider_throws_becomes_one_clean_error(failure: Exception) -> None:
    provider = Provider()
    handle = await bound(provider)
    provider.failure = failure
    with pytest.raises(ProviderFailed) as caught:
        await handle.search(SearchRequest(query="x"))
    assert "secret" not in caught.value.message
    provider.failure = None
    assert (await handle.health()).status == "ready"


async def test_a_filter_on_notes_never_reaches_a_provider_that_would_ignore_it() -> None:
    provider = Provider()
    handle = await bound(provider)
    with pytest.raises(CapabilityUnsupported, match="note filter"):
        await handle.search(SearchRequest(query="x", within=NoteFilter(path="*.md")))
    assert provider.calls == []
    able = Provider(note_filter=True)
    handle = await bound(able)
    assert (await handle.search(SearchRequest(query="x", within=NoteFilter(path="*.md")))).hits


class Leaky(Provider):
    """A provider that asks nobody who may read."""

    def __init__(self) -> None:
        super().__init__(sources=("memory", "sessions"), candidates=("trigger",))

    async def search(self, _request: SearchRequest) -> Page:
        self._called("search")
        return Page(
            hits=tuple(
                Hit(reference=OWN, excerpt="x", path="a", lines=LineRange(1, 1), score=1, source=source)
                for source in ("memory", "sessions")
            )
        )

    async def candidates(self, _request: CandidateRequest) -> Page:
        self._called("candidates")
        return Page(hits=())

    async def refresh(self) -> None:
        self._called("refresh")

    async def health(self) -> Health:
        return Health(status="ready", message="why", details={"records": 3})


OWNER = Session(session_key="agent:main:main", sandboxed=False, audience=OwnerPrivate(agent_id="main"))
OUTSIDERS: list[Authority] = [
    Operator(scopes=()),
    HostOperation(operation="status"),
    Session(session_key="agent:main:main", sandboxed=False),
    Session(session_key="agent:main:main", sandboxed=True, audience=OwnerPrivate(agent_id="main")),
    Session(session_key="agent:main:main", sandboxed=False, audience=OwnerPrivate(agent_id="other")),
    Session(
        session_key="agent:main:g",
        sandboxed=False,
        audience=Conversation(agent_id="main", session_key="agent:main:g", session_id="1"),
    ),
]


async def gated(provider: Provider, authority: Authority, audit: Audit) -> Any:
    context = CallerContext(authority=authority, assert_current=lambda: None, token_name="gateway")
    gate = Decisions(agent_id="main", sandboxed_access="deny", audit=audit)
    return await open_bound(provider, "main", context, "cli", gate=gate)


@pytest.mark.parametrize("authority", OUTSIDERS)
async def test_a_provider_that_forgets_to_ask_still_shows_nothing_to_who_may_not_read(
    authority: Authority,
) -> None:
    provider, audit = Leaky(), Audit()
    handle = await gated(provider, authority, audit)
    page = await handle.search(SearchRequest(query="x"))
    assert page.hits == ()
    assert page.warning.startswith("own: stored memories were not searched: ")
    page = await handle.candidates(CandidateRequest(kind="trigger"))
    assert page.warning.startswith("own: stored memories were not listed: ")
    with pytest.raises(AccessDenied, match="own: memory access denied: "):
        await handle.get(GetRequest(reference=OWN))
    assert provider.calls == []
    assert await handle.health() == Health(status="ready")
    told = [(item.token_name, item.agent, item.method, item.verdict) for item in reversed(audit.recent())]
    assert told == [
        ("gateway", "main", "search", "deny"),
        ("gateway", "main", "candidates", "deny"),
        ("gateway", "main", "get", "deny"),
        ("gateway", "main", "health", "allow"),
    ]


async def test_transcripts_of_a_provider_that_nobody_can_authorise_are_for_operators_only() -> None:
    for authority, sources in (
        (Operator(scopes=("operator.read",)), ["memory", "sessions"]),
        (OWNER, ["memory"]),
    ):
        handle = await gated(Leaky(), authority, Audit())
        page = await handle.search(SearchRequest(query="x", sources=("memory", "sessions")))
        assert [hit.source for hit in page.hits] == sources
        assert page.warning == (WITHHELD if authority is OWNER else None)
        # That one was found where none was asked for is not told.
        assert (await handle.search(SearchRequest(query="x"))).warning is None
        assert (await handle.health()).details == {"records": 3}


async def test_a_host_may_refresh_and_a_stranger_may_not() -> None:
    provider = Leaky()
    await (await gated(provider, HostOperation(operation="post-compaction-refresh"), Audit())).refresh()
    with pytest.raises(AccessDenied):
        await (await gated(provider, Session(session_key="k", sandboxed=False), Audit())).refresh()
    assert provider.calls == ["refresh"]

"""What a host may rely on of a handle over the store, over the stub and, where slow, the real server."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from sidecar.domain.authority import Conversation, HostOperation, Operator, OwnerPrivate, Session
from sidecar.domain.errors import AccessDenied, CapabilityUnsupported, ForeignReference, ProviderFailed
from sidecar.domain.memory import Found, GetRequest, NotFound, Reference, SearchRequest
from sidecar.domain.provider import Capabilities

NOT_FOUND = NotFound()


@pytest.fixture
def agent() -> str:
    """An agent id that no other test writes under."""
    return f"agent-{uuid.uuid4().hex[:12]}"


def own(agent: str, project: str | None = None) -> str:
    return f"openclaw:agent:{agent}" + (f":project:{project}" if project else "")


async def texts(handle: Any, query: str, **request: Any) -> list[str]:
    page = await handle.search(SearchRequest(query=query, **request))
    return [hit.excerpt for hit in page.hits]


async def test_it_declares_what_the_store_can_do_and_no_more(
    store: Any, open_handle: Any, agent: str
) -> None:
    handle = await open_handle(store, agent)
    assert handle.capabilities == Capabilities(
        sources=("memory",), pagination=False, candidates=(), project_filter=True
    )
    for request in ({"sources": ("sessions",)}, {"cursor": "c"}):
        with pytest.raises(CapabilityUnsupported):
            await handle.search(SearchRequest(query="x", **request))


async def test_what_the_agent_remembers_is_found_and_read(
    store: Any, memory: Any, open_handle: Any, agent: str
) -> None:
    artifact_id = await memory.remember(own(agent), "The boiler was serviced by Halden and Sons.\nIn May.")
    handle = await open_handle(store, agent)
    page = await handle.search(SearchRequest(query="who serviced the boiler?"))
    [hit] = page.hits
    assert (page.coverage, page.warning, page.next_cursor) == ("complete", None, None)
    assert hit.excerpt == "The boiler was serviced by Halden and Sons.\nIn May."
    assert (hit.source, hit.score) == ("memory", 1.0)
    assert hit.reference.provider_id == "powercontext"
    assert hit.reference.id.endswith(f"/{artifact_id}")
    assert hit.reference.revision == "1"
    assert [(c.label, c.reference) for c in hit.citations] == [
        (f"powercontext:atomic-memory/{artifact_id}@1", hit.reference)
    ]
    assert hit.recall is not None
    assert hit.recall.eligible is False
    found = await handle.get(GetRequest(reference=hit.reference))
    assert isinstance(found, Found)
    assert (found.text, found.reference, found.truncated) == (hit.excerpt, hit.reference, False)
    lines = await handle.get(GetRequest(reference=hit.reference, from_line=1, line_count=1))
    assert isinstance(lines, Found)
    assert (lines.text, lines.truncated, lines.next_from) == (
        "The boiler was serviced by Halden and Sons.",
        True,
        2,
    )


async def test_an_agent_that_never_wrote_has_an_empty_memory_and_not_the_default_one(
    store: Any, open_handle: Any, agent: str
) -> None:
    handle = await open_handle(store, agent)
    page = await handle.search(SearchRequest(query="boiler"))
    assert (page.hits, page.coverage, page.warning) == ((), "complete", None)
    assert (await handle.health()).status == "ready"


async def test_a_revision_names_its_text_for_ever_and_without_one_the_newest_is_read(
    store: Any, memory: Any, open_handle: Any, agent: str
) -> None:
    artifact_id = await memory.remember(own(agent), "The gate code is 1111")
    handle = await open_handle(store, agent)
    [old] = (await handle.search(SearchRequest(query="gate code"))).hits
    await memory.revise(own(agent), artifact_id, "The gate code is 2222")
    [new] = (await handle.search(SearchRequest(query="gate code"))).hits
    assert (new.excerpt, new.reference.revision) == ("The gate code is 2222", "2")
    for reference, text in (
        (old.reference, "The gate code is 1111"),
        (new.reference, "The gate code is 2222"),
        (Reference(provider_id="powercontext", id=old.reference.id), "The gate code is 2222"),
    ):
        found = await handle.get(GetRequest(reference=reference))
        assert isinstance(found, Found)
        assert found.text == text
    for revision in ("3", "0", "-1", "x", "1.0", "99999999999"):
        reference = Reference(provider_id="powercontext", id=old.reference.id, revision=revision)
        assert await handle.get(GetRequest(reference=reference)) == NOT_FOUND


async def test_what_is_forgotten_is_neither_found_nor_read_at_any_revision(
    store: Any, memory: Any, open_handle: Any, agent: str
) -> None:
    artifact_id = await memory.remember(own(agent), "The gate code is 1111")
    handle = await open_handle(store, agent)
    [hit] = (await handle.search(SearchRequest(query="gate code"))).hits
    await memory.revise(own(agent), artifact_id, "The gate code is 2222")
    await memory.forget(own(agent), artifact_id, revision=2)
    assert await texts(handle, "gate code") == []
    for revision in (None, "1", "2"):
        reference = Reference(provider_id="powercontext", id=hit.reference.id, revision=revision)
        assert await handle.get(GetRequest(reference=reference)) == NOT_FOUND


async def test_a_reference_reads_nothing_of_another_agent_or_of_another_project(
    store: Any, memory: Any, open_handle: Any, agent: str
) -> None:
    other = f"{agent}-b"
    await memory.remember(own(agent), "canary one of the first agent")
    await memory.remember(own(agent, "p"), "canary two of its project")
    await memory.remember(own(other), "canary three of the second agent")
    handle, stranger = await open_handle(store, agent), await open_handle(store, other)
    [mine] = (await handle.search(SearchRequest(query="canary"))).hits
    [project] = (await handle.search(SearchRequest(query="canary", active_project_keys=("p",)))).hits
    assert (mine.excerpt, project.excerpt) == ("canary one of the first agent", "canary two of its project")
    assert project.recall is not None
    assert project.recall.project_keys == ("p",)
    for hit in (mine, project):
        assert isinstance(await handle.get(GetRequest(reference=hit.reference)), Found)
        assert await stranger.get(GetRequest(reference=hit.reference)) == NOT_FOUND
    moved = Reference(provider_id="powercontext", id=mine.reference.id + "/project:p")
    elsewhere = Reference(provider_id="powercontext", id="another-server/" + mine.reference.id.split("/")[1])
    for reference in (moved, elsewhere, Reference(provider_id="powercontext", id="memory/x.md")):
        assert await handle.get(GetRequest(reference=reference)) == NOT_FOUND
    with pytest.raises(ForeignReference):
        await handle.get(GetRequest(reference=Reference(provider_id="memory-sidecar", id=mine.reference.id)))


async def test_projects_are_searched_side_by_side_and_never_widened_to_the_agent(
    store: Any, memory: Any, open_handle: Any, agent: str
) -> None:
    await memory.remember(own(agent), "canary of the agent")
    await memory.remember(own(agent, "github.com/a/b"), "canary of b")
    await memory.remember(own(agent, "github.com/a/c"), "canary of c")
    handle = await open_handle(store, agent)
    assert await texts(handle, "canary") == ["canary of the agent"]
    assert await texts(handle, "canary", active_project_keys=()) == ["canary of the agent"]
    both = await texts(handle, "canary", active_project_keys=("GitHub.com/a/b", "github.com/a/c"))
    assert sorted(both) == ["canary of b", "canary of c"]
    assert await texts(handle, "canary", active_project_keys=("github.com/a",)) == []


async def test_a_minimum_score_is_strict_and_scores_compare_across_queries(
    store: Any, memory: Any, open_handle: Any, agent: str
) -> None:
    await memory.remember(own(agent), "The chimney sweep comes in September")
    await memory.remember(own(agent), "The plumber comes in March")
    handle = await open_handle(store, agent)
    full = await handle.search(SearchRequest(query="chimney sweep September"))
    assert [hit.score for hit in full.hits] == [1.0]
    page = await handle.search(SearchRequest(query="comes September", min_score=0.0))
    assert [(hit.excerpt, hit.score) for hit in page.hits] == [
        ("The chimney sweep comes in September", 1.0),
        ("The plumber comes in March", 0.5),
    ]
    assert await texts(handle, "comes September", min_score=0.5001) == [
        "The chimney sweep comes in September"
    ]
    assert await texts(handle, "comes September", min_score=1.0001) == []
    configured = await open_handle(store, agent, min_score=0.75)
    assert await texts(configured, "comes September") == ["The chimney sweep comes in September"]
    assert len(await texts(configured, "comes September", min_score=0.1)) == 2
    assert len(await texts(handle, "comes September", max_results=1)) == 1
    assert len(await texts(await open_handle(store, agent, max_results=1), "comes September")) == 1


@pytest.mark.parametrize("query", ["???", "the", "AND OR NOT (", '"', "日本語", "x" * 9000, "a\nb\tc"])
async def test_any_query_text_is_a_search_and_never_a_failure(
    store: Any, memory: Any, open_handle: Any, agent: str, query: str
) -> None:
    await memory.remember(own(agent), "something")
    handle = await open_handle(store, agent, search_timeout_seconds=60)
    page = await handle.search(SearchRequest(query=query))
    assert page.hits == ()
    assert (page.warning is not None) == (len(query) > 8192)


async def test_a_blank_query_is_refused_before_the_server_is_asked(
    store: Any, open_handle: Any, agent: str
) -> None:
    handle = await open_handle(store, agent)
    with pytest.raises(ProviderFailed, match="query must be a non-empty string"):
        await handle.search(SearchRequest(query=" \n "))


ALLOWED = [Operator(scopes=("operator.admin",)), "owner"]
DENIED = [
    (Operator(scopes=()), "missing scope"),
    (HostOperation(operation="status"), "host operations cannot read stored memories"),
    (Session(session_key="s", sandboxed=False), "this session has no owner-private memory audience"),
    (
        Session(session_key="s", sandboxed=False, audience=OwnerPrivate(agent_id="somebody-else")),
        "the memory audience belongs to another agent",
    ),
    (
        Session(
            session_key="s",
            sandboxed=False,
            audience=Conversation(agent_id="main", session_key="s", session_id="i"),
        ),
        "this session has no owner-private memory audience",
    ),
    (
        Session(session_key="s", sandboxed=True, audience=OwnerPrivate(agent_id="main")),
        "sandboxed",
    ),
]


@pytest.mark.parametrize(("authority", "why"), DENIED)
async def test_a_caller_that_may_not_read_is_told_why_and_the_server_is_not_asked(
    stub: Any, open_handle: Any, authority: Any, why: str
) -> None:
    handle = await open_handle(stub, "main", authority=authority)
    page = await handle.search(SearchRequest(query="x"))
    assert page.hits == ()
    assert (page.warning or "").startswith("powercontext: stored memories were not searched: ")
    assert why in (page.warning or "")
    with pytest.raises(AccessDenied, match="powercontext: memory access denied: .*" + why):
        await handle.get(GetRequest(reference=Reference(provider_id="powercontext", id="s/art_1")))
    assert stub.calls == []
    health = await handle.health()
    assert (health.status, health.message, health.details) == ("ready", None, None)


async def test_the_owner_reads_and_a_sandboxed_owner_where_that_is_allowed(
    stub: Any, open_handle: Any
) -> None:
    for sandboxed in (False, True):
        authority = Session(session_key="s", sandboxed=sandboxed, audience=OwnerPrivate(agent_id="main"))
        handle = await open_handle(stub, "main", authority=authority, sandboxed_access="allow")
        page = await handle.search(SearchRequest(query="x"))
        assert (page.hits, page.warning) == ((), None)
        assert (await handle.health()).details is not None

"""Candidates: whole curated entries by trigger and project, as U§10 and spec §5.1 have them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paging_world import World, bounds

from sidecar.domain.authority import Conversation, HostOperation, OwnerPrivate, Session
from sidecar.domain.corpus import OriginClass
from sidecar.domain.errors import AccessDenied
from sidecar.domain.memory import GetRequest, Hit, SearchRequest
from sidecar.domain.provider import CandidateRequest
from sidecar.text.annotations import strip

MEMORY = """# Memory

- Deploys freeze on Fridays <!-- trigger: deploy, release --> <!-- importance: 8 -->
- Uses tabs in the app <!-- project: github.com/acme/app -->
- Both of them say hello <!-- trigger: hello --> <!-- project: GitHub.com/acme/app; lib -->
- Broken <!-- trigger: broken --> <!-- project: ; -->
- Tea before ten <!-- trigger: tea -->
- Not at the end <!-- trigger: nothing --> of its line
- The long one
  goes on <!-- trigger: long; list -->
  and on <!-- importance: 10 -->
- Odd grade <!-- trigger: odd --> <!-- importance: 11 -->
"""
USER = """- Likes lists <!-- trigger: lists --> <!-- importance: 8 --> <!-- project: ignored -->
"""
FILES = {
    "MEMORY.md": MEMORY,
    "USER.md": USER,
    "memory/a.md": "- Nothing else <!-- trigger: no --> <!-- project: lib -->\n",
}


@pytest.fixture
def told(world: Any) -> World:
    """A world with the files above."""
    world.agent.write(FILES)
    world.run(world.agent.scan())
    assert isinstance(world, World)
    return world


def listed(world: World, kind: Any, **asked: Any) -> list[Hit]:
    async def ask() -> list[Hit]:
        page = await (await world.agent.handle()).candidates(CandidateRequest(kind=kind, **asked))
        assert (page.coverage, page.warning, page.next_cursor) == ("complete", None, None)
        return list(page.hits)

    return world.run(ask())


def firsts(hits: list[Hit]) -> list[str]:
    """The first two words of each entry."""
    return [" ".join(hit.excerpt.split()[1:3]) for hit in hits]


def test_trigger_candidates_come_by_importance_then_file_then_line(told: World) -> None:
    hits = listed(told, "trigger")
    assert firsts(hits) == ["The long", "Deploys freeze", "Likes lists", "Both of", "Tea before", "Odd grade"]
    assert [hit.recall and hit.recall.triggers for hit in hits][:2] == ["long; list", "deploy; release"]
    assert [hit.recall and hit.recall.importance for hit in hits] == [10, 8, 8, None, None, None]
    assert all(hit.recall and hit.recall.eligible and hit.score == 0 for hit in hits)
    assert hits[0].excerpt == "- The long one\n  goes on\n  and on"
    assert (hits[0].reference.fragment, hits[0].lines.end - hits[0].lines.start) == ("L9-L11", 2)


def test_project_keys_of_trigger_candidates(told: World) -> None:
    """Absent: any; empty: untagged only; given: untagged, and entries all of whose keys are active."""
    everything = firsts(listed(told, "trigger"))
    untagged = [name for name in everything if name != "Both of"]
    assert firsts(listed(told, "trigger", active_project_keys=())) == untagged
    assert firsts(listed(told, "trigger", active_project_keys=("lib",))) == untagged
    both = ("lib", "github.com/acme/app", "other")
    assert firsts(listed(told, "trigger", active_project_keys=both)) == everything
    assert firsts(listed(told, "trigger", active_project_keys=("lib", "GITHUB.com/acme/app"))) == everything
    assert firsts(listed(told, "trigger", active_project_keys=("lib", "github.com/ACME/app"))) == untagged


def test_project_candidates_need_all_their_keys_active(told: World) -> None:
    assert listed(told, "project") == []
    assert listed(told, "project", active_project_keys=()) == []
    app = ("github.com/acme/app",)
    assert firsts(listed(told, "project", active_project_keys=app)) == ["Uses tabs"]
    assert firsts(listed(told, "project", active_project_keys=(*app, "lib"))) == ["Uses tabs", "Both of"]
    assert firsts(listed(told, "project", active_project_keys=("ignored",))) == []


def test_limits_are_clamped_and_have_defaults(world: Any) -> None:
    tagged = "".join(f"- entry {n} <!-- trigger: t --> <!-- project: p -->\n" for n in range(600))
    world.agent.write({"MEMORY.md": tagged})
    world.run(world.agent.scan())
    assert len(listed(world, "trigger")) == 512
    assert len(listed(world, "project", active_project_keys=("p",))) == 48
    for limit, count in ((-3, 1), (0, 1), (7, 7), (513, 512), (10**9, 512)):
        assert len(listed(world, "trigger", limit=limit)) == count
        assert len(listed(world, "project", active_project_keys=("p",), limit=limit)) == count


def test_a_candidate_is_whole_and_a_hit_of_the_same_entry_is_cut_at_a_line_end(world: Any) -> None:
    lines = ["- The keel is <!-- trigger: keel -->", *(f"  plank {n} {'oak ' * 20}end" for n in range(20))]
    world.agent.write({"MEMORY.md": "\n".join(lines) + "\n"})
    world.run(world.agent.scan())
    (candidate,) = listed(world, "trigger")
    assert candidate.excerpt == strip("\n".join(lines))
    (hit,) = world.run(world.agent.page("keel plank", 5)).hits
    assert hit.reference == candidate.reference
    assert len(hit.excerpt) <= 700
    assert candidate.excerpt.startswith(hit.excerpt + "\n")
    assert hit.citations[0].end_line == hit.lines.end < candidate.lines.end


def test_neighbouring_entries_are_two_hits_with_the_references_of_their_candidates(told: World) -> None:
    hits = told.run(told.agent.page("deploys tabs tea hello", 20, min_score=0.0)).hits
    names = {hit.excerpt.split()[1] for hit in hits if hit.path == "MEMORY.md"}
    assert {"Deploys", "Uses", "Both", "Tea"} <= names
    candidates = listed(told, "trigger")
    by_lines = {(hit.path, hit.reference.fragment): hit for hit in hits}
    shared = [each for each in candidates if (each.path, each.reference.fragment) in by_lines]
    assert len(shared) >= 3
    for each in shared:
        hit = by_lines[each.path, each.reference.fragment]
        assert (hit.reference, hit.recall, hit.excerpt) == (each.reference, each.recall, each.excerpt)


def test_only_curated_entries_are_eligible_in_a_search(told: World) -> None:
    hits = told.run(told.agent.page("nothing tea lists", 20, min_score=0.0)).hits
    assert {hit.path for hit in hits} == set(FILES)
    for hit in hits:
        assert hit.recall is not None
        assert hit.recall.eligible == (hit.path != "memory/a.md")
    note = next(hit for hit in hits if hit.path == "memory/a.md")
    assert note.recall is not None
    assert (note.recall.triggers, note.recall.project_keys) == (None, ("lib",))


def test_an_entry_whose_recorded_origin_is_untrusted_is_found_but_never_offered(
    make_world: Callable[..., World],
) -> None:
    untrusted: set[tuple[str, str]] = set()

    def origin(path: str, revised: str) -> OriginClass | None:
        return "untrusted" if (path, revised) in untrusted else None

    world = make_world(recorded_origin=origin)
    world.agent.write(FILES)
    world.run(world.agent.scan())
    tea = next(hit for hit in listed(world, "trigger") if "Tea" in hit.excerpt)
    untrusted.add((tea.path, tea.reference.revision or ""))
    assert "Tea before" not in firsts(listed(world, "trigger"))
    assert len(listed(world, "trigger")) == 5
    hit = world.run(world.agent.page("tea before ten", 5)).hits[0]
    assert hit.reference == tea.reference
    assert hit.recall is not None
    assert not hit.recall.eligible


def test_an_entry_that_changed_on_disk_is_not_offered_before_it_is_indexed(told: World) -> None:
    async def ask() -> Any:
        return await (await told.agent.handle()).candidates(CandidateRequest(kind="trigger"))

    (told.agent.workspace / "MEMORY.md").write_text(MEMORY.replace("Tea", "Coffee"))
    page = told.run(ask())
    assert [hit.path for hit in page.hits] == ["USER.md"]
    assert page.coverage == "partial"
    assert "MEMORY.md" in page.warning
    told.run(told.agent.scan())
    assert "Coffee before" in firsts(listed(told, "trigger"))


@pytest.mark.parametrize(
    "authority",
    [
        HostOperation(operation="status"),
        Session(session_key="agent:main:main", sandboxed=False),
        Session(session_key="agent:main:main", sandboxed=True, audience=OwnerPrivate(agent_id="main")),
        Session(session_key="agent:main:main", sandboxed=False, audience=OwnerPrivate(agent_id="other")),
        Session(
            session_key="agent:main:main",
            sandboxed=False,
            audience=Conversation(agent_id="main", session_key="agent:main:main", session_id="s"),
        ),
    ],
)
def test_who_may_not_read_is_given_no_page_no_candidates_and_no_refresh_that_is_not_the_hosts(
    told: World, authority: Any
) -> None:
    async def check() -> None:
        allowed = await told.agent.handle()
        first = await allowed.search(SearchRequest(query="tea", max_results=1, min_score=0.0))
        handle = await told.agent.handle(authority)
        for cursor in (None, first.next_cursor, "made up"):
            page = await handle.search(
                SearchRequest(query="tea", max_results=1, min_score=0.0, cursor=cursor)
            )
            assert (page.hits, page.next_cursor) == ((), None)
            assert page.warning
        page = await handle.candidates(CandidateRequest(kind="trigger"))
        assert page.hits == ()
        assert page.warning
        if isinstance(authority, HostOperation) or isinstance(authority.audience, Conversation):
            await handle.refresh()  # tells nothing, and hosts ask for it after a compaction (U§16)
        else:
            with pytest.raises(AccessDenied, match="memory access denied"):
                await handle.refresh()

    told.run(check())


def test_a_refresh_is_one_scan_to_its_end(told: World) -> None:
    async def check() -> None:
        handle = await told.agent.handle()
        (told.agent.workspace / "memory" / "new.md").write_text("The sextant is in the attic.\n")
        assert not [h for h in (await told.agent.page("sextant", 5)).hits if "sextant" in h.excerpt]
        await handle.refresh()
        assert (await told.agent.page("sextant", 5)).hits[0].path == "memory/new.md"
        await handle.close()
        await handle.close()

    told.run(check())


@settings(max_examples=15)
@given(
    st.lists(
        st.sampled_from(
            [
                "- plain valve", "- keyed valve <!-- project: p -->", "- two <!-- project: p; q -->",
                "- bad valve <!-- project: ; -->", "  more <!-- trigger: t -->", "  more", "", "## Head",
                "- mine <!-- trigger: a --> <!-- importance: 3 -->", "valve " * 150, "para",
                "- valve " + "x " * 400 + "<!-- trigger: u -->", "* star <!-- importance: 9 -->", "\t",
            ]
        ),
        min_size=1,
        max_size=14,
    )
)  # fmt: skip
def test_every_hit_of_an_entry_is_named_like_its_candidate(world: Any, lines: list[str]) -> None:
    """Whatever the file: one hit an entry, never of a malformed one; a candidate is read back whole."""
    world.agent.write({"MEMORY.md": "\n".join(lines)})
    world.run(world.agent.scan())
    hits = world.run(world.agent.page("valve more plain keyed two mine", 200, min_score=0.0)).hits
    assert not any("bad valve" in hit.excerpt for hit in hits)
    spans = sorted(bounds(hit.reference.fragment) for hit in hits)
    assert all(one[1] < other[0] for one, other in pairwise(spans))
    by_start = {bounds(hit.reference.fragment)[0]: hit for hit in hits}
    for each in (*listed(world, "trigger"), *listed(world, "project", active_project_keys=("p", "q"))):
        start, end = bounds(each.reference.fragment)
        raw = world.agent.lines("MEMORY.md")[start - 1 : end]
        assert each.excerpt == strip("\n".join(raw))
        found = by_start.get(start)
        assert found is None or found.reference == each.reference

        async def read(reference: Any = each.reference) -> Any:
            return await (await world.agent.handle()).get(GetRequest(reference=reference))

        assert world.run(read()).text == "\n".join(raw)

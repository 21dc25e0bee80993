"""The pure part of the adapter: scope keys, references, scores and lines."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from sidecar.adapters.powercontext.mapping import (
    Coverage,
    Named,
    ScopeKey,
    cosine,
    format_id,
    parse_id,
    read_of,
    reference_to,
    scope_keys,
)
from sidecar.adapters.powercontext.shapes import Channel

from sidecar.domain.memory import Found, GetRequest, NotFound

NAMED = Named("server", "art_1", None)
KEYS = st.text(min_size=1, max_size=300).filter(lambda key: key.strip() == key)


def test_scopes_are_those_that_were_asked_for() -> None:
    assert scope_keys("main", None) == scope_keys("main", ()) == (ScopeKey("main"),)
    assert scope_keys("main", ("GitHub.com/A/b", "github.com/A/b", "c")) == (
        ScopeKey("main", "github.com/A/b"),
        ScopeKey("main", "c"),
    )
    # A key that is no key covers nothing, and above all not the agent's own scope.
    assert scope_keys("main", ("  ",)) == ()


@given(KEYS, KEYS)
def test_different_projects_never_share_a_scope(one: str, other: str) -> None:
    names = [ScopeKey("main", one).external_id, ScopeKey("main", other).external_id]
    assert (names[0] == names[1]) == (one == other)
    assert all(0 < len(name) <= 256 for name in names)


def test_a_project_is_never_bound_like_an_agent_whose_name_looks_like_it() -> None:
    assert ScopeKey("a", "x").binding == {
        "integration": "openclaw-sidecar", "kind": "project", "external_id": "openclaw:agent:a:project:x",
    }  # fmt: skip
    assert ScopeKey("a:project:x").binding["kind"] == "agent"


@given(st.one_of(st.none(), KEYS))
def test_an_id_comes_back_as_what_it_was_made_of(project: str | None) -> None:
    named = Named("6b0-af", "art_0123456789abcdef", project)
    assert parse_id(format_id(named)) == named


@given(st.text(max_size=60))
def test_any_text_may_be_asked_for_as_an_id(text: str) -> None:
    named = parse_id(text)
    assert named is None or format_id(named) == text
    for bad in ("a/../b", "a/b/c", "/art_1", "a/", "a/b?x", "a/b%2f..", "a b/c", "a/b/project:"):
        assert parse_id(bad) is None


def test_a_score_is_the_share_of_the_words_of_the_query() -> None:
    coverage = Coverage("rotating the staging keys")
    assert coverage.of("keys of staging rotate on Mondays") == 1.0
    assert math.isclose(coverage.of("the staging database"), 1 / 3)
    assert coverage.of("") == 0.0
    assert Coverage("毎朝 漢字").of("毎朝、漢字を五つ覚える。") == 1.0
    assert Coverage("???").of("anything") == 0.0


@given(st.text(max_size=80), st.text(max_size=200))
def test_a_share_is_between_nothing_and_all_and_all_for_a_text_that_holds_the_query(
    query: str, text: str
) -> None:
    coverage = Coverage(query)
    assert 0.0 <= coverage.of(text) <= 1.0 + 1e-9
    assert coverage.of(f"{text} {query} {text}") in (0.0,) or math.isclose(
        coverage.of(f"{text} {query} {text}"), 1.0
    )


def test_a_cosine_is_read_off_the_distance_of_unit_vectors_only() -> None:
    assert cosine(Channel(0.0, "l2_distance")) == 1.0
    assert math.isclose(cosine(Channel(1.0, "l2_distance")) or 0, 0.5)
    assert cosine(Channel(2.0, "l2_distance")) == 0.0
    assert cosine(Channel(-3.0, "sqlite_bm25")) is None


@given(
    st.lists(st.text(alphabet="ab é", max_size=5), max_size=8),
    st.one_of(st.none(), st.integers(1, 12)),
    st.one_of(st.none(), st.integers(1, 12)),
)
def test_lines_are_walked_without_loss_or_overlap(
    lines: list[str], first: int | None, count: int | None
) -> None:
    text = "\n".join(lines)
    body = text.split("\n")[:-1] if text.endswith("\n") or not text else text.split("\n")
    request = GetRequest(reference=reference_to(NAMED, 1), from_line=first, line_count=count)
    seen: list[str] = []
    start = first or 1
    while True:
        found = read_of(NAMED, 1, text, request)
        assert isinstance(found, Found)
        assert (found.from_line, found.truncated) == (start, found.next_from is not None)
        part = found.text.split("\n") if found.line_count else []
        assert len(part) == found.line_count
        assert found.line_count <= (count or 120)
        seen += part
        if found.next_from is None:
            break
        start = found.next_from
        request = GetRequest(reference=request.reference, from_line=start, line_count=count)
    assert seen == body[(first or 1) - 1 :]


def test_a_fragment_narrows_to_its_lines_or_names_nothing() -> None:
    reference = reference_to(NAMED, 1)
    for fragment, text in (("L2-L3", "b\nc"), ("L1-L1", "a"), ("L3-L4", None), ("x", None), ("L2-L1", None)):
        asked = GetRequest(
            reference=type(reference)(
                provider_id=reference.provider_id, id=reference.id, revision="1", fragment=fragment
            )
        )
        found = read_of(NAMED, 1, "a\nb\nc", asked)
        assert found == NotFound() if text is None else isinstance(found, Found) and found.text == text
    long = read_of(NAMED, 1, "\n".join(map(str, range(200))), GetRequest(reference=reference))
    assert isinstance(long, Found)
    assert (long.line_count, long.truncated, long.next_from) == (120, True, 121)

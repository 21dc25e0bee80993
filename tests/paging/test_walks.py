"""What is kept of a search for its next pages: bounded in time and number, and only for its own caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.domain.authority import CallerContext, HostOperation, Operator, OwnerPrivate, Session
from sidecar.domain.errors import CursorExpired, CursorInvalid
from sidecar.domain.memory import LineRange, ScoreParts, SearchRequest
from sidecar.ranking.floor import StrictFloor
from sidecar.service.cursors import CursorMint, Owner, binding, new_walk_id, owner_of
from sidecar.service.descent import Descent
from sidecar.service.offload import Offload
from sidecar.service.walks import (
    KEPT_SECONDS,
    MOST_HITS,
    MOST_KEPT_HITS,
    MOST_UNWRITTEN,
    MOST_WALKS,
    KeptHit,
    Place,
    Walks,
)


class Clock:
    """Time that passes when a test says so."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def walks(clock: Clock) -> AsyncIterator[Walks]:
    offload = Offload(threads=2)

    async def quiet(_: float) -> None:
        await asyncio.sleep(0)

    kept = Walks(offload=offload, quiet=quiet, clock=clock)
    yield kept
    await kept.close()
    offload.close()


def rest() -> Descent:
    """What is left of a search without rankings: nothing."""
    return Descent(StrictFloor(0), demoted=0.8)


MINE, THEIRS = Owner("mine", ("operator", "mine")), Owner("theirs", ("operator", "theirs"))
KEPT = KeptHit(
    place=Place("memory/a.md", LineRange(1, 1), "revision"),
    before=(),
    twins=(),
    project_keys=(),
    source="memory",
    score=1.0,
    parts=ScoreParts(),
)


async def test_a_walk_is_kept_for_ten_minutes(walks: Walks, clock: Clock) -> None:
    walk_id = walks.begin(rest(), (), MINE)
    clock.now += KEPT_SECONDS - 1
    assert (await walks.get(walk_id)).hits == ()
    clock.now += 1
    with pytest.raises(CursorExpired):
        await walks.get(walk_id)
    assert KEPT_SECONDS == 600


async def test_the_walk_used_longest_ago_gives_way(walks: Walks) -> None:
    first, second = walks.begin(rest(), (), MINE), walks.begin(rest(), (), MINE)
    await walks.get(second)
    await walks.get(first)
    for _ in range(MOST_WALKS - 1):
        await walks.get(walks.begin(rest(), (), MINE))
    await walks.get(first)
    with pytest.raises(CursorExpired):
        await walks.get(second)


async def test_one_tokens_searches_never_push_out_another_tokens_cursors(walks: Walks) -> None:
    mine = [walks.begin(rest(), (), MINE) for _ in range(MOST_UNWRITTEN // 2)]
    for _ in range(MOST_WALKS):
        walks.begin(rest(), (), THEIRS)
    for walk_id in mine:
        assert (await walks.get(walk_id)).owner == MINE
    for _ in range(MOST_WALKS):
        await walks.get(walks.begin(rest(), (), THEIRS))
    for walk_id in mine:
        assert (await walks.get(walk_id)).owner == MINE


async def test_a_share_of_the_kept_hits_is_each_tokens_own(
    walks: Walks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.service.walks._written", lambda *_: (KEPT,) * MOST_HITS)
    share = MOST_KEPT_HITS // MOST_HITS // 2
    mine = [walks.begin(rest(), (), MINE) for _ in range(share)]
    for walk_id in mine:
        await walks.get(walk_id)
    for number in range(3 * share):
        theirs = walks.begin(rest(), (), Owner("theirs", ("session", str(number))))
        await walks.get(theirs)
    for walk_id in mine:
        assert len((await walks.get(walk_id)).hits) == MOST_HITS


async def test_of_a_tokens_callers_the_one_that_holds_most_gives_way(walks: Walks) -> None:
    quiet, loud = Owner("host", ("session", "quiet")), Owner("host", ("session", "loud"))
    kept = walks.begin(rest(), (), quiet)
    for _ in range(MOST_WALKS):
        await walks.get(walks.begin(rest(), (), loud))
    assert (await walks.get(kept)).owner == quiet


def test_a_walk_belongs_to_the_token_and_the_session_that_asked() -> None:
    def owner(token: str, session: str) -> Owner:
        authority = Session(session_key=session, sandboxed=False)
        return owner_of(CallerContext(authority=authority, assert_current=lambda: None, token_name=token))

    assert owner("one", "a") == owner("one", "a")
    assert owner("one", "a").token != owner("two", "a").token
    assert owner("one", "a").caller != owner("one", "b").caller


async def test_walks_that_nobody_could_write_down_yet_are_bounded(walks: Walks) -> None:
    begun = [walks.begin(rest(), (), MINE) for _ in range(MOST_UNWRITTEN + 1)]
    with pytest.raises(CursorExpired):
        await walks.get(begun[0])
    await walks.get(begun[1])


async def test_whoever_waits_for_a_walk_is_told_when_it_gives_way(walks: Walks) -> None:
    walk_id = walks.begin(rest(), (), MINE)
    waiting = asyncio.create_task(walks.get(walk_id))
    await asyncio.sleep(0)
    await walks.close()
    with pytest.raises(CursorExpired):
        await waiting
    with pytest.raises(CursorExpired):
        await walks.get(walks.begin(rest(), (), MINE))


async def test_a_walk_that_cannot_go_on_fails_alone(walks: Walks) -> None:
    class Broken(Descent):
        def advance(self, most: int, steps: int) -> bool:  # noqa: ARG002
            raise RuntimeError("broken ranking")

    broken, whole = walks.begin(Broken(StrictFloor(0), demoted=0.8), (), MINE), walks.begin(rest(), (), MINE)
    with pytest.raises(Exception, match="could not be continued"):
        await walks.get(broken)
    assert (await walks.get(whole)).hits == ()


async def test_a_caller_that_goes_away_leaves_the_walk_to_others(walks: Walks) -> None:
    walk_id = walks.begin(rest(), (), MINE)
    waiting = asyncio.create_task(walks.get(walk_id))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (await walks.get(walk_id)).hits == ()


@given(st.integers(0, 47), st.integers(0, 63), st.integers(0, 65535))
def test_a_cursor_with_one_sign_changed_is_invalid(at: int, sign: int, position: int) -> None:
    mint, walk, bound_to = CursorMint(), new_walk_id(), b"caller"
    cursor = mint.make(walk, position, bound_to)
    assert mint.read(cursor, bound_to) == (walk, position)
    at %= len(cursor)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    changed = cursor[:at] + alphabet[sign] + cursor[at + 1 :]
    if changed != cursor:
        with pytest.raises(CursorInvalid):
            mint.read(changed, bound_to)
    with pytest.raises(CursorInvalid):
        mint.read(cursor, b"another")
    with pytest.raises(CursorInvalid):
        CursorMint().read(cursor, bound_to)


@given(st.text(max_size=80))
def test_made_up_cursors_are_invalid_whatever_they_hold(text: str) -> None:
    with pytest.raises(CursorInvalid):
        CursorMint().read(text, b"caller")


def bound(authority: Any, identity: str = "gateway", **asked: Any) -> bytes:
    context = CallerContext(authority=authority, assert_current=lambda: None, identity=identity)
    request = SearchRequest(**{"query": "lantern", **asked})
    return binding(context, request, asked.get("sources") or ("memory",))


def test_a_cursor_is_bound_to_caller_query_and_filters_and_to_nothing_else() -> None:
    session = Session(session_key="agent:main:main", sandboxed=False, session_id="s1")
    operator = Operator(scopes=("operator.read",), connection_id="c1")
    all_bound = [
        bound(operator),
        bound(operator, "other token"),
        bound(session),
        bound(Session(session_key="agent:main:other", sandboxed=False, session_id="s1")),
        bound(Session(session_key="agent:main:main", sandboxed=False, session_id="s2")),
        bound(HostOperation(operation="status")),
        bound(operator, query="lanterns"),
        bound(operator, min_score=0.0),
        bound(operator, lexical_only=True),
        bound(operator, active_project_keys=("a/b",)),
        bound(operator, sources=("memory", "sessions")),
    ]
    assert len(set(all_bound)) == len(all_bound)
    assert bound(Operator(scopes=(), connection_id="c2")) == bound(operator)
    assert bound(operator, max_results=3, cursor="x") == bound(operator)
    assert bound(operator, active_project_keys=()) == bound(operator)
    keys = bound(operator, active_project_keys=("GitHub.com/a", "b"))
    assert bound(operator, active_project_keys=("b", "github.com/a")) == keys
    audience = OwnerPrivate(agent_id="main")
    with_audience = Session(
        session_key="agent:main:main", sandboxed=False, session_id="s1", audience=audience
    )
    assert bound(with_audience, "named by the host") != bound(session)

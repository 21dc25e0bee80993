"""When an audience holds, for whom, and in which words it does not (U§6, spec §4.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from sidecar.domain.authority import Bearer, Conversation, OwnerPrivate, Principal
from sidecar.domain.errors import AccessDenied, Overloaded
from sidecar.domain.session_rows import SessionRow
from sidecar.domain.sessions import Audiences
from sidecar.host.audiences import AudienceBook, Minted
from sidecar.host.sessions import HostSessions
from sidecar.host.table import SessionTable
from sidecar.policy.lineage import NoAudience

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


async def test_a_resolved_audience_can_be_used_by_its_session(sessions: HostSessions, row: Any) -> None:
    main = row("main", 1, chat_type="direct")
    sessions.put(main)
    binding = bind(sessions, await resolved(sessions, main), main)
    await binding.settle()
    binding.assert_current()
    assert binding.audience == OWNER
    used_as: Audiences = sessions
    assert used_as is sessions


async def test_only_the_handle_counts_and_a_made_up_one_is_a_forgery(
    sessions: HostSessions, row: Any
) -> None:
    main = row("main", 1, chat_type="direct")
    sessions.put(main)
    handle = await resolved(sessions, main)
    for forged in ("", "x", handle[:-1], handle + "x", handle.swapcase()):
        with refused(NOT_MINTED_AT_OPEN):
            bind(sessions, forged, main)
        with refused(NOT_MINTED):
            await sessions.delegate(forged, session_key=main.session_key, session_id=None, bearer=GATEWAY)
        sessions.release(forged, bearer=GATEWAY)
    bind(sessions, handle, main).assert_current()


async def test_another_process_knows_no_handle_of_this_one(sessions: HostSessions, row: Any) -> None:
    main = row("main", 1, chat_type="direct")
    restarted = HostSessions(["main"])
    for process in (sessions, restarted):
        process.put(main)
    with refused(NOT_MINTED_AT_OPEN):
        bind(restarted, await resolved(sessions, main), main)


async def test_handles_are_long_and_never_repeat(sessions: HostSessions, row: Any) -> None:
    main = row("main", 1, chat_type="direct")
    sessions.put(main)
    handles = {await resolved(sessions, main) for _ in range(100)}
    assert len(handles) == 100
    assert min(map(len, handles)) >= 43


@pytest.mark.parametrize(
    "use",
    [
        {"session_key": "agent:main:other"},
        {"session_key": "agent:other:main"},
        {"session_key": "agent:main:main "},
        {"session_id": "00000009-0000-4000-8000-000000000000"},
    ],
)
async def test_another_session_cannot_use_it(sessions: HostSessions, row: Any, use: dict[str, str]) -> None:
    main = row("main", 1, chat_type="direct")
    sessions.put(main)
    handle = await resolved(sessions, main)
    with refused(ELSEWHERE):
        bind(sessions, handle, main, **use)
    bind(sessions, handle, main, session_id=None).assert_current()


CHANGES = {
    "its session was reset": {"number": 9},
    "its lifecycle changed": {"lifecycle_revision": "r2"},
    "its chat became a group": {"chat_type": "group"},
    "it became somebody's child": {"parent_session_key": "agent:main:x"},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("asker", ["root", "child", "grandchild"])
def test_a_lineage_that_changed_anywhere_ends_it_for_good_even_if_the_row_comes_back(
    book: AudienceBook, row: Any, change: dict[str, Any], asker: str
) -> None:
    root = row("main", 1, chat_type="direct", lifecycle_revision="r1")
    child = row("subagent:a", 2, parent=root)
    lineage = {"root": root, "child": child, "grandchild": row("subagent:b", 3, parent=child)}
    for item in lineage.values():
        book.table.put(item)
    handle = granted(book, lineage[asker])
    book.assert_current(handle)
    fields = {"number": 1, "chat_type": "direct", "lifecycle_revision": "r1"} | change
    book.table.put(row("main", **fields))
    with refused(STALE):
        book.assert_current(handle)
    book.table.put(root)
    with refused(STALE):
        book.assert_current(handle)
    book.assert_current(granted(book, lineage[asker]))


def test_a_deleted_session_ends_it_and_so_does_a_full_set_without_it(book: AudienceBook, row: Any) -> None:
    main = row("main", 1, chat_type="direct")
    for end in (lambda: book.table.delete(main.session_key), lambda: book.table.replace([])):
        book.table.put(main)
        handle = granted(book, main)
        end()
        with refused(STALE):
            book.assert_current(handle)
        book.table.put(main)
        with refused(STALE):
            book.assert_current(handle)


def test_writes_of_the_same_incarnation_keep_it_and_so_does_the_full_set(
    book: AudienceBook, row: Any
) -> None:
    main = row("main", 1, chat_type="direct")
    book.table.put(main)
    handle = granted(book, main)
    book.table.put(row("main", 1, chat_type="direct", sender_is_owner=False))
    book.table.replace([main, row("second", 2)])
    book.table.put(row("third", 3))
    book.assert_current(handle)


def test_a_pending_row_makes_currency_unavailable_until_it_is_published(book: AudienceBook, row: Any) -> None:
    root = row("main", 1, chat_type="direct")
    child = row("subagent:a", 2, parent=root)
    for item in (root, child):
        book.table.put(item)
    handle = granted(book, child)
    for announced in (root, row("main", 9, chat_type="direct")):
        book.table.put(msgspec.structs.replace(announced, pending=True))
        with refused(UNAVAILABLE):
            book.assert_current(handle)
        book.table.put(root)
        book.assert_current(handle)
    book.table.put(row("main", 9, chat_type="direct", pending=True))
    book.table.put(row("main", 9, chat_type="direct"))
    with refused(STALE):
        book.assert_current(handle)


async def test_whoever_comes_while_a_row_is_written_waits_for_it(row: Any) -> None:
    patient = HostSessions(["main"], settle_seconds=20)
    main = row("main", 1, chat_type="direct")
    patient.put(main)
    binding = bind(patient, await resolved(patient, main), main)
    patient.put(msgspec.structs.replace(main, pending=True))
    waiting = asyncio.create_task(binding.settle())
    asking = asyncio.create_task(resolved(patient, main))
    await asyncio.sleep(0)
    assert not waiting.done()
    patient.put(main)
    await asyncio.wait_for(asyncio.gather(waiting, asking), 20)
    binding.assert_current()


async def test_the_wait_is_bounded_and_then_currency_is_unavailable(sessions: HostSessions, row: Any) -> None:
    main = row("main", 1, chat_type="direct")
    sessions.put(main)
    binding = bind(sessions, await resolved(sessions, main), main)
    sessions.put(msgspec.structs.replace(main, pending=True))
    await asyncio.wait_for(binding.settle(), 20)
    with refused(UNAVAILABLE):
        binding.assert_current()
    found = await sessions.resolve(
        agent_id="main",
        session_key=main.session_key,
        session_id=main.session_id,
        sender_is_owner=True,
        bearer=GATEWAY,
    )
    assert isinstance(found, NoAudience)
    assert found.kind == "unverified"
    with refused(UNAVAILABLE):
        await sessions.delegate(
            binding._handle, session_key="agent:main:x", session_id=None, detached=True, bearer=GATEWAY
        )


def test_releasing_ends_it_and_what_was_delegated_from_it_and_may_be_done_twice(
    book: AudienceBook, row: Any
) -> None:
    main, child = row("main", 1, chat_type="direct"), row("subagent:a", 2)
    for item in (main, child):
        book.table.put(item)
    handle = granted(book, main)
    copy = book.delegate(handle, session_key=child.session_key, session_id=None, detached=False).handle
    second = granted(book, main)
    for _ in range(2):
        book.release(handle)
        for ended in (handle, copy):
            with refused(RELEASED):
                book.assert_current(ended)
    book.assert_current(second)


@pytest.mark.parametrize("key", ["agent:other:x", "agent:Main:x", "main", "agent:main:"])
def test_delegating_to_another_agent_is_refused(book: AudienceBook, row: Any, key: str) -> None:
    main = row("main", 1, chat_type="direct")
    book.table.put(main)
    with refused("memory audience delegation requires a session for the same agent"):
        book.delegate(granted(book, main), session_key=key, session_id=None, detached=True)


def test_delegating_to_a_child_that_does_not_exist_is_refused(book: AudienceBook, row: Any) -> None:
    main = row("main", 1, chat_type="direct")
    book.table.put(main)
    handle = granted(book, main)
    for session_id in (None, "run-7"):
        with refused("memory audience delegation requires an existing child session: agent:main:a"):
            book.delegate(handle, session_key="agent:main:a", session_id=session_id, detached=False)


async def test_a_child_that_changed_during_delegation_is_refused(row: Any) -> None:
    sessions = HostSessions(["main"], settle_seconds=20)
    words = "child session changed during memory audience delegation: agent:main:subagent:a"
    main, child = row("main", 1, chat_type="direct"), row("subagent:a", 2)
    for item in (main, child):
        sessions.put(item)
    handle = await resolved(sessions, main)
    with refused(words):
        await sessions.delegate(
            handle, session_key=child.session_key, session_id=row("x", 9).session_id, bearer=GATEWAY
        )
    for later in (row("subagent:a", 3), None):
        sessions.put(child)
        sessions.put(row("subagent:a", 3, pending=True))
        delegating = asyncio.create_task(
            sessions.delegate(handle, session_key=child.session_key, session_id=None, bearer=GATEWAY)
        )
        await asyncio.sleep(0)
        if later is None:
            sessions.delete(child.session_key)
        else:
            sessions.put(later)
        with refused(words):
            await asyncio.wait_for(delegating, 20)


def test_a_delegate_is_for_the_child_and_ends_with_it_while_the_parent_goes_on(
    book: AudienceBook, row: Any
) -> None:
    main = row("main", 1, chat_type="direct")
    child = SessionRow(session_key="agent:main:recall", session_id="run-7")
    for item in (main, child):
        book.table.put(item)
    handle = granted(book, main)
    copy = book.delegate(handle, session_key=child.session_key, session_id="run-7", detached=False).handle
    assert copy != handle
    assert book.bind(copy, session_key=child.session_key, session_id="run-7", lease="l") == OWNER
    with refused(ELSEWHERE):
        book.bind(copy, session_key=main.session_key, session_id=None, lease="l")
    book.table.put(msgspec.structs.replace(child, session_id="run-8"))
    with refused(STALE):
        book.assert_current(copy)
    book.assert_current(handle)


def test_a_change_of_the_parents_lineage_ends_the_delegate(book: AudienceBook, row: Any) -> None:
    main, child = row("main", 1, chat_type="direct"), row("subagent:a", 2)
    for item in (main, child):
        book.table.put(item)
    handle = granted(book, main)
    copy = book.delegate(handle, session_key=child.session_key, session_id=None, detached=False).handle
    further = book.delegate(copy, session_key="agent:main:b", session_id=None, detached=True).handle
    book.table.put(msgspec.structs.replace(main, pending=True))
    for held in (copy, further):
        with refused(UNAVAILABLE):
            book.assert_current(held)
    book.table.put(row("main", 9, chat_type="direct"))
    for held in (copy, further):
        with refused(STALE):
            book.assert_current(held)
    with refused(STALE):
        book.delegate(copy, session_key=child.session_key, session_id=None, detached=False)


def test_a_detached_child_rests_on_having_no_row(book: AudienceBook, row: Any) -> None:
    main = row("main", 1, chat_type="direct")
    book.table.put(main)
    handle = granted(book, main)
    copy = book.delegate(handle, session_key="agent:main:flush", session_id=None, detached=True).handle
    book.table.delete("agent:main:flush")
    book.assert_current(copy)
    book.table.put(row("flush", 4, pending=True))
    with refused(UNAVAILABLE):
        book.assert_current(copy)
    book.table.put(row("flush", 4))
    book.table.delete("agent:main:flush")
    with refused(STALE):
        book.assert_current(copy)


def test_delegation_cannot_go_on_for_ever(book: AudienceBook, row: Any) -> None:
    main = row("main", 1, chat_type="direct")
    book.table.put(main)
    handle = granted(book, main)
    for _ in range(64):
        handle = book.delegate(handle, session_key="agent:main:x", session_id=None, detached=True).handle
    with refused("session lineage exceeds 64 hops"):
        book.delegate(handle, session_key="agent:main:x", session_id=None, detached=True)


def test_an_admitted_audience_is_for_one_session_and_one_lease_and_ends_with_it(book: AudienceBook) -> None:
    handle = book.admit(OWNER, session_key="agent:main:s").handle
    with refused(ELSEWHERE):
        book.bind(handle, session_key="agent:main:t", session_id=None, lease="one")
    for _ in range(2):
        assert book.bind(handle, session_key="agent:main:s", session_id="any", lease="one") == OWNER
    with refused(ELSEWHERE):
        book.bind(handle, session_key="agent:main:s", session_id="any", lease="two")
    book.lease_ended("nobody's")
    book.lease_ended("two")
    book.assert_current(handle)
    book.lease_ended("one")
    with refused(RELEASED):
        book.assert_current(handle)


def test_a_lease_that_was_not_opened_uses_no_admitted_audience_up(book: AudienceBook) -> None:
    handle = book.admit(OWNER, session_key="agent:main:s").handle
    book.bind(handle, session_key="agent:main:s", session_id=None, lease="failed")
    book.lease_ended("failed", opened=False)
    book.assert_current(handle)
    book.bind(handle, session_key="agent:main:s", session_id=None, lease="one")
    book.lease_ended("one")
    with refused(RELEASED):
        book.assert_current(handle)


ELSE = "00000009-0000-4000-8000-000000000000"


def test_an_admitted_audience_is_for_the_incarnation_that_was_reported(book: AudienceBook, row: Any) -> None:
    reported = row("s", 1)
    book.table.put(reported)
    handle = book.admit(OWNER, session_key=reported.session_key).handle
    with refused(ELSEWHERE):
        book.bind(handle, session_key=reported.session_key, session_id=ELSE, lease="one")
    for named in (reported.session_id, None):
        assert book.bind(handle, session_key=reported.session_key, session_id=named, lease="one") == OWNER


def test_an_admitted_audience_is_for_the_incarnation_that_opened_with_it_first_also_once_it_is_reported(
    book: AudienceBook, row: Any
) -> None:
    mine = row("s", 1)
    for later in (mine, row("s", 9)):
        book.table.delete(mine.session_key)
        handle = book.admit(OWNER, session_key=mine.session_key).handle
        book.bind(handle, session_key=mine.session_key, session_id=mine.session_id, lease="one")
        with refused(ELSEWHERE):
            book.bind(handle, session_key=mine.session_key, session_id=ELSE, lease="one")
        book.table.put(later)
        if later is mine:
            book.assert_current(handle)
        else:
            with refused(STALE):
                book.assert_current(handle)


def test_a_vouched_root_opens_with_the_id_that_was_vouched_for(book: AudienceBook, row: Any) -> None:
    root = row("group", 1)
    audience = Conversation(agent_id="main", session_key=root.session_key, session_id=root.session_id)
    handle = book.admit(audience, session_key=root.session_key).handle
    with refused(ELSEWHERE):
        book.bind(handle, session_key=root.session_key, session_id=ELSE, lease="one")
    assert (
        book.bind(handle, session_key=root.session_key, session_id=root.session_id, lease="one") == audience
    )


def test_a_detached_child_opens_with_the_id_that_it_was_given_or_that_it_first_named(
    book: AudienceBook, row: Any
) -> None:
    main = row("main", 1, chat_type="direct")
    book.table.put(main)
    for given_id in ("run-7", None):
        copy = book.delegate(
            granted(book, main), session_key="agent:main:flush", session_id=given_id, detached=True
        ).handle
        book.bind(copy, session_key="agent:main:flush", session_id="run-7", lease="one")
        with refused(ELSEWHERE):
            book.bind(copy, session_key="agent:main:flush", session_id="run-8", lease="one")


async def test_a_handle_of_another_token_is_as_if_never_minted(
    sessions: HostSessions, row: Any, bearer: Any
) -> None:
    main, child = row("main", 1, chat_type="direct"), row("subagent:a", 2)
    for item in (main, child):
        sessions.put(item)
    handle = await resolved(sessions, main)
    for stranger in (bearer("gateway", "another secret"), bearer("other", "one")):
        assert sessions.agent_of_handle(handle, bearer=stranger) is None
        with refused(NOT_MINTED_AT_OPEN):
            bind(sessions, handle, main, bearer=stranger)
        with refused(NOT_MINTED):
            await sessions.delegate(handle, session_key=child.session_key, session_id=None, bearer=stranger)
        sessions.release(handle, bearer=stranger)
    bind(sessions, handle, main).assert_current()


async def test_handles_end_with_their_tokens_secret_and_do_not_come_back_with_it(row: Any) -> None:
    sessions = HostSessions(["main"])
    main = row("main", 1, chat_type="direct")
    sessions.put(main)
    stands = True
    fading = msgspec.structs.replace(GATEWAY, holds=lambda: stands)
    handle = sessions.admit(OWNER, session_key=main.session_key, bearer=fading).handle
    stands = False
    with refused(NOT_MINTED_AT_OPEN):
        bind(sessions, handle, main, bearer=fading)
    sessions.sweep()
    stands = True
    with refused(NOT_MINTED_AT_OPEN):
        bind(sessions, handle, main, bearer=fading)
    assert sessions.rows("main").by_key == {main.session_key: main}


async def test_one_token_cannot_push_out_what_another_has(row: Any, bearer: Any) -> None:
    sessions = HostSessions(["main"], most_audiences=2)
    main = row("main", 1, chat_type="direct")
    sessions.put(main)
    handle = await resolved(sessions, main)
    for _ in range(5):
        sessions.admit(OWNER, session_key=main.session_key, bearer=bearer("other"))
    bind(sessions, handle, main).assert_current()


def test_an_admitted_audience_ends_with_its_session(book: AudienceBook, row: Any) -> None:
    ends: dict[str, Callable[[], None]] = {
        "reset": lambda: book.table.put(row("s", 2)),
        "deleted": lambda: book.table.delete("agent:main:s"),
    }
    for reported_first in (True, False):
        for end in ends.values():
            book.table.delete("agent:main:s")
            if reported_first:
                book.table.put(row("s", 1))
            handle = book.admit(OWNER, session_key="agent:main:s").handle
            book.table.put(row("s", 1))
            book.assert_current(handle)
            end()
            with refused(STALE):
                book.assert_current(handle)
    handle = book.admit(OWNER, session_key="agent:main:never-reported").handle
    book.table.delete("agent:main:never-reported")
    with refused(STALE):
        book.assert_current(handle)


def test_a_vouched_conversation_must_not_contradict_what_was_reported_of_its_root(
    book: AudienceBook, row: Any
) -> None:
    root = row("group", 1, chat_type="group")
    audience = Conversation(agent_id="main", session_key=root.session_key, session_id=root.session_id)
    unreported = book.admit(audience, session_key="agent:main:s").handle
    book.table.put(root)
    book.assert_current(unreported)
    reported = book.admit(audience, session_key="agent:main:s").handle
    book.table.put(row("group", 2, chat_type="group"))
    for handle in (unreported, reported):
        with refused(STALE):
            book.assert_current(handle)
    with refused(STALE):
        book.admit(audience, session_key="agent:main:s")
    book.table.delete(root.session_key)
    late = book.admit(audience, session_key="agent:main:s").handle
    book.table.put(row("group", 3, chat_type="group"))
    with refused(STALE):
        book.assert_current(late)


def test_audiences_are_bounded_and_the_least_used_one_ends_first(mint: Callable[[], str], row: Any) -> None:
    book = AudienceBook(agent_id="main", table=SessionTable(), mint=mint, most=3)
    main = row("main", 1, chat_type="direct")
    book.table.put(main)
    first, second, third = (granted(book, main) for _ in range(3))
    book.assert_current(first)
    fourth = granted(book, main)
    with refused(STALE):
        book.assert_current(second)
    for handle in (first, third, fourth):
        book.assert_current(handle)
    assert book.live == 3


def test_rows_are_bounded_and_a_full_table_still_takes_changes(row: Any) -> None:
    table = SessionTable(most_rows=2)
    table.put(row("a", 1))
    table.put(row("b", 2, pending=True))
    for refuse in (lambda: table.put(row("c", 3)), lambda: table.replace([row(n, 1) for n in "abc"])):
        with pytest.raises(Overloaded):
            refuse()
    table.put(row("a", 4))
    table.put(row("b", 5))
    assert set(table.rows().by_key) == {"agent:main:a", "agent:main:b"}


def test_an_id_belongs_to_who_has_it_now_and_to_nobody_who_had_it(row: Any) -> None:
    table = SessionTable()
    for item in (row("a", 1), row("a", 2), row("b", 1)):
        table.put(item)
    old, now = row("x", 1).session_id, row("x", 2).session_id
    assert [item.session_key for item in table.rows().once_with_id(old)] == ["agent:main:b"]
    table.put(row("a", 3))
    assert [item.session_key for item in table.rows().once_with_id(now)] == ["agent:main:a"]
    table.delete("agent:main:a")
    assert table.rows().once_with_id(now) == ()


async def test_agents_do_not_know_each_others_rows(sessions: HostSessions, row: Any) -> None:
    sessions.put(row("main", 1, chat_type="direct"))
    sessions.put(SessionRow(session_key="agent:other:main", session_id=row("x", 2).session_id))
    assert set(sessions.rows("main").by_key) == {"agent:main:main"}
    assert set(sessions.rows("other").by_key) == {"agent:other:main"}
    sessions.replace("other", [])
    assert set(sessions.rows("main").by_key) == {"agent:main:main"}

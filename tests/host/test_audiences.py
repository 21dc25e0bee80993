"""When an audience holds, for whom, and in which words it does not (U§6, spec §4.2)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from audience_steps import (
    ELSEWHERE,
    GATEWAY,
    NOT_MINTED,
    NOT_MINTED_AT_OPEN,
    OWNER,
    RELEASED,
    STALE,
    UNAVAILABLE,
    bind,
    granted,
    refused,
    resolved,
)

from sidecar.domain.sessions import Audiences
from sidecar.host.audiences import AudienceBook
from sidecar.host.sessions import HostSessions
from sidecar.policy.lineage import NoAudience


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

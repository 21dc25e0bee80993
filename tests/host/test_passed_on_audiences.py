"""Audiences that were delegated to a child or admitted by a host, and when they end (U§6, spec §4.2)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from audience_steps import (
    ELSEWHERE,
    GATEWAY,
    OWNER,
    RELEASED,
    STALE,
    UNAVAILABLE,
    granted,
    refused,
    resolved,
)

from sidecar.domain.authority import Conversation
from sidecar.domain.session_rows import SessionRow
from sidecar.host.audiences import AudienceBook
from sidecar.host.sessions import HostSessions


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

"""An audience belongs to its token, and what a host can make is bounded (spec §4.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from audience_steps import (
    GATEWAY,
    NOT_MINTED,
    NOT_MINTED_AT_OPEN,
    OWNER,
    STALE,
    bind,
    granted,
    refused,
    resolved,
)

from sidecar.domain.authority import Conversation
from sidecar.domain.errors import Overloaded
from sidecar.domain.session_rows import SessionRow
from sidecar.host.audiences import AudienceBook
from sidecar.host.sessions import HostSessions
from sidecar.host.table import SessionTable


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

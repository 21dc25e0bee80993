"""Facts into the store, each exactly once, however often and from wherever the import is begun again.

`remember` is not idempotent, so what is there is asked first. A record counts as a fact's own if its first
revision has the fact's text: so what was revised, merged or forgotten since is neither written again nor
touched. Nothing is ever changed or removed. What a broken-off import did write is found in the same way; the
one write that it had no answer to may still come, so it is waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from sidecar.adapters.powercontext import shapes
from sidecar.adapters.powercontext.client import (
    Client,
    Late,
    Malformed,
    Refusal,
    Unreachable,
    deadline_in,
)
from sidecar.adapters.powercontext.facts import Fact, identity
from sidecar.adapters.powercontext.mapping import ScopeKey
from sidecar.adapters.powercontext.sent_write import SentWrite
from sidecar.adapters.powercontext.shapes import FAMILY, RecordList, Revision
from sidecar.adapters.powercontext.store import Store

from sidecar.domain.errors import Overloaded, ProviderFailed, Unavailable
from sidecar.text.annotations import normalise_project_key

log = logging.getLogger(__name__)
T = TypeVar("T")
Progress = Callable[[int, int], None]

CALL_SECONDS = 30.0
LOOK_SECONDS = 1.0
"""Between two looks for a write that may still come."""

ATTEMPTS = 5
PAGE = 100
STATES = ("active", "merged", "forgotten")
TITLE, SUMMARY = "Agent memory", "Memory of one agent, or of one project of it."
RACED = "binding-version"


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """How many facts were written now, and how many were there before."""

    written: int
    present: int


class Importer:
    """Writes one agent's facts under its own scope keys."""

    def __init__(self, *, client: Client, agent_id: str, sent: SentWrite) -> None:
        self._client = client
        self._store = Store(client)
        self._agent_id = agent_id
        self._sent = sent

    async def run(self, facts: Sequence[Fact], progress: Progress) -> Imported:
        """Write the facts that are not there. Raises when the server fails; running again goes on from there.

        Two imports of one agent must not run at the same time; the caller sees to that.
        """
        await self._store.server(deadline=deadline_in(CALL_SECONDS))
        wanted: dict[ScopeKey, dict[str, Fact]] = {}
        for fact in facts:
            project = None if fact.project is None else normalise_project_key(fact.project)
            of_scope = wanted.setdefault(ScopeKey(self._agent_id, project), {})
            of_scope.setdefault(identity(fact.text), fact)
        total = sum(map(len, wanted.values()))
        written = present = 0
        for key, of_scope in wanted.items():
            scope_id = await self._own_scope(key)
            known = await self._settled(scope_id)
            for text, fact in of_scope.items():
                if text in known:
                    present += 1
                else:
                    await self._remember(scope_id, fact)
                    written += 1
                progress(written + present, total)
        return Imported(written=written, present=present)

    async def _own_scope(self, key: ScopeKey) -> str:
        """The scope of a key, made and bound where there is none; making is idempotent by the key."""
        scope_id = await self._store.scope(key, deadline=deadline_in(CALL_SECONDS))
        if scope_id is not None:
            return scope_id
        made = await self._write(
            "POST",
            "/v1/scopes",
            shapes.Scope,
            {
                "title": TITLE,
                "summary": SUMMARY,
                "idempotency_key": key.external_id,
                "external_references": [{"kind": "openclaw", "value": key.external_id}],
            },
        )
        bound = await self._write(
            "PUT", "/v1/scope-bindings", shapes.Scope, {"key": key.binding, "scope_id": made.scope_id}
        )
        return bound.scope_id

    async def _settled(self, scope_id: str) -> set[str]:
        """What is known once the write that an earlier import sent last is there, or cannot come any more."""
        left = await asyncio.to_thread(self._sent.left)
        known = await self._known(scope_id)
        if left is None or left.scope_id != scope_id:
            return known
        is_told = False
        while (seconds := left.seconds_left) > 0 and not any(map(left.is_of, known)):
            if not is_told:
                log.warning(
                    "an earlier export ended while the server was writing: waiting up to %d s for it", seconds
                )
                is_told = True
            await asyncio.sleep(min(LOOK_SECONDS, seconds))
            known = await self._known(scope_id)
        return known

    async def _known(self, scope_id: str) -> set[str]:
        """The first texts of all records of a scope, whatever became of them."""
        known: set[str] = set()
        cursor: str | None = None
        while True:
            page = await self._read(
                "POST",
                "/v1/atomic-memory/list",
                RecordList,
                {"scope_id": scope_id, "states": STATES, "limit": PAGE, "cursor": cursor},
            )
            for record in page.items:
                text = record.text
                if record.artifact.revision > 1:
                    path = f"/v1/scopes/{scope_id}/artifacts/{FAMILY}/{record.artifact.artifact_id}"
                    text = (await self._read("GET", f"{path}/revisions/1", Revision, None)).content.text
                known.add(identity(text))
            cursor = page.next_cursor
            if cursor is None:
                return known

    async def _remember(self, scope_id: str, fact: Fact) -> None:
        body = {
            "scope_id": scope_id,
            "kind": fact.kind,
            "text": fact.text,
            "reason": f"imported from {fact.place}"[:512],
        }

        async def send() -> shapes.Remembered:
            await asyncio.to_thread(self._sent.note, scope_id, identity(fact.text))
            return await self._client.write(
                "POST",
                "/v1/memory/remember",
                shapes.Remembered,
                body=body,
                deadline=deadline_in(CALL_SECONDS),
            )

        try:
            answer = await self._patiently(send)
        except Unavailable as error:
            may_come = isinstance(error, Late) or (isinstance(error, Unreachable) and not error.unsent)
            if not may_come:
                await asyncio.to_thread(self._sent.answered)
            if may_come or isinstance(error, Malformed):
                raise ProviderFailed(
                    f"{error.message}; whether {fact.place} was written is not known, "
                    "run the import again: it looks first"
                ) from error
            raise
        await asyncio.to_thread(self._sent.answered)
        if [identity(record.text) for record in answer.records] != [identity(fact.text)]:
            raise ProviderFailed(f"powercontext: the server stored {fact.place} as something else")

    async def _read(self, verb: str, path: str, shape: type[T], body: Mapping[str, object] | None) -> T:
        return await self._patiently(
            lambda: self._client.read(verb, path, shape, body=body, deadline=deadline_in(CALL_SECONDS))
        )

    async def _write(self, verb: str, path: str, shape: type[T], body: Mapping[str, object]) -> T:
        return await self._patiently(
            lambda: self._client.write(verb, path, shape, body=body, deadline=deadline_in(CALL_SECONDS))
        )

    async def _patiently(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The call, again after what surely changed nothing: a full server, or a race for one binding."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await call()
            except Overloaded as error:
                if attempt == ATTEMPTS:
                    raise
                await asyncio.sleep((error.retry_after_ms or 0) / 1000)
            except Refusal as error:
                if attempt == ATTEMPTS or error.http_status != 409 or error.error_code != RACED:
                    raise
        raise AssertionError

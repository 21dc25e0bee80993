"""A memory provider over a file of JSON lines, one record a line: `{"id": ..., "text": ..., "url"?: ...}`.

    [agents.main]
    provider = "records"

    [agents.main.records]
    file = "/path/to/records.jsonl"

Everything a provider needs is in `sidecar.domain`. The service checks capabilities, references, who may read
and the caller's currency around every call, so this module is only about its records.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sidecar.domain.authority import CallerContext
from sidecar.domain.errors import SettingsError, Unavailable
from sidecar.domain.memory import (
    Citation,
    Found,
    GetRequest,
    Hit,
    NotFound,
    Page,
    ReadResult,
    Reference,
    SearchRequest,
)
from sidecar.domain.provider import Capabilities, Health, ProviderSetup, Purpose

PROVIDER_ID = "records"
MOST_BYTES = 64 * 1024 * 1024
WORD = re.compile(r"\w+")


class Record(msgspec.Struct, frozen=True):
    """One line of the file."""

    id: str
    text: str
    url: str | None = None

    @property
    def revision(self) -> str:
        """A name of exactly this text: another text under the same id is another revision."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:32]


class Records:
    """The file, read again when it changed. Blocking."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stamp: tuple[int, int] | None = None
        self._records: dict[str, Record] = {}

    def all(self) -> dict[str, Record]:
        """Every record by its id; raises `Unavailable` when the file cannot be read as records."""
        try:
            status = self._file.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp != self._stamp:
                if status.st_size > MOST_BYTES:
                    raise Unavailable(f"the file of records is over {MOST_BYTES} bytes")
                records = msgspec.json.decode(
                    b"[" + b",".join(filter(None, self._file.read_bytes().splitlines())) + b"]",
                    type=list[Record],
                )
                self._records = {record.id: record for record in records}
                self._stamp = stamp
        except (OSError, msgspec.MsgspecError) as error:
            # What reaches a caller holds no path of this machine.
            raise Unavailable(f"the file of records cannot be read: {type(error).__name__}") from error
        return self._records


class RecordsProvider:
    """Opens handles on one agent's records."""

    provider_id = PROVIDER_ID

    def __init__(self, setup: ProviderSetup, records: Records) -> None:
        self._agent_id = setup.agent_id
        self._records = records

    async def start(self) -> None:
        """Called once before the first `open`: a good place for what may fail early and loudly."""
        await asyncio.to_thread(self._records.all)

    async def open(self, agent_id: str, context: CallerContext, purpose: Purpose) -> RecordsHandle:
        """A handle for one caller. The agent is the one that this provider was made for.

        `context` says who calls, for a provider that has rules of its own beyond those of the service.
        """
        del context, purpose
        if agent_id != self._agent_id:
            raise Unavailable("Memory provider unavailable")
        return RecordsHandle(self._records)

    async def aclose(self) -> None:
        """Called once at the end. There is nothing to release here."""


class RecordsHandle:
    """An open handle. What is declared here is all that the service will ask for."""

    capabilities = Capabilities(sources=("memory",), pagination=False, candidates=(), project_filter=False)

    def __init__(self, records: Records) -> None:
        self._records = records

    async def search(self, request: SearchRequest) -> Page:
        """The records that share words with the query; the score is the share of the query's words."""
        wanted = set(words(request.query))
        records = await asyncio.to_thread(self._records.all)
        found = [
            (score, record)
            for record in records.values()
            if (score := len(wanted.intersection(words(record.text))) / max(1, len(wanted))) > 0
            and score >= (request.min_score or 0)
        ]
        found.sort(key=lambda pair: (-pair[0], pair[1].id))
        return Page(
            hits=tuple(hit(record, score) for score, record in found[: request.max_results]),
            coverage="complete",
        )

    async def get(self, request: GetRequest) -> ReadResult:
        """A record's text. A revision names exact text: if the record says something else now, it is gone."""
        asked = request.reference
        record = (await asyncio.to_thread(self._records.all)).get(asked.id)
        if record is None or asked.fragment is not None or asked.revision not in (None, record.revision):
            return NotFound()
        lines = record.text.split("\n")
        first = request.from_line or 1
        chosen = lines[first - 1 :][: request.line_count]
        following = first + len(chosen)
        truncated = bool(chosen) and following <= len(lines)
        return Found(
            reference=reference(record),
            text="\n".join(chosen),
            citations=(citation(record),),
            truncated=truncated,
            from_line=first,
            line_count=len(chosen),
            next_from=following if truncated else None,
        )

    async def health(self) -> Health:
        """The state and the count. The service gives whoever may not read the word `ready` alone."""
        try:
            records = await asyncio.to_thread(self._records.all)
        except Unavailable as error:
            return Health(status="unavailable", message=error.message)
        return Health(status="ready", details={"records": len(records)})

    async def close(self) -> None:
        """Release the handle; the records stay."""


def words(text: str) -> Sequence[str]:
    """The words of a text, for comparing."""
    return WORD.findall(text.casefold())


def reference(record: Record) -> Reference:
    """The name of exactly this text."""
    return Reference(provider_id=PROVIDER_ID, id=record.id, revision=record.revision)


def citation(record: Record) -> Citation:
    """Where it stands, for people."""
    return Citation(label=record.id, reference=reference(record), url=record.url)


def hit(record: Record, score: float) -> Hit:
    """A record as a result. There are no lines to name, so none are named."""
    return Hit(
        reference=reference(record),
        excerpt=record.text[:700],
        score=score,
        source="memory",
        citations=(citation(record),),
    )


def make(setup: ProviderSetup) -> RecordsProvider:
    """What the entry point names. Refuses settings that cannot work in one line that names the key."""
    key = f"agents.{setup.agent_id}.{PROVIDER_ID}"
    unknown = sorted(set(setup.options) - {"file"})
    if unknown:
        raise SettingsError(f"{key}.{unknown[0]} is not a known key, accepted here: file")
    file = setup.options.get("file")
    if not isinstance(file, str) or not Path(file).is_absolute():
        raise SettingsError(f"{key}.file accepts the absolute path of a file of JSON lines")
    return RecordsProvider(setup, Records(Path(file)))

"""What the server answers, as far as it is read here. A field that is missing makes an answer malformed.

So does a name that could not stand where we put it: ids go into paths of requests and into our references.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

FAMILY = "atomic-memory"

Id = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,128}\Z")]
"""Issued by the server, for a scope or a record."""

ServerId = Annotated[str, Meta(pattern=r"\A[^/\s]{1,128}\Z")]
Number = Annotated[int, Meta(ge=1, le=9_999_999_999)]
"""Of a revision."""


class Ready(msgspec.Struct, frozen=True):
    """`GET /health/ready`."""

    status: str


class ContractVersion(msgspec.Struct, frozen=True):
    """A version of the HTTP contract."""

    major: int
    minor: int


class ServerInfo(msgspec.Struct, frozen=True):
    """`GET /v1/server-info`."""

    server_id: ServerId
    package_version: str
    api_contract_version: ContractVersion
    feature_contracts: dict[str, object]


class ServerCapabilities(msgspec.Struct, frozen=True):
    """`GET /v1/capabilities`: the modes that a search may ask for."""

    search_modes: tuple[str, ...]


class Scope(msgspec.Struct, frozen=True):
    """A partition of the store, made, bound or resolved."""

    scope_id: Id


class Content(msgspec.Struct, frozen=True):
    """What a revision of a record says."""

    kind: str
    text: str


class Channel(msgspec.Struct, frozen=True):
    """The raw figure of one way to find a record."""

    raw: float
    metric: str


class Scores(msgspec.Struct, frozen=True):
    """Only the raw channels compare across queries: the server's own score is a rank."""

    channels: dict[str, Channel]


class FoundRecord(msgspec.Struct, frozen=True):
    """One result of a search."""

    family: Literal["atomic-memory"]
    artifact_id: Id
    revision: Number
    content: Content
    scores: Scores


class SearchResults(msgspec.Struct, frozen=True):
    """`POST .../artifacts/atomic-memory/search`, best first."""

    results: tuple[FoundRecord, ...]


class Revision(msgspec.Struct, frozen=True):
    """`GET .../artifacts/atomic-memory/{id}` and `.../revisions/{n}`."""

    scope_id: Id
    artifact_id: Id
    revision: Number
    content: Content


class ArtifactName(msgspec.Struct, frozen=True):
    """A revision's name inside its scope."""

    artifact_id: Id
    revision: Number


class RecordState(msgspec.Struct, frozen=True):
    """`GET .../artifacts/atomic-memory/{id}/state`."""

    artifact: ArtifactName
    state: str


class ListedRecord(msgspec.Struct, frozen=True):
    """One record of a list: the newest revision."""

    artifact: ArtifactName
    kind: str
    text: str
    state: str


class RecordList(msgspec.Struct, frozen=True):
    """`POST /v1/atomic-memory/list`."""

    items: tuple[ListedRecord, ...]
    next_cursor: str | None = None


class Remembered(msgspec.Struct, frozen=True):
    """`POST /v1/memory/remember`."""

    records: tuple[ListedRecord, ...]


class ErrorBody(msgspec.Struct, frozen=True):
    """The code of an error."""

    code: str


class ErrorAnswer(msgspec.Struct, frozen=True):
    """How the server itself refuses; routes that do not exist answer otherwise."""

    error: ErrorBody

"""What the server answers, as far as it is read here. A field that is missing makes an answer malformed."""

from __future__ import annotations

import msgspec

FAMILY = "atomic-memory"


class Ready(msgspec.Struct, frozen=True):
    """`GET /health/ready`."""

    status: str


class ContractVersion(msgspec.Struct, frozen=True):
    """A version of the HTTP contract."""

    major: int
    minor: int


class ServerInfo(msgspec.Struct, frozen=True):
    """`GET /v1/server-info`."""

    server_id: str
    package_version: str
    api_contract_version: ContractVersion
    feature_contracts: dict[str, object]


class ServerCapabilities(msgspec.Struct, frozen=True):
    """`GET /v1/capabilities`: the modes that a search may ask for."""

    search_modes: tuple[str, ...]


class Scope(msgspec.Struct, frozen=True):
    """A partition of the store; its id is issued by the server."""

    scope_id: str


class Binding(msgspec.Struct, frozen=True):
    """`PUT /v1/scope-bindings`."""

    scope_id: str


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

    family: str
    artifact_id: str
    revision: int
    content: Content
    scores: Scores


class SearchResults(msgspec.Struct, frozen=True):
    """`POST .../artifacts/atomic-memory/search`, best first."""

    results: tuple[FoundRecord, ...]


class Revision(msgspec.Struct, frozen=True):
    """`GET .../artifacts/atomic-memory/{id}` and `.../revisions/{n}`."""

    scope_id: str
    artifact_id: str
    revision: int
    content: Content


class ArtifactName(msgspec.Struct, frozen=True):
    """A revision's name inside its scope."""

    artifact_id: str
    revision: int


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

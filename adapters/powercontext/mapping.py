"""Ours to theirs and back, without I/O: scope keys, references, scores and lines.

A scope key names one partition: `openclaw:agent:<agentId>`, or one project of it with `:project:<key>`
behind.
A reference carries the server's id, the record's id and the project, never a scope id and never the agent:
which agent is read comes from who opened the handle.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256

import msgspec
from sidecar.adapters.powercontext.shapes import FAMILY, Channel, FoundRecord, ServerInfo

from sidecar.domain.memory import (
    AutomaticRecall,
    Citation,
    Found,
    GetRequest,
    Hit,
    NotFound,
    ReadResult,
    Reference,
    ScoreParts,
)
from sidecar.text.annotations import normalise_project_key
from sidecar.text.fragments import parse_fragment
from sidecar.text.lines import cut_utf16, split_lines
from sidecar.text.terms import index_terms, query_terms

PROVIDER_ID = "powercontext"
INTEGRATION = "openclaw-sidecar"
LONGEST_EXTERNAL_ID = 256
LONGEST_QUERY = 8192
LONGEST_EXCERPT = 700
LONGEST_SCORED = 16_384
"""Characters of a record that its words are looked for in; the store takes 8,192 bytes."""

MOST_LINES = 120
MOST_PROJECTS = 16
"""So many project scopes are asked in one search; each is a request of its own."""

CONTRACT_MAJOR = 1
LEAST_MINOR = 3
NEEDED_FEATURE = "memory.explicit"

_REFERENCE = re.compile(
    r"(?P<server>[^/\s]{1,128})/(?P<artifact>[A-Za-z0-9_-]{1,128})(?:/project:(?P<project>.+))?\Z", re.DOTALL
)
_NUMBER = re.compile(r"[1-9][0-9]{0,9}\Z")


class ScopeKey(msgspec.Struct, frozen=True):
    """One partition of the store as we name it. `project` None: the agent's own."""

    agent_id: str
    project: str | None = None

    @property
    def name(self) -> str:
        """The key in full."""
        own = f"openclaw:agent:{self.agent_id}"
        return own if self.project is None else f"{own}:project:{self.project}"

    @property
    def external_id(self) -> str:
        """The key as the server takes it: hashed where it is too long."""
        name = self.name
        return name if len(name) <= LONGEST_EXTERNAL_ID else sha256(name.encode()).hexdigest()

    @property
    def binding(self) -> dict[str, str]:
        """The key of the server's table from foreign names to scopes."""
        kind = "agent" if self.project is None else "project"
        return {"integration": INTEGRATION, "kind": kind, "external_id": self.external_id}


class Named(msgspec.Struct, frozen=True):
    """What a reference names."""

    server_id: str
    artifact_id: str
    project: str | None


def scope_keys(agent_id: str, active_project_keys: Sequence[str] | None) -> tuple[ScopeKey, ...]:
    """The partitions that a search covers: the named projects, or the agent's own where none is named.

    Never more than was asked: naming a project does not add what belongs to the agent at large.
    """
    projects = dict.fromkeys(normalise_project_key(key) for key in active_project_keys or ())
    if not projects:
        return (ScopeKey(agent_id),)
    return tuple(ScopeKey(agent_id, project) for project in projects if project)


def contract_fault(info: ServerInfo) -> str | None:
    """Why this server cannot be used, None when it can. Before 1.3 the contract was another one."""
    version = info.api_contract_version
    if version.major != CONTRACT_MAJOR or version.minor < LEAST_MINOR:
        return (
            f"the server speaks contract {version.major}.{version.minor}, "
            f"needed is {CONTRACT_MAJOR}.{LEAST_MINOR} or a later {CONTRACT_MAJOR}.x"
        )
    if NEEDED_FEATURE not in info.feature_contracts:
        return f"the server does not offer {NEEDED_FEATURE}"
    return None


def format_id(named: Named) -> str:
    """The `id` of a reference."""
    own = f"{named.server_id}/{named.artifact_id}"
    return own if named.project is None else f"{own}/project:{named.project}"


def parse_id(text: str) -> Named | None:
    """What the `id` of a reference names, None when it is not one of ours."""
    match = _REFERENCE.match(text)
    return None if match is None else Named(match["server"], match["artifact"], match["project"])


def parse_revision(text: str) -> int | None:
    """The number of a revision, None when it is none."""
    return int(text) if _NUMBER.match(text) else None


def reference_to(named: Named, revision: int) -> Reference:
    """The reference of one revision of a record."""
    return Reference(provider_id=PROVIDER_ID, id=format_id(named), revision=str(revision))


def citation_of(named: Named, reference: Reference) -> Citation:
    """Where a record stands, for users: the store, the record, the revision."""
    label = f"{PROVIDER_ID}:{FAMILY}/{named.artifact_id}@{reference.revision}"
    return Citation(label=label, reference=reference)


class Coverage:
    """How much of a query a text has: 0 to 1, each word, identifier or run of the query counting alike."""

    def __init__(self, query: str) -> None:
        self._groups: dict[int, dict[str, float]] = {}
        for term in query_terms(query):
            self._groups.setdefault(term.group, {})[term.term] = term.weight

    def of(self, text: str) -> float:
        """The share of the query's words that stand in the text; a partly matched one counts in part."""
        if not self._groups:
            return 0.0
        held = frozenset(index_terms(text))
        shares = (
            sum(weight for term, weight in group.items() if term in held) / sum(group.values())
            for group in self._groups.values()
        )
        return sum(shares) / len(self._groups)


def cosine(channel: Channel) -> float | None:
    """The cosine, cut at 0, of a distance between unit vectors; None for a metric that is not known."""
    if channel.metric == "l2_distance":
        return min(1.0, max(0.0, 1 - channel.raw * channel.raw / 2))
    return None


def hit_of(record: FoundRecord, *, server_id: str, scope: ScopeKey, coverage: Coverage) -> Hit:
    """A hit with a score that compares across queries: the cosine where the server measured one, else the
    share of the query's words. The server's own score is left alone, it says the place and nothing else."""
    named = Named(server_id, record.artifact_id, scope.project)
    reference = reference_to(named, record.revision)
    citation = citation_of(named, reference)
    channel = record.scores.channels.get("vector")
    meaning = None if channel is None else cosine(channel)
    words = coverage.of(record.content.text[:LONGEST_SCORED])
    return Hit(
        reference=reference,
        excerpt=cut_utf16(record.content.text, LONGEST_EXCERPT),
        score=words if meaning is None else meaning,
        source="memory",
        citations=(citation,),
        # Who said it is not recorded, so nothing of it may be injected unasked.
        recall=AutomaticRecall(eligible=False, project_keys=(scope.project,) if scope.project else ()),
        parts=ScoreParts(text=words, vector=meaning),
    )


def best_first(hits: Sequence[Hit], *, minimum: float, most: int) -> tuple[Hit, ...]:
    """Hits by score, equals in the given order; none below the minimum, as callers see scores."""
    admitted = [hit for hit in hits if round(hit.score or 0.0, 6) >= minimum]
    return tuple(sorted(admitted, key=lambda hit: -(hit.score or 0.0))[:most])


def read_of(named: Named, revision: int, text: str, request: GetRequest) -> ReadResult:
    """The asked lines of a record's text; 120 of them unless more are asked for."""
    lines = split_lines(text)
    first, last = 1, len(lines)
    if request.reference.fragment is not None:
        wanted = parse_fragment(request.reference.fragment)
        if wanted is None or wanted.chars is not None or wanted.end > len(lines):
            return NotFound()
        first, last = wanted.start, wanted.end
    if request.from_line is not None:
        first = max(first, request.from_line)
    body = lines[first - 1 : min(last, first - 1 + (request.line_count or MOST_LINES))]
    after = first + len(body)
    more = bool(body) and after <= last
    reference = reference_to(named, revision)
    if request.reference.fragment is not None:
        reference = msgspec.structs.replace(reference, fragment=request.reference.fragment)
    return Found(
        reference=reference,
        text="\n".join(body),
        citations=(citation_of(named, reference),),
        truncated=more,
        from_line=first,
        line_count=len(body),
        next_from=after if more else None,
    )

"""Parameters of `manager.*` to requests, after their rules hold (U§5, U§12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from sidecar.domain.authority import ConversationRecall
from sidecar.domain.file_shaped import FileHit, FileRead, FileSearch, HitFilter
from sidecar.domain.memory import Source
from sidecar.domain.provider import CandidateKind, CandidateRequest
from sidecar.wire import javascript, manager_rules, rules
from sidecar.wire.rules import ABSENT, Params, field

DEFAULT_RESULTS = 6
MOST_RESULTS = 200


class Search(msgspec.Struct, frozen=True):
    """What to search for, and how."""

    query: str
    options: FileSearch


class Sync(msgspec.Struct, frozen=True):
    """Why to bring the index up to date, and whether to index every file anew."""

    reason: str
    force: bool


def search(params: Params) -> Search:
    """Decode `manager.search`; `maxResults` is 6 unless given, and at most 200 (U§11)."""
    rules.check(manager_rules.SEARCH, params)
    sources = field(params, "sources")
    asked = javascript.positive_integer(field(params, "maxResults"))
    return Search(
        javascript.trim(cast(str, params["query"])),
        FileSearch(
            max_results=min(MOST_RESULTS, asked or DEFAULT_RESULTS),
            min_score=javascript.finite_number(field(params, "minScore")),
            session_key=javascript.text(field(params, "sessionKey")),
            lexical_only=field(params, "lexicalOnly") is True,
            active_project_keys=_keys(params),
            sources=None if sources is ABSENT else tuple(dict.fromkeys(cast(list[Source], sources))),
        ),
    )


def read_file(params: Params) -> FileRead:
    """Decode `manager.readFile`; what the bounds mean is the manager's business."""
    rules.check(manager_rules.READ_FILE, params)
    return FileRead(
        path=cast(str, params["relPath"]),
        from_line=javascript.finite_number(field(params, "from")),
        line_count=javascript.finite_number(field(params, "lines")),
    )


def sync(params: Params) -> Sync:
    """Decode `manager.sync`."""
    rules.check(manager_rules.SYNC, params)
    return Sync(javascript.text(field(params, "reason")) or "host", field(params, "force") is True)


def candidates(params: Params) -> CandidateRequest:
    """Decode `manager.candidates`."""
    rules.check(manager_rules.CANDIDATES, params)
    return CandidateRequest(
        kind=cast(CandidateKind, params["kind"]),
        limit=javascript.positive_integer(field(params, "limit")),
        active_project_keys=_keys(params),
    )


def classify(params: Params) -> Sequence[str]:
    """Decode `manager.classify`."""
    rules.check(manager_rules.CLASSIFY, params)
    return cast(Sequence[str], params["relativePaths"])


def plain(params: Params) -> None:
    """Check `manager.status` and `manager.probe`, which take the agent alone."""
    rules.check(manager_rules.PLAIN, params)


def authorize(params: Params) -> tuple[HitFilter, Sequence[Mapping[str, object]]]:
    """Decode `manager.authorize`: the filter, whose agent is yet to be resolved, and the hits as given."""
    rules.check(manager_rules.AUTHORIZE, params)
    recall = None
    if field(params, "conversationRecall") is not ABSENT:
        recall = ConversationRecall(
            anchor_session_key=cast(str, field(params, "conversationRecall", "anchorSessionKey")),
            scope=cast(str, field(params, "conversationRecall", "scope")),
            corpus="sessions"
            if field(params, "conversationRecall", "corpus") == "sessions"
            else "configured",
        )
    given = cast(Sequence[Mapping[str, object]], params["hits"])
    asked = HitFilter(
        agent_id="",
        hits=tuple(_hit(item) for item in given),
        requester_session_key=javascript.text(field(params, "requesterSessionKey")),
        sandboxed=params["sandboxed"] is True,
        trusted_agent_scope=params["trustedAgentScope"] is True,
        conversation_recall=recall,
    )
    return asked, given


def _hit(given: Mapping[str, object]) -> FileHit:
    """What of a hit decides about it: its path, its source and its lines."""
    start = javascript.positive_integer(given.get("startLine")) or 1
    return FileHit(
        path=cast(str, given["path"]),
        start_line=start,
        end_line=javascript.positive_integer(given.get("endLine")) or start,
        score=0.0,
        snippet="",
        source=cast(Source, given["source"]),
    )


def _keys(params: Params) -> tuple[str, ...] | None:
    keys = field(params, "activeProjectKeys")
    return None if keys is ABSENT else tuple(cast(list[str], keys))

"""Parameters of `provider.*` to requests, after their rules hold (spec §4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from sidecar.domain.authority import Authority, ConversationRecall, HostOperation, Operator, Session
from sidecar.domain.memory import GetRequest, SearchRequest
from sidecar.domain.provider import CandidateKind, CandidateRequest, Purpose
from sidecar.wire import host_rules, javascript, params, rules
from sidecar.wire.rules import ABSENT, Params, field

MOST_CANDIDATES = 512


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """A lease that is asked for. `audience` is the handle that was shown, empty for what cannot be one."""

    agent: str
    purpose: Purpose
    authority: Authority
    audience: str | None

    def session_keys(self) -> tuple[str, ...]:
        """Every session key in it: each may name an agent."""
        if not isinstance(self.authority, Session):
            return ()
        recall = self.authority.conversation_recall
        return (self.authority.session_key, *((recall.anchor_session_key,) if recall is not None else ()))


def open_(asked: Params) -> Open:
    """Decode `provider.open`."""
    host_rules.check_open(asked)
    told = cast(Params, field(asked, "authority"))
    purpose = field(asked, "purpose")
    return Open(
        agent=cast(str, field(asked, "agentId")),
        purpose="default" if purpose is ABSENT else cast(Purpose, purpose),
        authority=_authority(told),
        audience=_audience_handle(field(told, "audience")),
    )


def lease(asked: Params) -> str:
    """The lease of a call that has nothing else to say."""
    rules.check(host_rules.LEASE, asked)
    return cast(str, field(asked, "lease"))


def search(asked: Params) -> tuple[str, SearchRequest]:
    """Decode `provider.search`: a search as `memory.search` takes it, with project keys and the word hint."""
    lease_id, request = _request(asked)
    rules.check(rules.SEARCH_V2, request)
    rules.check(host_rules.SEARCH_ONLY, request)
    return lease_id, msgspec.structs.replace(
        params.search_request(request),
        lexical_only=field(request, "lexicalOnly") is True,
        active_project_keys=_project_keys(request),
    )


def get(asked: Params) -> tuple[str, GetRequest]:
    """Decode `provider.get`: the bounds stand beside `reference`, as in `memory.get`."""
    lease_id, request = _request(asked)
    rules.check(rules.GET, request)
    return lease_id, params.get_request(request)


def candidates(asked: Params) -> tuple[str, CandidateRequest]:
    """Decode `provider.candidates`; a limit over 512 means 512 (U§10)."""
    lease_id, request = _request(asked)
    rules.check(host_rules.CANDIDATES, request)
    limit = javascript.positive_integer(field(request, "limit"))
    return lease_id, CandidateRequest(
        kind=cast(CandidateKind, field(request, "kind")),
        limit=None if limit is None else min(limit, MOST_CANDIDATES),
        active_project_keys=_project_keys(request),
    )


def _request(asked: Params) -> tuple[str, Params]:
    rules.check(host_rules.REQUEST, asked)
    return cast(str, field(asked, "lease")), cast(Params, field(asked, "request"))


def _project_keys(request: Params) -> tuple[str, ...] | None:
    named = field(request, "activeProjectKeys")
    return None if named is ABSENT else tuple(dict.fromkeys(cast(list[str], named)))


def _authority(told: Params) -> Authority:
    match field(told, "kind"):
        case "operator":
            return Operator(
                scopes=tuple(cast(list[str], field(told, "scopes"))),
                connection_id=javascript.text(field(told, "connId")),
            )
        case "session":
            return Session(
                session_key=cast(str, field(told, "sessionKey")),
                sandboxed=cast(bool, field(told, "sandboxed")),
                session_id=javascript.text(field(told, "sessionId")),
                conversation_recall=_recall(field(told, "conversationRecall")),
            )
        case _:
            return HostOperation(operation=cast(str, field(told, "operation")))


def _recall(told: object) -> ConversationRecall | None:
    if not isinstance(told, Mapping):
        return None
    return ConversationRecall(
        anchor_session_key=told["anchorSessionKey"], scope=told["scope"], corpus=told["corpus"]
    )


def _audience_handle(told: object) -> str | None:
    """Only a handle counts; what is shown in its place is a forgery, which an empty handle stands for."""
    if told is ABSENT:
        return None
    if isinstance(told, Mapping):
        told = told.get("handle")
    return told if isinstance(told, str) else ""

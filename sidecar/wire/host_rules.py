"""Ordered rule tables for the parameters of `provider.*` (spec §4.2); shared fields keep upstream's words."""

from __future__ import annotations

from typing import cast, get_args

from sidecar.domain.provider import CandidateKind, Purpose
from sidecar.wire import kinds
from sidecar.wire.rules import Params, Rule, check, field

PURPOSES: tuple[str, ...] = get_args(Purpose)
CANDIDATE_KINDS: tuple[str, ...] = get_args(CandidateKind)
AUTHORITY_KINDS = ("operator", "session", "host")
RECALL_CORPORA = ("sessions", "configured")


_TEXTS = kinds.list_of(kinds.TEXT)


def _text(*path: str, required: bool = False) -> Rule:
    return Rule(path, kinds.TEXT, f"{'.'.join(path)} must be a non-empty string", required=required)


LEASE = (_text("lease", required=True),)
REQUEST = (*LEASE, Rule(("request",), kinds.OBJECT, "request must be an object", required=True))
PROJECT_KEYS = Rule(("activeProjectKeys",), _TEXTS, "activeProjectKeys must be an array of non-empty strings")
SEARCH_ONLY = (Rule(("lexicalOnly",), kinds.FLAG, "lexicalOnly must be a boolean"), PROJECT_KEYS)
CANDIDATES = (
    Rule(("kind",), kinds.one_of(*CANDIDATE_KINDS), "kind must be trigger or project", required=True),
    Rule(("limit",), kinds.POSITIVE, "limit must be a positive integer"),
    PROJECT_KEYS,
)
OPEN = (
    Rule(("purpose",), kinds.one_of(*PURPOSES), "purpose must be default, status or cli"),
    Rule(("authority",), kinds.OBJECT, "authority must be an object", required=True),
    Rule(
        ("authority", "kind"),
        kinds.one_of(*AUTHORITY_KINDS),
        "authority.kind must be operator, session or host",
        required=True,
    ),
)
_RECALL = ("authority", "conversationRecall")
AUTHORITY = {
    "operator": (
        Rule(
            ("authority", "scopes"),
            _TEXTS,
            "authority.scopes must be an array of non-empty strings",
            required=True,
        ),
        _text("authority", "connId"),
    ),
    "session": (
        _text("authority", "sessionKey", required=True),
        Rule(("authority", "sandboxed"), kinds.FLAG, "authority.sandboxed must be a boolean", required=True),
        _text("authority", "sessionId"),
        Rule(_RECALL, kinds.OBJECT, "authority.conversationRecall must be an object"),
    ),
    "host": (_text("authority", "operation", required=True),),
}
RECALL = (
    _text(*_RECALL, "anchorSessionKey", required=True),
    _text(*_RECALL, "scope", required=True),
    Rule(
        (*_RECALL, "corpus"),
        kinds.one_of(*RECALL_CORPORA),
        "authority.conversationRecall.corpus must be sessions or configured",
        required=True,
    ),
)
AGENT = (_text("agentId", required=True),)


def check_open(params: Params) -> None:
    """Hold the rules of `provider.open`: the authority by its kind, and the agent last."""
    check(OPEN, params)
    kind = str(field(params, "authority", "kind"))
    check(AUTHORITY[kind], params)
    if kind == "session" and kinds.OBJECT(field(params, *_RECALL)):
        check(RECALL, params)
    check(AGENT, params)


def open_forms() -> tuple[tuple[Rule, ...], ...]:
    """The same rules as `check_open`, once for each kind of authority, for the OpenAPI document."""
    recall = kinds.record({rule.path[-1]: cast(kinds.Kind, rule.holds) for rule in RECALL})
    forms = []
    for kind, rules in AUTHORITY.items():
        named = Rule(("authority", "kind"), kinds.one_of(kind), OPEN[-1].message, required=True)
        whole = Rule(_RECALL, recall, "authority.conversationRecall must be complete")
        forms.append((*OPEN[:-1], named, *rules, *((whole,) if kind == "session" else ()), *AGENT))
    return tuple(forms)

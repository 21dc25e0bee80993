"""Ordered rule tables for the parameters of `provider.*` (spec §4.2); shared fields keep upstream's words."""

from __future__ import annotations

from typing import get_args

from sidecar.domain.provider import CandidateKind, Purpose
from sidecar.wire import javascript
from sidecar.wire.rules import Params, Rule, check, field

PURPOSES: tuple[str, ...] = get_args(Purpose)
CANDIDATE_KINDS: tuple[str, ...] = get_args(CandidateKind)
AUTHORITY_KINDS = ("operator", "session", "host")
RECALL_CORPORA = ("sessions", "configured")


def is_text(value: object) -> bool:
    """A non-blank string."""
    return javascript.text(value) is not None


def is_boolean(value: object) -> bool:
    """`true` or `false`."""
    return isinstance(value, bool)


def is_object(value: object) -> bool:
    """A JSON object."""
    return isinstance(value, dict)


def is_text_list(value: object) -> bool:
    """An array of non-blank strings, which may be empty."""
    return isinstance(value, list) and all(is_text(item) for item in value)


def is_purpose(value: object) -> bool:
    """What a handle is opened for."""
    return isinstance(value, str) and value in PURPOSES


def is_authority_kind(value: object) -> bool:
    """Whom a host vouches for."""
    return isinstance(value, str) and value in AUTHORITY_KINDS


def is_candidate_kind(value: object) -> bool:
    """A kind of candidate."""
    return isinstance(value, str) and value in CANDIDATE_KINDS


def is_recall_corpus(value: object) -> bool:
    """What a recall pass covers."""
    return isinstance(value, str) and value in RECALL_CORPORA


def is_positive(value: object) -> bool:
    """An integer of at least 1."""
    return javascript.positive_integer(value) is not None


def _text(*path: str, required: bool = False) -> Rule:
    return Rule(path, is_text, f"{'.'.join(path)} must be a non-empty string", required=required)


LEASE = (_text("lease", required=True),)
REQUEST = (*LEASE, Rule(("request",), is_object, "request must be an object", required=True))
PROJECT_KEYS = Rule(
    ("activeProjectKeys",), is_text_list, "activeProjectKeys must be an array of non-empty strings"
)
SEARCH_ONLY = (Rule(("lexicalOnly",), is_boolean, "lexicalOnly must be a boolean"), PROJECT_KEYS)
CANDIDATES = (
    Rule(("kind",), is_candidate_kind, "kind must be trigger or project", required=True),
    Rule(("limit",), is_positive, "limit must be a positive integer"),
    PROJECT_KEYS,
)
OPEN = (
    Rule(("purpose",), is_purpose, "purpose must be default, status or cli"),
    Rule(("authority",), is_object, "authority must be an object", required=True),
    Rule(
        ("authority", "kind"),
        is_authority_kind,
        "authority.kind must be operator, session or host",
        required=True,
    ),
)
_RECALL = ("authority", "conversationRecall")
AUTHORITY = {
    "operator": (
        Rule(
            ("authority", "scopes"),
            is_text_list,
            "authority.scopes must be an array of non-empty strings",
            required=True,
        ),
        _text("authority", "connId"),
    ),
    "session": (
        _text("authority", "sessionKey", required=True),
        Rule(("authority", "sandboxed"), is_boolean, "authority.sandboxed must be a boolean", required=True),
        _text("authority", "sessionId"),
        Rule(_RECALL, is_object, "authority.conversationRecall must be an object"),
    ),
    "host": (_text("authority", "operation", required=True),),
}
RECALL = (
    _text(*_RECALL, "anchorSessionKey", required=True),
    _text(*_RECALL, "scope", required=True),
    Rule(
        (*_RECALL, "corpus"),
        is_recall_corpus,
        "authority.conversationRecall.corpus must be sessions or configured",
        required=True,
    ),
)
AGENT = (_text("agentId", required=True),)


def check_open(params: Params) -> None:
    """Hold the rules of `provider.open`: the authority by its kind, and the agent last."""
    check(OPEN, params)
    check(AUTHORITY[str(field(params, "authority", "kind"))], params)
    if is_object(field(params, *_RECALL)):
        check(RECALL, params)
    check(AGENT, params)

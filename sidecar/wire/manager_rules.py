"""Ordered rules for the parameters of `manager.*` (U§5, U§12, spec §4.2)."""

from __future__ import annotations

from sidecar.domain.memory import SOURCES
from sidecar.wire import javascript
from sidecar.wire.rules import AGENT_V2, SEARCH_V2, Rule

MOST_HITS = 1000
MOST_PATHS = 1000
MOST_KEYS = 64


def _is_text(value: object) -> bool:
    return javascript.text(value) is not None


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> bool:
    return javascript.finite_number(value) is not None


def _is_positive(value: object) -> bool:
    return javascript.positive_integer(value) is not None


def _is_kind(value: object) -> bool:
    return isinstance(value, str) and value in ("trigger", "project")


def _is_corpus(value: object) -> bool:
    return isinstance(value, str) and value in ("sessions", "configured")


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _are_keys(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MOST_KEYS and all(map(_is_text, value))


def _are_paths(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MOST_PATHS and all(map(_is_string, value))


def _are_hits(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MOST_HITS and all(map(_is_hit, value))


def _is_hit(value: object) -> bool:
    if not isinstance(value, dict) or not _is_text(value.get("path")):
        return False
    source = value.get("source")
    placed = all(_is_positive(value[name]) for name in ("startLine", "endLine") if name in value)
    return isinstance(source, str) and source in SOURCES and placed


_KEYS = Rule(
    ("activeProjectKeys",),
    _are_keys,
    f"activeProjectKeys must be an array of at most {MOST_KEYS} non-empty strings",
)

SEARCH = (
    *(rule for rule in SEARCH_V2 if rule.path != ("cursor",)),
    _KEYS,
    Rule(("lexicalOnly",), _is_flag, "lexicalOnly must be true or false"),
    Rule(("sessionKey",), _is_text, "sessionKey must be a non-empty string"),
    *AGENT_V2,
)
READ_FILE = (
    Rule(("relPath",), _is_string, "relPath must be a string", required=True),
    Rule(("from",), _is_number, "from must be a finite number"),
    Rule(("lines",), _is_number, "lines must be a finite number"),
    *AGENT_V2,
)
SYNC = (
    Rule(("reason",), _is_text, "reason must be a non-empty string"),
    Rule(("force",), _is_flag, "force must be true or false"),
    *AGENT_V2,
)
CANDIDATES = (
    Rule(("kind",), _is_kind, "kind must be trigger or project", required=True),
    Rule(("limit",), _is_positive, "limit must be a positive integer"),
    _KEYS,
    *AGENT_V2,
)
CLASSIFY = (
    Rule(
        ("relativePaths",),
        _are_paths,
        f"relativePaths must be an array of at most {MOST_PATHS} strings",
        required=True,
    ),
    *AGENT_V2,
)
AUTHORIZE = (
    Rule(
        ("hits",),
        _are_hits,
        f"hits must be an array of at most {MOST_HITS} memory search hits",
        required=True,
    ),
    Rule(("requesterSessionKey",), _is_text, "requesterSessionKey must be a non-empty string"),
    Rule(("sandboxed",), _is_flag, "sandboxed must be true or false", required=True),
    Rule(("trustedAgentScope",), _is_flag, "trustedAgentScope must be true or false", required=True),
    Rule(("conversationRecall",), _is_object, "conversationRecall must be an object"),
    Rule(
        ("conversationRecall", "anchorSessionKey"),
        _is_text,
        "conversationRecall.anchorSessionKey must be a non-empty string",
    ),
    Rule(("conversationRecall", "scope"), _is_text, "conversationRecall.scope must be a non-empty string"),
    Rule(
        ("conversationRecall", "corpus"),
        _is_corpus,
        "conversationRecall.corpus must be sessions or configured",
    ),
    *AGENT_V2,
)
RECALL = tuple(
    Rule(
        ("conversationRecall", name),
        _is_text,
        "conversationRecall needs anchorSessionKey, scope and corpus",
        required=True,
    )
    for name in ("anchorSessionKey", "scope", "corpus")
)
"""Held as well where there is a `conversationRecall`."""
PLAIN = AGENT_V2

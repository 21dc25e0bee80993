"""Ordered rules for the parameters of `manager.*` (U§5, U§12, spec §4.2)."""

from __future__ import annotations

from sidecar.domain.memory import SOURCES
from sidecar.wire import kinds
from sidecar.wire.rules import AGENT_V2, SEARCH_V2, Rule

MOST_HITS = 1000
MOST_PATHS = 1000
MOST_KEYS = 64


_CORPUS = kinds.one_of("sessions", "configured")
_HIT = kinds.record(
    {"path": kinds.TEXT, "source": kinds.one_of(*SOURCES)},
    {"startLine": kinds.POSITIVE, "endLine": kinds.POSITIVE},
)

_KEYS = Rule(
    ("activeProjectKeys",),
    kinds.list_of(kinds.TEXT, most=MOST_KEYS),
    f"activeProjectKeys must be an array of at most {MOST_KEYS} non-empty strings",
)

SEARCH = (
    *(rule for rule in SEARCH_V2 if rule.path != ("cursor",)),
    _KEYS,
    Rule(("lexicalOnly",), kinds.FLAG, "lexicalOnly must be true or false"),
    Rule(("sessionKey",), kinds.TEXT, "sessionKey must be a non-empty string"),
    *AGENT_V2,
)
READ_FILE = (
    Rule(("relPath",), kinds.ANY_TEXT, "relPath must be a string", required=True),
    Rule(("from",), kinds.NUMBER, "from must be a finite number"),
    Rule(("lines",), kinds.NUMBER, "lines must be a finite number"),
    *AGENT_V2,
)
SYNC = (
    Rule(("reason",), kinds.TEXT, "reason must be a non-empty string"),
    Rule(("force",), kinds.FLAG, "force must be true or false"),
    *AGENT_V2,
)
CANDIDATES = (
    Rule(("kind",), kinds.one_of("trigger", "project"), "kind must be trigger or project", required=True),
    Rule(("limit",), kinds.POSITIVE, "limit must be a positive integer"),
    _KEYS,
    *AGENT_V2,
)
CLASSIFY = (
    Rule(
        ("relativePaths",),
        kinds.list_of(kinds.ANY_TEXT, most=MOST_PATHS),
        f"relativePaths must be an array of at most {MOST_PATHS} strings",
        required=True,
    ),
    *AGENT_V2,
)
AUTHORIZE = (
    Rule(
        ("hits",),
        kinds.list_of(_HIT, most=MOST_HITS),
        f"hits must be an array of at most {MOST_HITS} memory search hits",
        required=True,
    ),
    Rule(("requesterSessionKey",), kinds.TEXT, "requesterSessionKey must be a non-empty string"),
    Rule(("sandboxed",), kinds.FLAG, "sandboxed must be true or false", required=True),
    Rule(("trustedAgentScope",), kinds.FLAG, "trustedAgentScope must be true or false", required=True),
    Rule(("conversationRecall",), kinds.OBJECT, "conversationRecall must be an object"),
    Rule(
        ("conversationRecall", "anchorSessionKey"),
        kinds.TEXT,
        "conversationRecall.anchorSessionKey must be a non-empty string",
    ),
    Rule(("conversationRecall", "scope"), kinds.TEXT, "conversationRecall.scope must be a non-empty string"),
    Rule(
        ("conversationRecall", "corpus"),
        _CORPUS,
        "conversationRecall.corpus must be sessions or configured",
    ),
    Rule(
        ("conversationRecall",),
        kinds.record({"anchorSessionKey": kinds.TEXT, "scope": kinds.TEXT, "corpus": _CORPUS}),
        "conversationRecall needs anchorSessionKey, scope and corpus",
    ),
    *AGENT_V2,
)
PLAIN = AGENT_V2

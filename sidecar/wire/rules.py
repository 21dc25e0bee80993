"""Ordered rule tables for parameters: the first rule that is broken gives the message (U§2, U§3).

Parameters are decoded untyped and held against these tables, so that order and wording are exact and stand
in one place. Unknown parameters are ignored, as upstream does. Predicates are kinds of `wire/kinds.py`, whose
schemas the OpenAPI document is made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from sidecar.domain.errors import InvalidRequest
from sidecar.wire import javascript, kinds

Params = Mapping[str, object]
ABSENT = object()


class Rule(msgspec.Struct, frozen=True):
    """One check of one field. `path` may step into an object; an absent field passes unless required."""

    path: tuple[str, ...]
    holds: Callable[[object], bool]
    message: str
    required: bool = False

    def check(self, params: Params) -> None:
        """Raise `InvalidRequest` with the message unless the rule holds."""
        value = field(params, *self.path)
        if value is ABSENT:
            if self.required:
                raise InvalidRequest(self.message)
        elif not self.holds(value):
            raise InvalidRequest(self.message)


def field(params: Params, *path: str) -> object:
    """The value at a path of keys, or `ABSENT`. An explicit null is present."""
    value: object = params
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return ABSENT
        value = value[key]
    return value


def check(rules: Sequence[Rule], params: Params) -> None:
    """Hold every rule in order; the first broken one raises."""
    for rule in rules:
        rule.check(params)


def within(key: str, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules of an object that stands under a key, as rules of what it stands in."""
    return tuple(msgspec.structs.replace(rule, path=(key, *rule.path)) for rule in rules)


QUERY = Rule(("query",), kinds.TEXT, "query must be a non-empty string", required=True)
_V1_NUMBERS = "maxResults and minScore must be finite numbers when provided"

SEARCH_V1 = (
    Rule(("version",), kinds.number_equal_to(1), "unsupported memory version"),
    QUERY,
    Rule(("maxResults",), kinds.NUMBER, _V1_NUMBERS),
    Rule(("minScore",), kinds.NUMBER, _V1_NUMBERS),
    Rule(("agentId",), kinds.ANY_TEXT, "agentId must be a string"),
)
SEARCH_V2 = (
    QUERY,
    Rule(("maxResults",), kinds.POSITIVE, "maxResults must be a positive integer"),
    Rule(("minScore",), kinds.NUMBER, "minScore must be a finite number"),
    Rule(("cursor",), kinds.TEXT, "cursor must be a non-empty string"),
    Rule(("sources",), kinds.FILLED_LIST, "sources must be a non-empty array of memory or sessions"),
    Rule(("sources",), kinds.SOURCE_LIST, "sources must contain only memory or sessions"),
)
FILTERS = (
    Rule(("path",), kinds.text_up_to(512), "path must be a pattern of at most 512 characters"),
    Rule(("since",), kinds.DAY, "since must be a day of the calendar, YYYY-MM-DD"),
    Rule(("until",), kinds.DAY, "until must be a day of the calendar, YYYY-MM-DD"),
)
MAX_CHARS = Rule(("maxChars",), kinds.POSITIVE, "maxChars must be a positive integer")
NOTES = (
    Rule(("after",), kinds.TEXT, "after must be a non-empty string"),
    Rule(("limit",), kinds.POSITIVE, "limit must be a positive integer"),
)
_BOTH = "reference.providerId and reference.id are required"
GET = (
    Rule(("reference",), kinds.OBJECT, "reference must be a provider-scoped memory reference", required=True),
    Rule(("reference", "providerId"), kinds.TEXT, "reference.providerId must be a non-empty string"),
    Rule(("reference", "id"), kinds.TEXT, "reference.id must be a non-empty string"),
    Rule(("reference", "providerId"), kinds.TEXT, _BOTH, required=True),
    Rule(("reference", "id"), kinds.TEXT, _BOTH, required=True),
    Rule(("reference", "revision"), kinds.TEXT, "reference.revision must be a non-empty string"),
    Rule(("reference", "fragment"), kinds.TEXT, "reference.fragment must be a non-empty string"),
    Rule(("from",), kinds.POSITIVE, "from must be a positive integer"),
    Rule(("lines",), kinds.POSITIVE, "lines must be a positive integer"),
)
WHY = (
    Rule(("path",), kinds.TEXT, "path must be a non-empty string", required=True),
    Rule(("line",), kinds.POSITIVE, "line must be a positive integer"),
    Rule(
        ("activeProjectKeys",),
        kinds.list_of(kinds.TEXT, most=64),
        "activeProjectKeys must be an array of at most 64 non-empty strings",
    ),
)
CANCEL = (Rule(("id",), kinds.TEXT, "id must be a non-empty string", required=True),)
AGENT_V2 = (Rule(("agentId",), kinds.TEXT, "agentId must be a non-empty string"),)
REFRESH = (
    *AGENT_V2,
    Rule(("rebuild",), kinds.FLAG, "rebuild must be true or false"),
    Rule(("purge",), kinds.FLAG, "purge must be true or false"),
)
AUDIT = (Rule(("limit",), kinds.POSITIVE, "limit must be a positive integer"),)
VERSION_2 = Rule(("version",), kinds.number_equal_to(2), "unsupported memory version", required=True)


def version_of(params: Params) -> int:
    """2 for the number 2, else 1: what is neither is refused by the first rule of `SEARCH_V1`."""
    return 2 if VERSION_2.holds(field(params, "version")) else 1


def clamp_v1_results(value: object) -> int:
    """v1's `maxResults`: default 20, floored, clamped to 1..50."""
    number = javascript.finite_number(value)
    return 20 if number is None else int(min(50.0, max(1.0, math.floor(number))))

"""Ordered rule tables for parameters: the first rule that is broken gives the message (U§2, U§3).

Parameters are decoded untyped and held against these tables, so that order and wording are exact and stand
in one place. Unknown parameters are ignored, as upstream does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from sidecar.domain.errors import InvalidRequest
from sidecar.domain.memory import SOURCES
from sidecar.wire import javascript

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


def _is_text(value: object) -> bool:
    return javascript.text(value) is not None


def _is_number(value: object) -> bool:
    return javascript.finite_number(value) is not None


def _is_positive(value: object) -> bool:
    return javascript.positive_integer(value) is not None


def _is_nonempty_list(value: object) -> bool:
    return isinstance(value, list) and bool(value)


def _all_sources(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item in SOURCES for item in value)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_v1_version(value: object) -> bool:
    return javascript.finite_number(value) == 1.0


QUERY = Rule(("query",), _is_text, "query must be a non-empty string", required=True)
_V1_NUMBERS = "maxResults and minScore must be finite numbers when provided"

SEARCH_V1 = (
    Rule(("version",), _is_v1_version, "unsupported memory version"),
    QUERY,
    Rule(("maxResults",), _is_number, _V1_NUMBERS),
    Rule(("minScore",), _is_number, _V1_NUMBERS),
    Rule(("agentId",), lambda value: isinstance(value, str), "agentId must be a string"),
)
SEARCH_V2 = (
    QUERY,
    Rule(("maxResults",), _is_positive, "maxResults must be a positive integer"),
    Rule(("minScore",), _is_number, "minScore must be a finite number"),
    Rule(("cursor",), _is_text, "cursor must be a non-empty string"),
    Rule(("sources",), _is_nonempty_list, "sources must be a non-empty array of memory or sessions"),
    Rule(("sources",), _all_sources, "sources must contain only memory or sessions"),
)
_BOTH = "reference.providerId and reference.id are required"
GET = (
    Rule(("reference",), _is_object, "reference must be a provider-scoped memory reference", required=True),
    Rule(("reference", "providerId"), _is_text, "reference.providerId must be a non-empty string"),
    Rule(("reference", "id"), _is_text, "reference.id must be a non-empty string"),
    Rule(("reference", "providerId"), _is_text, _BOTH, required=True),
    Rule(("reference", "id"), _is_text, _BOTH, required=True),
    Rule(("reference", "revision"), _is_text, "reference.revision must be a non-empty string"),
    Rule(("reference", "fragment"), _is_text, "reference.fragment must be a non-empty string"),
    Rule(("from",), _is_positive, "from must be a positive integer"),
    Rule(("lines",), _is_positive, "lines must be a positive integer"),
)
CANCEL = (Rule(("id",), _is_text, "id must be a non-empty string", required=True),)
AGENT_V2 = (Rule(("agentId",), _is_text, "agentId must be a non-empty string"),)


def version_of(params: Params) -> int:
    """2 for the number 2, else 1: what is neither is refused by the first rule of `SEARCH_V1`."""
    value = field(params, "version")
    return 2 if javascript.finite_number(value) == 2.0 else 1


def clamp_v1_results(value: object) -> int:
    """v1's `maxResults`: default 20, floored, clamped to 1..50."""
    number = javascript.finite_number(value)
    return 20 if number is None else int(min(50.0, max(1.0, math.floor(number))))

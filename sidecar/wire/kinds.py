"""Kinds of parameter values: each predicate beside the JSON schema that says the same.

The rule tables check with the one and the OpenAPI document shows the other, so a kind is defined once and
here; a test holds the two sides of each together.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping

import msgspec

from sidecar.domain.memory import SOURCES
from sidecar.wire import javascript

Schema = dict[str, object]

_LARGEST = sys.float_info.max
# Spelled out, because regular expression engines disagree about `\S`.
_VISIBLE = r"[^\t\n\u000b\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"

# Every day of the calendar and no other, so that the schema says as much as the predicate.
_LEAP_YEAR = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
DAY_PATTERN = (
    "([0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"
    "|[0-9]{4}-(0[13-9]|1[0-2])-(29|30)"
    "|[0-9]{4}-(0[13578]|1[02])-31"
    f"|{_LEAP_YEAR}-02-29)"
)
_DAY = re.compile(rf"{DAY_PATTERN}\Z")


class Kind(msgspec.Struct, frozen=True):
    """A predicate over a decoded JSON value, callable, with its `schema` (JSON Schema 2020-12)."""

    holds: Callable[[object], bool]
    schema: Mapping[str, object]

    def __call__(self, value: object) -> bool:
        return self.holds(value)


def schema_of(predicate: Callable[[object], bool]) -> Schema:
    """The schema of a rule's predicate; raises `LookupError` for one that is no `Kind`."""
    if isinstance(predicate, Kind):
        return dict(predicate.schema)
    raise LookupError(f"this rule's predicate has no schema: {predicate!r}")


def one_of(*values: str) -> Kind:
    """One of some strings."""
    return Kind(lambda value: isinstance(value, str) and value in values, {"enum": list(values)})


def text_up_to(longest: int) -> Kind:
    """A string that is not blank, of at most so many characters."""
    return Kind(
        lambda value: javascript.text(value) is not None and len(str(value)) <= longest,
        {"type": "string", "pattern": _VISIBLE, "maxLength": longest},
    )


def list_of(kind: Kind, *, most: int | None = None) -> Kind:
    """An array, of at most `most` items of a kind; it may be empty."""
    bound: Schema = {} if most is None else {"maxItems": most}
    return Kind(
        lambda value: (
            isinstance(value, list) and (most is None or len(value) <= most) and all(map(kind, value))
        ),
        {"type": "array", "items": dict(kind.schema), **bound},
    )


def record(required: Mapping[str, Kind], optional: Mapping[str, Kind] | None = None) -> Kind:
    """An object with fields of some kinds, and whatever else."""
    kinds = {**required, **(optional or {})}
    return Kind(
        lambda value: (
            isinstance(value, dict)
            and all(name in value for name in required)
            and all(kind(value[name]) for name, kind in kinds.items() if name in value)
        ),
        {
            "type": "object",
            "properties": {name: dict(kind.schema) for name, kind in kinds.items()},
            "required": list(required),
        },
    )


def number_equal_to(number: int) -> Kind:
    """A number of one value, whole or with a point."""
    return Kind(lambda value: javascript.finite_number(value) == number, {"const": number})


ANY_TEXT = Kind(lambda value: isinstance(value, str), {"type": "string"})
"""A string."""
TEXT = Kind(lambda value: javascript.text(value) is not None, {"type": "string", "pattern": _VISIBLE})
"""A string that is not blank."""
NUMBER = Kind(
    lambda value: javascript.finite_number(value) is not None,
    {"type": "number", "minimum": -_LARGEST, "maximum": _LARGEST},
)
"""A finite number."""
POSITIVE = Kind(
    lambda value: javascript.positive_integer(value) is not None,
    {"type": "integer", "minimum": 1, "maximum": _LARGEST},
)
"""A whole number of at least 1."""
FLAG = Kind(lambda value: isinstance(value, bool), {"type": "boolean"})
"""true or false."""
DAY = Kind(
    lambda value: isinstance(value, str) and _DAY.match(value) is not None,
    {"type": "string", "pattern": f"^{DAY_PATTERN}$", "maxLength": 10},
)
"""A day of the calendar, YYYY-MM-DD; days are compared as they are written."""
OBJECT = Kind(lambda value: isinstance(value, dict), {"type": "object"})
"""An object."""
FILLED_LIST = Kind(lambda value: isinstance(value, list) and bool(value), {"type": "array", "minItems": 1})
"""An array that is not empty."""
SOURCE_LIST = list_of(one_of(*SOURCES))
"""An array of sources."""

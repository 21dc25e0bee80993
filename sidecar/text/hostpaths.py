"""Text without what looks like a path of the host: for messages of code that is not ours (spec §5.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

REDACTED: Final = "[path]"

# A path may hold spaces: what follows one belongs to it as long as a separator comes before the next space.
_REST = r"""(?:[^\s"'`<>|]|[ ](?=[^\s/\\"'`<>|]*[/\\]))*"""
_PATH = re.compile(
    rf"""
    (?P<address>\b(?:https?|wss?)://[^\s"'`<>]*)         # an address is no path
  | \b[a-z][a-z0-9+.-]{{1,15}}:/{{2,}}{_REST}            # file:// and database addresses
  | (?<![\w/\\]) (?:
        (?: ~[\w.-]* | \.{{1,2}} )? /(?=[^\s/]) {_REST}  # absolute, in a home, or relative to here
      | [A-Za-z]:[\\/] {_REST}                           # a drive
      | \\\\[^\s\\] {_REST}                              # a share
      | ~(?=[\s"'`]|$)
    )
  | (?<![\w/\\.-]) (?:memory|sessions|users)[/\\](?=[^\s/\\]) {_REST} (?<![:;,.])  # in the workspace
  | (?<![\w/\\.-]) (?:[\w.@+-]{{1,255}}[/\\])+ [\w.@+-]{{0,255}} \.[A-Za-z]\w{{0,7}} \b   # folder/name.ext
    """,
    re.VERBOSE | re.IGNORECASE,
)


def without_paths(text: str) -> str:
    """The text with every host path in it replaced by `[path]`; web addresses stay."""
    if "/" not in text and "\\" not in text and "~" not in text:
        return text
    return _PATH.sub(lambda found: found[0] if found["address"] else REDACTED, text)


def redacted(value: object, hidden_keys: frozenset[str]) -> object:
    """Plain JSON data without the hidden keys, at any depth, and without host paths in any text or key."""
    if isinstance(value, str):
        return without_paths(value)
    if isinstance(value, Mapping):
        return {
            without_paths(str(key)): redacted(item, hidden_keys)
            for key, item in value.items()
            if key not in hidden_keys
        }
    if isinstance(value, list | tuple):
        return [redacted(item, hidden_keys) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return without_paths(str(value))

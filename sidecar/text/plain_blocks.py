"""The blocks of plain lines, which most notes are made of, without the parser that they do not need.

Bullets and paragraphs whose lines begin with nothing that could open another block are the same to every
reader of CommonMark. Where a line is anything else, what it may belong to is left to the parser: the whole
paragraph, or the whole outermost list item. A test holds both to the same outcome.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from sidecar.domain.corpus import UnitKind

# What a line of text may begin with so that it is nothing but text: no marker of a list, a quote, code, a
# table, a heading or a rule.
_TEXT = r"(?:[^\s\d#>\-*+`~=_|:]|\*{1,2}(?=[^\s*])|[0-9]+(?![\d.)])|\#(?=[^#\s])|`(?=[^`])|_(?=[^_\s]))"
_LINE = re.compile(
    rf"(?P<bullet>[ ]*)[-*+][ ](?={_TEXT})|(?P<heading>\#{{1,6}}(?:[ \t]|\Z))|(?P<blank>[ \t]*\Z)"
    rf"|(?P<indented>[ \t]+)(?={_TEXT})|(?P<text>(?={_TEXT}))"
)
_BULLET, _HEADING, _BLANK, _INDENTED, _TEXT_LINE = range(1, 6)
_MARKER = 2
_MOST_CHILD_INDENT = 3
# The parser has a bound on nesting, which must stay its own.
_DEEPEST = 16


class PlainBlock(NamedTuple):
    """Lines `start` to `end` (0-based, half-open) of one bullet or paragraph; `scope` is the line that the
    outermost item around it, or else the block itself, begins with."""

    start: int
    end: int
    kind: UnitKind
    scope: int


def plain_blocks(lines: Sequence[str], start: int, end: int) -> tuple[int, list[PlainBlock]]:
    """The blocks from line `start` on, where no block is open, and the line where one not so plain begins.

    That line is `start` itself, with no blocks, when the first block is none of ours.
    """
    reading = _Reading(lines, start, end)
    at = start
    while at < end:
        match = _LINE.match(lines[at])
        group = match.lastindex if match is not None else None
        if group == _HEADING:
            break
        if group == _BLANK:
            following = reading.blank(at)
        elif group == _BULLET and match is not None:
            following = reading.bullet(at, match.end(_BULLET))
        else:
            following = reading.text(at, group)
        if following == at:
            return reading.given_up()
        at = following
    reading.close(at)
    return at, reading.found


class _Reading:
    """Blocks as they are found; each method takes a line and gives the next, or the same for not so plain."""

    def __init__(self, lines: Sequence[str], start: int, end: int) -> None:
        self._lines = lines
        self._end = end
        self.found: list[PlainBlock] = []
        # Up to this line nothing can change any more, and so many blocks are before it.
        self._sure = (start, 0)
        # The same for the list that goes on, blank lines or not.
        self._listed: tuple[int, int] | None = None
        # The open block: its first line and kind; of items the indents, outermost first.
        self._began = self._scope = start
        self._kind: UnitKind | None = None
        self._items: list[int] = []

    def close(self, at: int) -> None:
        """The open block ends before line `at`."""
        if self._kind is not None:
            self.found.append(PlainBlock(self._began, at, self._kind, self._scope))
            self._kind = None

    def bullet(self, at: int, indent: int) -> int:
        items = self._items if self._kind == "bullet" else []
        if indent and not items:
            return at
        if indent in items:
            items = items[: items.index(indent)]
        elif items and not 0 <= indent - items[-1] - _MARKER <= _MOST_CHILD_INDENT:
            return at
        if len(items) >= _DEEPEST:
            return at
        self.close(at)
        if not items:
            self._sure, self._scope = (at, len(self.found)), at
            self._listed = self._listed or self._sure
        self._items = [*items, indent]
        self._began, self._kind = at, "bullet"
        return at + 1

    def blank(self, at: int) -> int:
        following = at + 1
        while following < self._end and not self._lines[following].strip(" \t"):
            following += 1
        if following < self._end and self._kind == "bullet" and self._lines[following][0] in " \t":
            return at  # it may go on with the item
        self.close(at)
        self._sure = (following, len(self.found))
        return following

    def text(self, at: int, group: int | None) -> int:
        if group not in (_TEXT_LINE, _INDENTED) or (group == _INDENTED and self._kind is None):
            return at
        if self._kind is None:
            self._began = self._scope = at
            self._kind = "paragraph"
            self._listed = None
        return at + 1

    def given_up(self) -> tuple[int, list[PlainBlock]]:
        """What is sure."""
        at, count = self._sure
        if self._listed is not None and at + 1 < self._end and _LINE.match(self._lines[at + 1]) is None:
            # Perhaps the head of a table, which no item of a list but the first can be.
            at, count = self._listed
        return at, self.found[:count]


def is_plain_heading(lines: Sequence[str], at: int, end: int) -> bool:
    """Whether a line is a heading and cannot be the head of a table: the line below tells."""
    match = _LINE.match(lines[at])
    if match is None or match.lastindex != _HEADING:
        return False
    return at + 1 >= end or _LINE.match(lines[at + 1]) is not None

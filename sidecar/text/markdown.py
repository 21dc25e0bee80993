"""Notes cut into units: bullets, paragraphs, rows, code, headings, each with exact lines (spec §5.1, §7).

CommonMark block structure with tables and front matter; inline marks are not looked at, and raw HTML is
ordinary text. Every line is painted with the block that owns it, the innermost list item winning, so that
each non-blank line lands in exactly one unit however odd the file is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, blockquote
from markdown_it.rules_block import heading as heading_rule
from markdown_it.token import Token

from sidecar.domain.corpus import NO_ANNOTATIONS, Annotations, Unit, UnitKind
from sidecar.domain.halting import Checkpoint, carry_on
from sidecar.domain.memory import LineRange
from sidecar.text.annotations import parse, strip
from sidecar.text.cutting import CODE_LINES, cut_lines
from sidecar.text.lines import split_lines
from sidecar.text.plain_blocks import PlainBlock, is_plain_heading, plain_blocks

# Levels of lists and quotes: a list takes two. Past it the parser gives the rest of the note to one block.
_NESTING = 60
_PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING}).enable("table")
# A link definition is text like any other.
_PARSER.disable("reference")
_CHECKPOINT = "checkpoint"
_LINES = "lines"
_PLAIN = "plain"


def _look_up(state: StateBlock, _start: int, _end: int, _silent: bool) -> bool:
    """A rule that never matches; the parser asks it at every block, and at every line that may end one."""
    state.env[_CHECKPOINT]()
    return False


# The parser asks at each level of quotes anew whether a line ends one, so deep ones would cost seconds.
_QUOTE_DEPTH = 8
_QUOTES = "quotes"


def _quote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """The parser's block quotes, of which those too deep are the text of the one around them."""
    depth = state.env.get(_QUOTES, 0)
    if depth >= _QUOTE_DEPTH:
        return False
    state.env[_QUOTES] = depth + 1
    try:
        return blockquote(state, start, end, silent)
    finally:
        state.env[_QUOTES] = depth


_PARSER.block.ruler.at("blockquote", _quote, {"alt": ["paragraph", "reference", "blockquote", "list"]})
_PARSER.block.ruler.before(
    "table", _CHECKPOINT, _look_up, {"alt": ["paragraph", "reference", "blockquote", "list"]}
)


def _plain(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A rule that takes plain blocks all at once, where no other block is open, and notes them by itself."""
    if silent or state.level or state.blkIndent or state.parentType != "root":
        return False
    lines: Sequence[str] = state.env[_LINES]
    if is_plain_heading(lines, start, end):
        return heading_rule(state, start, end, silent)
    following, found = plain_blocks(lines, start, end)
    if following == start:
        return False
    state.env[_PLAIN] += found
    state.line = following
    return True


_PARSER.block.ruler.before(_CHECKPOINT, _PLAIN, _plain)
# What a Markdown parser can throw at a text that its author did not think of. All mean: cut by paragraphs.
_PARSER_FAULTS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

_FRONT_MATTER_KEY = re.compile(r"[A-Za-z_][\w .-]*:(\s|$)")
_FRONT_MATTER_LINES = 200
_ENTRY_START = re.compile(r"- |#{1,6}(?=\s|$)")
_LEAVES: dict[str, UnitKind] = {
    "paragraph_open": "paragraph",
    "fence": "code",
    "code_block": "code",
    "hr": "paragraph",
    "tr_open": "row",
    "heading_open": "heading",
}


class _Block(msgspec.Struct, frozen=True):
    """What owns a line. `scope` is the line that the block begins with whose annotations hold for it.

    `level` is a heading's.
    """

    kind: UnitKind
    scope: int
    level: int = 0
    title: str = ""


class _Run(msgspec.Struct, frozen=True):
    """Consecutive 1-based lines, from non-blank to non-blank, of one block and one curated entry."""

    block: _Block
    start: int
    end: int
    entry: int | None


_Owners = list[_Block | None]


def units(
    text: str, *, curated: bool, recall: bool, projects: bool, check: Checkpoint = carry_on
) -> list[Unit]:
    """The units of a note in file order; they never overlap and leave out only blank lines.

    `curated` cuts per entry (root `MEMORY.md` and `USER.md`, U§9): a new entry starts at each line that
    begins with `- ` or is an ATX heading, both at column 0, and annotations hold for the whole entry.
    Elsewhere they hold for the top-level list item, or else for the block's own lines (U§10). `recall` and
    `projects` are those of `annotations.parse`. Over-long units come cut as `cutting` says; all pieces keep
    their block's annotations.
    """
    lines = split_lines(text)
    owners = _owners(lines, check)
    entries = _entries(lines) if curated else None
    runs = _runs(lines, owners, entries)
    notes = _annotations(lines, runs, curated=curated, recall=recall, projects=projects)
    found: list[Unit] = []
    path: list[tuple[int, str]] = []
    heading: tuple[str, ...] = ()
    section = 0
    opened: _Block | None = None
    for run in runs:
        check()
        block = run.block
        if block.level and block is not opened:
            opened = block
            section += 1
            while path and path[-1][0] >= block.level:
                path.pop()
            heading = tuple(title for _, title in path if title)
        annotations = notes[run.entry if run.entry is not None else block.scope]
        for cut in cut_lines(lines, run.start, run.end, most=CODE_LINES if block.kind == "code" else None):
            found.append(
                Unit(
                    lines=cut,
                    kind=block.kind,
                    text=strip(raw_text(lines, cut)),
                    heading=heading,
                    section=section,
                    entry=run.entry,
                    annotations=annotations,
                )
            )
        if block.level and (not path or path[-1] != (block.level, block.title)):
            path.append((block.level, block.title))
            heading = tuple(title for _, title in path if title)
    return found


def raw_text(lines: Sequence[str], where: LineRange) -> str:
    """The text on disk of a range, annotations included."""
    if where.chars is not None:
        return lines[where.start - 1][where.chars[0] : where.chars[1]]
    return "\n".join(lines[where.start - 1 : where.end])


def _entries(lines: Sequence[str]) -> list[int]:
    """The entry number of each line of a curated file; what stands before the first entry is entry 0."""
    numbers, entry = [], 0
    for line in lines:
        if line[:1] in ("-", "#") and _ENTRY_START.match(line):
            entry += 1
        numbers.append(entry)
    return numbers


def _owners(lines: Sequence[str], check: Checkpoint) -> _Owners:
    """The block of each line. Lines that the parser leaves out (nesting too deep) have none."""
    front = _front_matter(lines)
    # The parser's own reading of line ends, which would count "\r", is not used; it only has to be hidden.
    body = [line.removesuffix("\r") for line in lines[front:]]
    seen = [""] * front + body
    owners: _Owners = [None] * len(lines)
    tokens: list[Token] = []
    plain: list[PlainBlock] = []
    env: dict[str, Any] = {_CHECKPOINT: check, _LINES: seen, _PLAIN: plain}
    try:
        _PARSER.block.parse("\n".join(seen), _PARSER, env, tokens)
        _paint(owners, tokens)
        for block in plain:
            _fill(owners, block.start, block.end, _Block(block.kind, block.scope))
    except _PARSER_FAULTS:
        owners = [None] * len(lines)
    if front:
        owners[:front] = [_Block("front_matter", -1)] * front
    return owners


def _front_matter(lines: Sequence[str]) -> int:
    """How many lines front matter takes at the top: `---`, something that looks like keys, `---` or `...`."""
    if not lines or lines[0].rstrip() != "---":
        return 0
    keys = False
    for number, line in enumerate(lines[1:_FRONT_MATTER_LINES], start=2):
        stripped = line.rstrip()
        if stripped in ("---", "..."):
            return number if keys else 0
        if not keys and stripped and not stripped.startswith("#"):
            if not _FRONT_MATTER_KEY.match(stripped):
                return 0
            keys = True
    return 0


def _paint(owners: _Owners, tokens: Sequence[Token]) -> None:
    scopes: list[int] = []
    for index, token in enumerate(tokens):
        kind = token.type
        if kind == "list_item_close":
            scopes.pop()
        elif kind == "list_item_open" and token.map:
            scopes.append(token.map[0])
            _fill(owners, token.map[0], token.map[1], _Block("bullet", scopes[0]))
        elif scopes or not token.map or kind not in _LEAVES:
            continue
        elif kind == "tr_open":
            # The delimiter row under a header row has no token of its own.
            header = index > 0 and tokens[index - 1].type == "thead_open"
            _fill(owners, token.map[0], token.map[0] + (2 if header else 1), _Block("row", token.map[0]))
        elif kind == "heading_open" and token.level == 0:
            title = " ".join(strip(tokens[index + 1].content).split())
            _fill(
                owners, token.map[0], token.map[1], _Block("heading", token.map[0], int(token.tag[1]), title)
            )
        else:
            _fill(owners, token.map[0], token.map[1], _Block(_LEAVES[kind], token.map[0]))


def _fill(owners: _Owners, start: int, end: int, block: _Block) -> None:
    end = min(end, len(owners))
    owners[start:end] = [block] * (end - start)


def _runs(lines: Sequence[str], owners: _Owners, entries: Sequence[int] | None) -> list[_Run]:
    """The non-blank lines grouped by owner and entry; lines without an owner join the line above them."""
    runs: list[_Run] = []
    block: _Block | None = None
    entry: int | None = None
    start = end = 0
    for number, (line, owner) in enumerate(zip(lines, owners, strict=True), start=1):
        if not line.strip():
            continue
        if owner is None:
            adjoins = block is not None and end == number - 1 and block.kind in ("paragraph", "bullet")
            owner = block if adjoins else _Block("paragraph", -1 - number)
        line_entry = entries[number - 1] if entries is not None else None
        if block is None or owner is not block or line_entry != entry:
            if block is not None:
                runs.append(_Run(block, start, end, entry))
            start, block, entry = number, owner, line_entry
        end = number
    if block is not None:
        runs.append(_Run(block, start, end, entry))
    return runs


def _annotations(
    lines: Sequence[str], runs: Sequence[_Run], *, curated: bool, recall: bool, projects: bool
) -> dict[int, Annotations]:
    """The annotations of each entry (curated) or scope, read once from all the lines that belong to it."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for run in runs:
        key = run.entry if curated and run.entry is not None else run.block.scope
        spans.setdefault(key, []).append((run.start, run.end))
    found: dict[int, Annotations] = {}
    for key, pieces in spans.items():
        own: list[str] = []
        for start, end in pieces:
            own.extend(lines[start - 1 : end])
        found[key] = parse(own, recall=recall, projects=projects) if own else NO_ANNOTATIONS
    return found

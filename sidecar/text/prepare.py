"""A file as the index wants it: units with their terms, and blocks of text to embed (spec §7).

Pure and picklable, for it runs in worker processes.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from hashlib import blake2b, sha256
from itertools import pairwise
from pathlib import PurePosixPath

import msgspec

from sidecar.domain.corpus import FileStamp, Unit
from sidecar.domain.halting import Checkpoint, carry_on
from sidecar.domain.memory import Source
from sidecar.text.cutting import UNIT_LIMIT
from sidecar.text.dates import note_day, spoken
from sidecar.text.lines import decode, split_lines
from sidecar.text.markdown import units
from sidecar.text.scripts import HAN_KANA, HANGUL, UNSPACED
from sidecar.text.terms import index_terms
from sidecar.text.windows import BLOCKED, Span, sizes

CURATED = ("MEMORY.md", "USER.md")
"""The files that are cut per entry and may carry triggers and importance (U§9, U§10)."""

_BLOCK_AIM = 650
_PASSAGE_MOST = 2500
_SECTION_BREAK = 0.6
# How far a token is followed past the cut of an over-long line; longer ones are no words any more.
_TOKEN_REACH = 8192
_UNSPACED = re.compile(f"[{HAN_KANA}{HANGUL}{UNSPACED}]")
_UNSPACED_REACH = 8


class PreparedUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit and what it is found by.

    `terms` are the index terms of its own text, `head` those of the headings above it, both joined by
    spaces. `group` and `size` are those of `windows.Span`; a unit with `unit.annotations.malformed` has
    group `BLOCKED` and must be kept out of every result (U§10).
    """

    unit: Unit
    terms: str
    head: str
    group: int
    size: int

    def span(self) -> Span:
        """The unit as windows see it."""
        return Span(
            start=self.unit.lines.start,
            end=self.unit.lines.end,
            size=self.size,
            group=self.group,
            section=self.unit.section,
            heading=self.unit.kind == "heading",
            chars=self.unit.lines.chars,
        )


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A window-sized run of units (indices, inclusive) with the text to embed and the hash of that text."""

    first_unit: int
    last_unit: int
    text: str
    hash: bytes


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A longer run of units as one text: what stands around a unit. A file without units has an empty one.

    `terms` are those of the file's name and date, of the heading above, and of its units, joined by spaces.
    """

    first_unit: int
    unit_count: int
    terms: str


class PreparedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A file ready for the index.

    `content_hash` is SHA-256 of the bytes, `note` that of `lines.Decoded`, `day` the proleptic ordinal of a
    daily note's date.
    """

    path: str
    source: Source
    stamp: FileStamp
    content_hash: bytes
    text: str
    note: str | None
    day: int | None
    units: tuple[PreparedUnit, ...]
    passages: tuple[Passage, ...]
    blocks: tuple[Block, ...]


def prepare(
    path: str, source: Source, data: bytes, stamp: FileStamp, check: Checkpoint = carry_on
) -> PreparedDocument:
    """Everything the index keeps of a file; never raises for what the bytes are.

    `path` is what callers see. Annotations are read in memory files only: triggers and importance in root
    `MEMORY.md` and `USER.md`, project keys everywhere but in root `USER.md` (U§10).
    """
    decoded = decode(data)
    lines = split_lines(decoded.text)
    curated = source == "memory" and path in CURATED
    found = units(
        decoded.text,
        curated=curated,
        recall=curated,
        projects=source == "memory" and path != "USER.md",
        check=check,
    )
    groups = _groups(found)
    across = _across_cuts(lines, found, check)
    heads: dict[tuple[str, ...], str] = {}
    prepared: list[PreparedUnit] = []
    measured = sizes(lines, [unit.lines for unit in found])
    for index, (unit, group, size) in enumerate(zip(found, groups, measured, strict=True)):
        check()
        head = heads.get(unit.heading)
        if head is None:
            head = heads[unit.heading] = " ".join(index_terms(" ".join(unit.heading)))
        terms = index_terms(unit.text)
        if index in across:
            terms.extend(index_terms(across[index]))
        prepared.append(PreparedUnit(unit=unit, terms=" ".join(terms), head=head, group=group, size=size))
    day = note_day(path) if source == "memory" else None
    name = " ".join(name_terms(path, day))
    return PreparedDocument(
        path=path,
        source=source,
        stamp=stamp,
        content_hash=sha256(data).digest(),
        text=decoded.text,
        note=decoded.note,
        day=day.toordinal() if day else None,
        units=tuple(prepared),
        passages=_passages(prepared, name),
        blocks=_blocks(prepared),
    )


def name_terms(path: str, day: datetime.date | None) -> list[str]:
    """What every unit of a file is also found by: folders, name and stem, and the day as it is spoken."""
    pure = PurePosixPath(path)
    folders = [part for part in pure.parent.parts if part not in ("..", ".", "/")]
    words = (path, *folders, pure.name, pure.stem)  # white space in names stays a border of words
    return index_terms(" ".join((*words, spoken(day)) if day else words))


def _groups(found: Sequence[Unit]) -> list[int]:
    """The window group of each unit: its entry, else a number for its set of project keys."""
    numbers: dict[object, int] = {}
    groups: list[int] = []
    for unit in found:
        if unit.annotations.malformed:
            groups.append(BLOCKED)
            continue
        key: object = unit.entry if unit.entry is not None else frozenset(unit.annotations.project_keys)
        groups.append(numbers.setdefault(key, len(numbers)))
    return groups


def _across_cuts(lines: Sequence[str], found: Sequence[Unit], check: Checkpoint) -> dict[int, str]:
    """For pieces of over-long lines: the tokens that the cut after a piece parts, to be found there whole."""
    across: dict[int, str] = {}
    reached: tuple[int, int] = (0, 0)
    for index, (unit, following) in enumerate(pairwise(found)):
        check()
        chars, after = unit.lines.chars, following.lines.chars
        if not chars or not after or unit.lines.start != following.lines.start or chars[1] != after[0]:
            continue
        line, cut = lines[unit.lines.start - 1], chars[1]
        if reached[0] == unit.lines.start and cut < reached[1]:
            # The token that an earlier cut parted covers this one too; it belongs where it begins.
            continue
        start, end = _token_around(line, cut)
        if start < cut < end:
            across[index] = line[start:end]
            reached = (unit.lines.start, end)
    return across


def _token_around(line: str, cut: int) -> tuple[int, int]:
    """The token at a cut; where words are written without spaces, only a few characters on each side."""
    reach = _UNSPACED_REACH if _UNSPACED.search(line[cut - 1 : cut + 1]) else _TOKEN_REACH
    before = line[max(0, cut - reach) : cut]
    after = line[cut : cut + reach]
    left = before.rsplit(maxsplit=1)
    right = after.split(maxsplit=1)
    start = cut if not left or before[-1:].isspace() else cut - len(left[-1])
    end = cut if not right or after[:1].isspace() else cut + len(right[0])
    return start, end


def _passages(prepared: Sequence[PreparedUnit], name: str) -> tuple[Passage, ...]:
    """All units shared out evenly to passages; what a malformed annotation hides is in none of the texts."""
    total = sum(unit.size + 1 for unit in prepared)
    aim = total / max(1, -(-total // _PASSAGE_MOST))
    passages: list[Passage] = []
    first, length = 0, 0
    for index, unit in enumerate(prepared):
        length += unit.size + 1
        if length >= aim * (len(passages) + 1) or index == len(prepared) - 1:
            held = prepared[first : index + 1]
            texts = [name, held[0].head, *(each.terms for each in held if each.group != BLOCKED)]
            terms = " ".join(filter(None, texts))
            passages.append(Passage(first_unit=first, unit_count=len(held), terms=terms))
            first = index + 1
    return tuple(passages) or (Passage(first_unit=0, unit_count=0, terms=name),)


def _blocks(prepared: Sequence[PreparedUnit]) -> tuple[Block, ...]:
    """Consecutive units packed to about a window each, never across a group, preferably at a heading.

    A curated entry has blocks of its own. Elsewhere a stretch is shared out evenly, so that an ordinary note
    of 2 KB has about four.
    """
    blocks: list[Block] = []
    first = 0
    while first < len(prepared):
        last = first
        while last + 1 < len(prepared) and prepared[last + 1].group == prepared[first].group:
            last += 1
        if prepared[first].group != BLOCKED:
            blocks.extend(_packed(prepared, first, last))
        first = last + 1
    return tuple(blocks)


def _packed(prepared: Sequence[PreparedUnit], first: int, last: int) -> list[Block]:
    total = sum(unit.size + 1 for unit in prepared[first : last + 1])
    aim = total / max(1, round(total / _BLOCK_AIM + 0.3))
    blocks: list[Block] = []
    start, length = first, 0
    for index in range(first, last + 1):
        size = prepared[index].size + 1
        heading = prepared[index].unit.kind == "heading"
        full = length + size > UNIT_LIMIT or length >= aim or (heading and length >= _SECTION_BREAK * aim)
        if index > start and full:
            blocks.extend(_block(prepared, start, index - 1))
            start, length = index, 0
        length += size
    blocks.extend(_block(prepared, start, last))
    return blocks


def _block(prepared: Sequence[PreparedUnit], first: int, last: int) -> list[Block]:
    texts = [text for unit in prepared[first : last + 1] if (text := unit.unit.text.strip())]
    if not texts:
        return []
    text = "\n".join((*prepared[first].unit.heading[-1:], *texts))
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return [Block(first_unit=first, last_unit=last, text=text, hash=digest)]

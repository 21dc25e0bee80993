"""A Markdown workspace as facts for a record store: pure, and the same facts for the same text every time.

A fact is an entry of `MEMORY.md` or `USER.md`, or of a note a paragraph, a table, a code block, or a list
item with what hangs below it. It stands for itself, so its headings and, in a daily note, its day come
first.
Annotation comments are left out: a record has no triggers and no importance; a project is its scope.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from sidecar.domain.corpus import Unit
from sidecar.text.dates import note_day
from sidecar.text.fragments import label
from sidecar.text.lines import decode, split_lines
from sidecar.text.markdown import units
from sidecar.text.prepare import CURATED
from sidecar.text.terms import index_terms

LARGEST_FACT = 4096
"""Bytes of UTF-8 of what is put together; the store takes 8,192 with the context."""

LARGEST_CONTEXT = 1024
KINDS = {"MEMORY.md": "memory", "USER.md": "user"}
_TOGETHER = ("row", "code", "front_matter")


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One record to be. `place` says where it stood, `project` in which project's scope it belongs."""

    kind: str
    text: str
    place: str
    project: str | None = None


class LeftOut(msgspec.Struct, frozen=True):
    """What cannot become a fact, and why."""

    place: str
    reason: str


def identity(text: str) -> str:
    """What makes two facts of one scope the same: the text as the store keeps it."""
    return unicodedata.normalize("NFC", text).strip()


def facts_of(path: str, data: bytes) -> tuple[tuple[Fact, ...], tuple[LeftOut, ...]]:
    """The facts of one file in its order, and what is left out; never raises, whatever the bytes are."""
    text = decode(data).text
    lines = split_lines(text)
    curated = path in CURATED
    facts: list[Fact] = []
    left_out: list[LeftOut] = []
    for group in _groups(lines, units(text, curated=curated, recall=False, projects=path != "USER.md")):
        first, last = group[0], group[-1]
        place = label(path, msgspec.structs.replace(first.lines, end=last.lines.end, chars=None))
        keys = first.annotations.project_keys
        if first.annotations.malformed:
            left_out.append(LeftOut(place, "its project annotation is malformed"))
        elif len(keys) > 1:
            left_out.append(LeftOut(place, "it belongs to several projects, a record has one scope"))
        elif index_terms(body := _joined(group)):
            facts.append(
                Fact(
                    kind=KINDS.get(path, "note"),
                    text=identity("\n".join(filter(None, (_context(path, first), body)))),
                    place=place,
                    project=keys[0] if keys else None,
                )
            )
    return tuple(facts), tuple(left_out)


def _groups(lines: Sequence[str], found: Sequence[Unit]) -> list[list[Unit]]:
    """Units that are one fact together; headings are context and no fact."""
    groups: list[list[Unit]] = []
    before: Unit | None = None
    for unit in found:
        if unit.kind != "heading":
            if groups and before is not None and _continues(lines, groups[-1], before, unit):
                groups[-1].append(unit)
            else:
                groups.append([unit])
        before = unit
    return groups


def _continues(lines: Sequence[str], group: Sequence[Unit], before: Unit, unit: Unit) -> bool:
    if before.kind == "heading" or before.section != unit.section:
        return False
    if before.annotations.project_keys != unit.annotations.project_keys:
        return False
    if before.annotations.malformed != unit.annotations.malformed:
        return False
    if sum(len(each.text.encode("utf-8", "replace")) for each in (*group, unit)) > LARGEST_FACT:
        return False
    if unit.entry is not None or before.entry is not None:
        return unit.entry == before.entry
    if unit.lines.start == before.lines.end or (unit.kind == before.kind and unit.kind in _TOGETHER):
        return True
    return group[0].kind == "bullet" and lines[unit.lines.start - 1][:1] in (" ", "\t")


def _joined(group: Sequence[Unit]) -> str:
    """The text of a fact: pieces of one over-long line are put together again without a seam."""
    text = group[0].text
    for before, unit in pairwise(group):
        text += unit.text if unit.lines.start == before.lines.end else "\n" + unit.text
    return text.replace("\r", "").strip("\n")


def _context(path: str, unit: Unit) -> str:
    heading = " > ".join(part for part in unit.heading if part)
    day = note_day(path)
    if day is not None and day.isoformat() not in heading:
        heading = f"{day.isoformat()} > {heading}" if heading else day.isoformat()
    return heading.encode("utf-8", "replace")[:LARGEST_CONTEXT].decode("utf-8", "ignore")

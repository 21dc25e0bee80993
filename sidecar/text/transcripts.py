"""Transcripts as text: records of JSONL to the lines that are indexed, shown and read (U§7). Pure.

A record is a message of the user or the assistant. It renders to `User: ...` or `Assistant: ...`, with white
space collapsed and secrets masked; a long one is wrapped at 800 UTF-16 units, each of its lines labelled.
Everything else renders to nothing, and every record keeps the number of its physical line.
"""

from __future__ import annotations

import msgspec

from sidecar.domain.corpus import OriginClass
from sidecar.text.inbound import strip_inbound, strip_runtime
from sidecar.text.lines import utf16_length
from sidecar.text.machinery import is_machinery
from sidecar.text.redaction import redact
from sidecar.text.transcript_records import Generated, Message, Reset, parse

WRAP = 800
"""UTF-16 units of a rendered line; its label is extra."""

LABELS = {"user": "User", "assistant": "Assistant"}

_UNHEARD_TOOLS = frozenset({"heartbeat", "memory_search", "memory_get"})
_WORST: tuple[OriginClass, ...] = ("untrusted", "system", "agent", "owner")


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What the last message of the user decides about those that follow it.

    `number` counts turns; `dropped` turns say nothing to remember. Before the first turn nobody is trusted.
    """

    number: int = 0
    origin: OriginClass = "untrusted"
    dropped: bool = False
    tainted: bool = False


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """One record: its physical line (1-based), and its rendered lines joined by line ends."""

    line: int
    text: str
    label: str
    origin: OriginClass
    observed_ms: int
    turn: int

    @property
    def lines(self) -> list[str]:
        """The rendered lines."""
        return self.text.split("\n")

    def body(self, start: int = 0, end: int | None = None) -> str:
        """A part of the text (code points) without the labels of its lines."""
        part = self.text[start:end]
        label = f"{self.label}: "
        return part.removeprefix(label).replace("\n" + label, " ").replace("\n", " ")


class Renderer:
    """Renders the lines of one transcript in their order; `turn` is what a later start goes on from."""

    def __init__(self, turn: Turn | None = None) -> None:
        self.turn = turn or Turn()

    def render(self, number: int, line: bytes) -> Rendered | Reset | Generated | None:
        """What the physical line `number` says; None for nothing."""
        record = parse(line)
        if not isinstance(record, Message):
            return record
        if record.role == "user":
            self._begin(record)
        elif record.tainted:
            self.turn = msgspec.structs.replace(self.turn, tainted=True)
        if self.turn.dropped or (record.role == "user" and record.provenance == "inter_session"):
            return None
        text = _words(record)
        if not text or is_machinery(text, record.role):
            return None
        label = LABELS[record.role]
        pieces = wrap(redact(text))
        return Rendered(
            line=number,
            text="\n".join(f"{label}: {piece}" for piece in pieces),
            label=label,
            origin=self._origin(record),
            observed_ms=record.observed_ms,
            turn=self.turn.number,
        )

    def _begin(self, record: Message) -> None:
        internal = record.provenance == "internal_system"
        origin: OriginClass = "owner" if record.sender_is_owner else "untrusted"
        self.turn = Turn(
            number=self.turn.number + 1,
            origin="system" if internal else origin,
            dropped=internal and record.source_tool in _UNHEARD_TOOLS,
            tainted=record.tainted,
        )

    def _origin(self, record: Message) -> OriginClass:
        if record.role == "user":
            return self.turn.origin
        if self.turn.tainted:
            return "untrusted"
        return "agent" if self.turn.origin == "owner" else self.turn.origin


def _words(record: Message) -> str:
    text = strip_inbound(record.text) if record.role == "user" else record.text
    return collapse(strip_runtime(text))


def collapse(text: str) -> str:
    """The text with every run of white space as one space, and none at the ends."""
    return " ".join(text.replace("\0", " ").replace("\ufeff", " ").split())


def worst(origins: set[OriginClass]) -> OriginClass:
    """The least trusted of the classes; untrusted for none."""
    return next((origin for origin in _WORST if origin in origins), "untrusted")


def wrap(text: str) -> list[str]:
    """Collapsed text in pieces of at most `WRAP` UTF-16 units, cut at the last space that fits.

    A character outside the basic plane is never split.
    """
    if utf16_length(text) <= WRAP:
        return [text]
    pieces = []
    at = 0
    while at < len(text):
        end = at + _within(text[at : at + WRAP])
        if end < len(text) and text[end] != " ":
            space = text.rfind(" ", at + 1, end)
            end = space if space > 0 else end
        pieces.append(text[at:end].strip())
        at = end
        while at < len(text) and text[at] == " ":
            at += 1
    return pieces


def _within(text: str) -> int:
    """How many characters from the start are within `WRAP` UTF-16 units."""
    if text.isascii() or max(text) <= "\uffff":
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")[: 2 * WRAP].decode("utf-16-le", "ignore"))

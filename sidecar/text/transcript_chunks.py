"""A transcript in chunks: runs of whole lines that are indexed, proven and read on their own.

A chunk is named by its bytes, so that an append touches the last one only and a hit is proven by reading its
own chunk. None straddles a reset. Memory is bounded whatever the file holds: a line that is too long is
counted and not read, and a transcript has a most of rendered text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256

import msgspec

from sidecar.text.transcript_records import Generated, Reset
from sidecar.text.transcripts import Rendered, Renderer, Turn

CHUNK_BYTES = 256 * 1024
CHUNK_CHARACTERS = 32 * 1024
MOST_LINE_BYTES = 8 * 1024 * 1024
MOST_RENDERED = 32 * 1024 * 1024
"""Characters of rendered text that are indexed of one transcript."""

LONG_LINE = "line-too-long"
LONG_TRANSCRIPT = "too-large"


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Where a chunk begins, with all that is needed to render on from there.

    `byte` and `line` (1-based) are its first, `rendered` how much text stands before it, `reset` the physical
    line of the last reset before it.
    """

    number: int = 0
    byte: int = 0
    line: int = 1
    rendered: int = 0
    turn: Turn = Turn()
    reset: int | None = None


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """Lines `start.line` to `last_line`, bytes `start.byte` to `end`, and the SHA-256 of these bytes.

    `records` are what they say, in order. `reset` is the line of the last reset up to here. `generated` says
    by what machinery the file was made, once a record tells. `last_line` is `start.line - 1` for no lines.
    """

    start: Start
    end: int
    last_line: int
    digest: bytes
    records: tuple[Rendered, ...]
    reset: int | None
    generated: str | None
    notes: tuple[str, ...]
    following: Start


class _Open:
    """The chunk that is being filled."""

    def __init__(self, start: Start, renderer: Renderer) -> None:
        self.start = start
        self.renderer = renderer
        self.end = start.byte
        self.line = start.line
        self.reset = start.reset
        self.generated: str | None = None
        self.records: list[Rendered] = []
        self.notes: dict[str, None] = {}
        self.characters = 0
        self.hash = sha256()

    @property
    def is_empty(self) -> bool:
        return self.line == self.start.line and self.end == self.start.byte

    def is_full_with(self, size: int) -> bool:
        """Whether a line of this size belongs to the next chunk."""
        full = self.end - self.start.byte + size > CHUNK_BYTES or self.characters >= CHUNK_CHARACTERS
        return full and not self.is_empty

    def take(self, line: bytes, said: Rendered | Reset | Generated | None) -> None:
        """Add a line with what it says."""
        self.skip(line)
        if isinstance(said, Reset):
            self.reset = self.line
        elif isinstance(said, Generated):
            self.generated = self.generated or said.by
        elif said is not None:
            if self.start.rendered + self.characters + len(said.text) > MOST_RENDERED:
                self.notes[LONG_TRANSCRIPT] = None
            else:
                self.records.append(said)
                self.characters += len(said.text)
        self.line += 1

    def skip(self, data: bytes) -> None:
        """Count bytes."""
        self.hash.update(data)
        self.end += len(data)

    def close(self) -> Chunk:
        following = Start(
            number=self.start.number + 1,
            byte=self.end,
            line=self.line,
            rendered=self.start.rendered + self.characters,
            turn=self.renderer.turn,
            reset=self.reset,
        )
        return Chunk(
            start=self.start,
            end=self.end,
            last_line=self.line - 1,
            digest=self.hash.digest(),
            records=tuple(self.records),
            reset=self.reset,
            generated=self.generated,
            notes=tuple(self.notes),
            following=following,
        )


def chunks(pieces: Iterable[bytes], start: Start) -> Iterator[Chunk]:
    """The chunks of a file's bytes from `start` on, which come in pieces of any size; at least one.

    A last line without its end counts as a line: it says what it says if it is whole, else nothing yet.
    """
    renderer = Renderer(start.turn)
    open_ = _Open(start, renderer)
    for line, is_whole, ends in _lines(pieces):
        if not is_whole:
            if open_.records:
                yield open_.close()
                open_ = _Open(open_.close().following, renderer)
            open_.skip(line)
            open_.notes[LONG_LINE] = None
            open_.line += ends
            continue
        before = renderer.turn
        said = renderer.render(open_.line, line)
        begins_anew = isinstance(said, Reset) and not open_.is_empty
        if begins_anew or open_.is_full_with(len(line)):
            after, renderer.turn = renderer.turn, before
            closed = open_.close()
            renderer.turn = after
            yield closed
            open_ = _Open(closed.following, renderer)
        open_.take(line, said)
    yield open_.close()


def _lines(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bool, bool]]:
    """Lines with their ends, as (bytes, whether it is a whole line, whether a line ends here).

    A line over `MOST_LINE_BYTES` comes in parts that are not whole.
    """
    tail = bytearray()
    skipping = False
    for piece in pieces:
        at = 0
        while at < len(piece):
            end = piece.find(b"\n", at) + 1
            part = piece[at : end or len(piece)]
            at += len(part)
            if not skipping and len(tail) + len(part) <= MOST_LINE_BYTES:
                tail += part
                if end:
                    yield bytes(tail), True, True
                    tail.clear()
                continue
            if tail:
                yield bytes(tail), False, False
                tail.clear()
            yield part, False, bool(end)
            skipping = not end
    if tail:
        yield bytes(tail), True, True
    elif skipping:
        yield b"", False, True

"""Reading what a reference names: exactly what the corpus rules admit now (spec §5.1, get).

Absent, excluded and forbidden are one `NotFound`. A revision names exact text: the text is returned with
its present lines, wherever it moved within its file, or `NotFound`; other text is never substituted.

Reading on: the same reference with `from` at the answer's `next_from`, until there is none, gives every line
once. A line over the bound is cut: the answer's citation names by its characters how much of it was given,
and the rest is read as characters of that line, from there to any end beyond.
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Sequence
from typing import Protocol

import msgspec

from sidecar.corpus.scan import Corpus
from sidecar.domain.corpus import Skipped
from sidecar.domain.errors import CorpusError
from sidecar.domain.memory import Citation, Found, GetRequest, LineRange, NotFound, ReadResult, Reference
from sidecar.service.bounds import MOST_CHARACTERS, MOST_LINES, chosen
from sidecar.text.fragments import format_fragment, label, parse_fragment
from sidecar.text.lines import cut_utf16, decode, find_revision, revision, split_lines, utf16_length

WHOLE_READ_BYTES = 4 * 1024 * 1024
NOT_FOUND = NotFound()
# Enough for the characters of any script, and for seeing that there are more.
_MOST_BYTES = 4 * MOST_CHARACTERS + 8


class Text(Protocol):
    """The lines of a file, of which a read takes some."""

    def part(self, first: int, count: int) -> Sequence[str]:
        """At most `count` lines from `first` on; the last may be cut far beyond what a read gives."""
        ...

    def characters(self, line: int, start: int, end: int) -> str:
        """A part of one line, as far as it is there; cut far beyond what a read gives."""
        ...


class Whole:
    """A file in memory."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    def part(self, first: int, count: int) -> Sequence[str]:
        return self.lines[first - 1 : first - 1 + count]

    def characters(self, line: int, start: int, end: int) -> str:
        return self.lines[line - 1][start:end] if line <= len(self.lines) else ""


class Huge:
    """A file that is read in pieces; raises `CorpusError` when it is gone."""

    def __init__(self, corpus: Corpus, path: str) -> None:
        self._corpus = corpus
        self._path = path

    def part(self, first: int, count: int) -> Sequence[str]:
        return self._corpus.read_lines(self._path, first, count, _MOST_BYTES) or ()

    def characters(self, line: int, start: int, end: int) -> str:
        part = self._corpus.read_lines(self._path, line, 1, _MOST_BYTES, from_char=start)
        return part[0][: end - start] if part else ""


class Named:
    """A text that its revision named: where it stands, and how far from where it was when it was named."""

    def __init__(self, name: str, lines: LineRange, moved: int) -> None:
        self.name = name
        self.lines = lines
        self.moved = moved


def _names(asked: str, path: str) -> bool:
    """Whether an id names a path as callers see it, in whatever Unicode form.

    Not by way of the host's folders: that one was guessed right is nothing to be told.
    """
    return unicodedata.normalize("NFC", posixpath.normpath(asked)) == unicodedata.normalize("NFC", path)


class Reader:
    """Reads references of one agent. Every method blocks; the caller is off the event loop."""

    def __init__(self, corpus: Corpus, provider_id: str) -> None:
        self._corpus = corpus
        self._provider_id = provider_id

    def get(self, request: GetRequest) -> ReadResult:
        """The text of a reference with its bounds, or `NotFound`.

        `from`, `lines` and `next_from` count lines as the reference that was asked for does; the reference
        and the citation of the answer name the lines where its text stands now.
        """
        reference = request.reference
        wanted = None if reference.fragment is None else parse_fragment(reference.fragment)
        if reference.fragment is not None and wanted is None:
            return NOT_FOUND
        file = self._corpus.look(reference.id)
        if file is None or isinstance(file, Skipped) or not _names(reference.id, file.path):
            return NOT_FOUND
        try:
            if reference.revision is None and file.stamp.size > WHOLE_READ_BYTES:
                return self._choose(file.path, Huge(self._corpus, file.path), wanted, request)
            read = self._corpus.read(file)
        except CorpusError:
            return NOT_FOUND
        if read is None:
            return NOT_FOUND
        text = Whole(split_lines(decode(read.data).text))
        if reference.revision is None:
            return self._choose(file.path, text, wanted, request)
        return self._named(file.path, text, wanted, reference.revision, request)

    def _choose(self, path: str, text: Text, wanted: LineRange | None, request: GetRequest) -> ReadResult:
        first, last, chars = chosen(wanted, request.from_line)
        if last is not None and not text.part(last, 1):
            return NOT_FOUND
        if chars is not None:
            return self._characters(path, text, LineRange(first, first, chars), None)
        return self._lines(path, text, (first, last), request.line_count, None)

    def _named(
        self, path: str, text: Whole, wanted: LineRange | None, name: str, request: GetRequest
    ) -> ReadResult:
        if wanted is None:
            if revision(text.lines) != name:
                return NOT_FOUND
            if not text.lines:
                return self._empty(path, 1)
            named = Named(name, LineRange(1, len(text.lines)), 0)
        else:
            count = wanted.end - wanted.start + 1
            found = find_revision(text.lines, name, wanted.start, count)
            if found is None:
                return NOT_FOUND
            named = Named(name, LineRange(found, found + count - 1, wanted.chars), found - wanted.start)
        if named.lines.chars is not None:
            return self._characters(path, text, named.lines, named)
        first = max(named.lines.start, (request.from_line or 1) + named.moved)
        return self._lines(path, text, (first, named.lines.end), request.line_count, named)

    def _characters(self, path: str, text: Text, where: LineRange, named: Named | None) -> ReadResult:
        start, end = where.chars or (0, 0)
        part = text.characters(where.start, start, end)
        if not part:
            return NOT_FOUND
        cut = cut_utf16(part, MOST_CHARACTERS)
        shown = LineRange(where.start, where.start, (start, start + len(cut)))
        return self._found(path, shown, cut, self._shown(path, shown, text), named, cut != part)

    def _lines(
        self,
        path: str,
        text: Text,
        span: tuple[int, int | None],
        line_count: int | None,
        named: Named | None,
    ) -> ReadResult:
        first, last = span
        count = MOST_LINES if line_count is None else line_count
        if last is not None:
            count = min(count, last - first + 1)
        part = text.part(first, count + 1) if count > 0 else ()
        body = _bounded(part[:count])
        if not body:
            return self._empty(path, first if named is None else first - named.moved, named)
        joined = "\n".join(body)
        cut = cut_utf16(joined, MOST_CHARACTERS)
        following = first + len(body)
        # A line that was cut may be all that was read of a huge file.
        goes_on = len(part) > len(body) or (cut != joined and bool(text.part(following, 1)))
        more = goes_on and (last is None or following <= last)
        shown = LineRange(first, following - 1, None if cut == joined else (0, len(cut)))
        exact = self._shown(path, shown, text)
        return self._found(path, shown, cut, exact, named, cut != joined, following if more else None)

    def _shown(self, path: str, shown: LineRange, text: Text) -> Reference:
        """The name of what is given, exact unless it is part of a line of which the rest is not here."""
        lines = text.part(shown.start, shown.end - shown.start + 1)
        exact = isinstance(text, Whole) or shown.chars is None
        return Reference(
            provider_id=self._provider_id,
            id=path,
            fragment=format_fragment(shown),
            revision=revision(lines) if exact else None,
        )

    def _empty(self, path: str, first: int, named: Named | None = None) -> Found:
        """No lines of what was asked for; a text that was named keeps its name."""
        reference = Reference(
            provider_id=self._provider_id,
            id=path,
            fragment=None if named is None else format_fragment(named.lines),
            revision=None if named is None else named.name,
        )
        return Found(reference=reference, text="", from_line=first, line_count=0)

    def _found(
        self,
        path: str,
        shown: LineRange,
        text: str,
        exact: Reference,
        named: Named | None,
        cut: bool,
        following: int | None = None,
    ) -> Found:
        reference = exact
        # What a revision named is what the answer is of, unless both are parts of one line.
        if named is not None and (shown.chars is None or named.lines.start != named.lines.end):
            reference = msgspec.structs.replace(
                exact, fragment=format_fragment(named.lines), revision=named.name
            )
        moved = named.moved if named is not None else 0
        return Found(
            reference=reference,
            text=text,
            citations=(
                Citation(
                    label=label(path, shown),
                    reference=exact if shown.chars is not None else reference,
                    start_line=shown.start,
                    end_line=shown.end,
                ),
            ),
            truncated=cut or following is not None,
            from_line=shown.start - moved,
            line_count=shown.end - shown.start + 1,
            next_from=None if following is None else following - moved,
        )


def _bounded(lines: Sequence[str]) -> list[str]:
    body: list[str] = []
    size = 0
    for line in lines:
        size += utf16_length(line) + (1 if body else 0)
        if size > MOST_CHARACTERS and body:
            break
        body.append(line)
    return body

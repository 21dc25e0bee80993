"""Reading what a reference names: exactly what the corpus rules admit now (spec §5.1, get).

Absent, excluded and forbidden are one `NotFound`. A revision names exact text: the text is returned with
its present lines, wherever it moved within its file, or `NotFound`; other text is never substituted.
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Sequence

from sidecar.corpus.scan import Corpus
from sidecar.domain.corpus import Skipped
from sidecar.domain.errors import CorpusError
from sidecar.domain.memory import Citation, Found, GetRequest, LineRange, NotFound, ReadResult, Reference
from sidecar.text.fragments import format_fragment, label, parse_fragment
from sidecar.text.lines import cut_utf16, decode, find_revision, revision, split_lines, utf16_length

MOST_LINES = 120
MOST_CHARACTERS = 12_000
WHOLE_READ_BYTES = 4 * 1024 * 1024
NOT_FOUND = NotFound()


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
        """The text of a reference with its bounds, or `NotFound`."""
        reference = request.reference
        wanted = None if reference.fragment is None else parse_fragment(reference.fragment)
        if reference.fragment is not None and wanted is None:
            return NOT_FOUND
        file = self._corpus.look(reference.id)
        if file is None or isinstance(file, Skipped) or not _names(reference.id, file.path):
            return NOT_FOUND
        try:
            if reference.revision is None and file.stamp.size > WHOLE_READ_BYTES:
                return self._part_of_huge(file.path, wanted, request)
            read = self._corpus.read(file)
        except CorpusError:
            return NOT_FOUND
        if read is None:
            return NOT_FOUND
        lines = split_lines(decode(read.data).text)
        if reference.revision is None:
            return self._choose(file.path, lines, wanted, request)
        return self._named(file.path, lines, wanted, reference.revision, request)

    def _choose(
        self, path: str, lines: Sequence[str], wanted: LineRange | None, request: GetRequest
    ) -> ReadResult:
        if wanted is not None and wanted.end > len(lines):
            return NOT_FOUND
        first, last = (1, len(lines)) if wanted is None else (wanted.start, wanted.end)
        if request.from_line is not None:
            first, last = request.from_line, len(lines)
        chars = None if wanted is None or request.from_line is not None else wanted.chars
        return self._answer(path, lines, (first, last), request.line_count, chars, None)

    def _named(
        self, path: str, lines: Sequence[str], wanted: LineRange | None, named: str, request: GetRequest
    ) -> ReadResult:
        if wanted is None:
            if revision(lines) != named:
                return NOT_FOUND
            first, last, chars, moved = 1, len(lines), None, 0
        else:
            count = wanted.end - wanted.start + 1
            found = find_revision(lines, named, wanted.start, count)
            if found is None:
                return NOT_FOUND
            first, last, chars, moved = found, found + count - 1, wanted.chars, found - wanted.start
        whole = (first, last)
        if request.from_line is not None:
            first = max(first, request.from_line + moved)
        return self._answer(path, lines, (first, last), request.line_count, chars, (named, whole))

    def _part_of_huge(self, path: str, wanted: LineRange | None, request: GetRequest) -> ReadResult:
        start = request.from_line or (wanted.start if wanted else 1)
        most = request.line_count or MOST_LINES
        if request.from_line is None and wanted is not None:
            most = min(most, wanted.end - wanted.start + 1)
        part = self._corpus.read_lines(path, start, most + 1, 4 * MOST_CHARACTERS + 8)
        if part is None:
            return NOT_FOUND
        body = self._bounded(part, most)
        more = len(part) > len(body)
        return self._found(
            path, start, body, more and (wanted is None or request.from_line is not None), None
        )

    def _answer(
        self,
        path: str,
        lines: Sequence[str],
        span: tuple[int, int],
        line_count: int | None,
        chars: tuple[int, int] | None,
        named: tuple[str, tuple[int, int]] | None,
    ) -> ReadResult:
        first, last = span
        if chars is not None:
            if chars[1] > len(lines[first - 1]):
                return NOT_FOUND
            text = lines[first - 1][chars[0] : chars[1]]
            return self._found(path, first, [text], False, named, chars)
        asked = last if line_count is None else min(last, first + line_count - 1)
        body = self._bounded(lines[first - 1 : asked], line_count or MOST_LINES)
        more = first + len(body) - 1 < asked or (line_count is not None and asked < last)
        return self._found(path, first, body, more, named)

    def _bounded(self, lines: Sequence[str], most_lines: int) -> list[str]:
        body: list[str] = []
        size = 0
        for line in lines[:most_lines]:
            size += utf16_length(line) + (1 if body else 0)
            if size > MOST_CHARACTERS and body:
                break
            body.append(line)
        return body

    def _found(
        self,
        path: str,
        first: int,
        body: Sequence[str],
        more: bool,
        named: tuple[str, tuple[int, int]] | None,
        chars: tuple[int, int] | None = None,
    ) -> Found:
        text = "\n".join(body)
        cut = cut_utf16(text, MOST_CHARACTERS)
        if not body:
            return Found(
                reference=Reference(provider_id=self._provider_id, id=path),
                text="",
                from_line=first,
                line_count=0,
            )
        shown = LineRange(first, first + len(body) - 1, chars)
        if chars is None and cut != text:  # one line over the bound: say which part of it this is
            shown = LineRange(first, first, (0, len(cut)))
        if named is None:
            reference = Reference(
                provider_id=self._provider_id,
                id=path,
                fragment=format_fragment(shown),
                revision=revision(body) if chars is None else None,
            )
        else:
            reference = Reference(
                provider_id=self._provider_id,
                id=path,
                fragment=format_fragment(LineRange(*named[1], chars)),
                revision=named[0],
            )
        return Found(
            reference=reference,
            text=cut,
            citations=(
                Citation(
                    label=label(path, shown),
                    reference=reference,
                    start_line=shown.start,
                    end_line=shown.end,
                ),
            ),
            truncated=more or cut != text,
            from_line=first,
            line_count=len(body),
            next_from=first + len(body) if more and cut == text else None,
        )

"""A read by path as the file-shaped contract has it (U§12): its paths, bounds, notices and refusals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from sidecar.corpus import opening, readable
from sidecar.corpus.rules import MISSING
from sidecar.corpus.scan import Corpus
from sidecar.domain.errors import CorpusError, ProviderFailed
from sidecar.domain.file_shaped import FileRead, FileText
from sidecar.text.lines import cut_utf16, utf16_length

MOST_LINES: Final = 120
MOST_CHARACTERS: Final = 12_000
# Enough for the characters of any script, and for seeing that there are more.
_MOST_BYTES: Final = 4 * MOST_CHARACTERS + 8

_REFUSALS: Final[Mapping[str, tuple[str, str]]] = {
    readable.NOT_ALLOWED: ("path is not an allowed Markdown memory file", "MEMORY_PATH_NOT_ALLOWED"),
    readable.OUTSIDE: ("file is outside workspace root", "outside-workspace"),
    readable.NOT_REGULAR: ("path must be a regular file", "not-regular"),
}
_OVER_BUDGET = "[More content available. Requested excerpt exceeded the default maxChars budget.{}]"
_USE_READ = " If you need the full raw line, use read on the source file."


class FileReading:
    """Reads notes of one agent by path. `read` blocks; the caller is off the event loop."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def read(self, request: FileRead) -> FileText:
        """The lines that are asked for, or status `not_found`; raises `ProviderFailed` with U§12's words."""
        path = request.path.strip()
        if not path:
            raise ProviderFailed("path required")
        if "\0" in path:
            raise ProviderFailed("relative path contains a NUL byte")
        first = _at_least_one(request.from_line, 1)
        most = _at_least_one(request.line_count, MOST_LINES)
        try:
            found = self._corpus.readable(path)
            if found.opened is None:
                return _missing(found.path)
            lines = opening.read_lines(*found.opened, first, most + 1, _MOST_BYTES)
        except CorpusError as error:
            if error.reason == MISSING:
                return _missing(error.path)
            raise _refused(error) from error
        return _answer(found.path, lines, first, most, in_workspace=found.in_workspace)


def _missing(path: str) -> FileText:
    return FileText(status="not_found", text="", path=path)


def _refused(error: CorpusError) -> ProviderFailed:
    message, reason = _REFUSALS.get(error.reason) or (
        f"memory file cannot be read: {error.reason}", error.reason,
    )  # fmt: skip
    return ProviderFailed(message, details={"reason": reason})


def _at_least_one(value: float | None, default: int) -> int:
    if value is None or not math.isfinite(value):
        return default
    return max(1, math.floor(value))


def _answer(path: str, lines: Sequence[str], first: int, most: int, *, in_workspace: bool) -> FileText:
    """The text within its bounds. One line over the budget is cut and cannot be continued by lines."""
    selected = lines[:most]
    if selected and utf16_length(selected[0]) > MOST_CHARACTERS:
        notice = _OVER_BUDGET.format(_USE_READ if in_workspace else "")
        return FileText(
            status="ok",
            text=f"{cut_utf16(selected[0], MOST_CHARACTERS)}\n\n{notice}",
            path=path,
            from_line=first,
            line_count=1,
            truncated=True,
        )
    body: list[str] = []
    size = 0
    for line in selected:
        size += utf16_length(line) + (1 if body else 0)
        if size > MOST_CHARACTERS:
            break
        body.append(line)
    text = "\n".join(body)
    following = first + len(body) if len(body) < len(lines) else None
    if following is not None:
        text += f"\n\n[More content available. Use from={following} to continue.]"
    return FileText(
        status="ok",
        text=text,
        path=path,
        from_line=first,
        line_count=len(body),
        truncated=following is not None,
        next_from=following,
    )

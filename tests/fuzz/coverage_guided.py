"""Coverage-guided fuzzing of what takes bytes: `python tests/fuzz/coverage_guided.py TARGET ...`.

TARGET is one of those below; what follows is libFuzzer's own (`-runs=1000000`, `-max_total_time=600`, or a
folder to keep what it found). It needs `pip install atheris`, which nothing else does. A target raises only
for a fault: errors that are declared are answers.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["sidecar", "markdown_it"]):
    from sidecar.domain.corpus import FileStamp
    from sidecar.domain.errors import CursorInvalid, InvalidRequest, SettingsError
    from sidecar.service.cursors import CursorMint
    from sidecar.settings.parse import parse
    from sidecar.text.fragments import format_fragment, parse_fragment
    from sidecar.text.prepare import prepare
    from sidecar.text.transcript_chunks import Start, chunks
    from sidecar.wire import frames, params

STAMP = FileStamp(1, 2, 3, 4, 5)
MINT = CursorMint()
DECODERS = (params.search, params.bounded_search, params.notes, params.get, params.status, params.refresh)


def request(data: bytes) -> None:
    """A frame, and its parameters by every decoder."""
    try:
        frame = frames.decode_request(data)
    except InvalidRequest:
        return
    for decode in DECODERS:
        with contextlib.suppress(InvalidRequest):
            decode(frame.params)


def parameters(data: bytes) -> None:
    """Parameters alone, by every decoder."""
    try:
        given = frames.params_of(frames.decode_json(data))
    except InvalidRequest:
        return
    for decode in DECODERS:
        with contextlib.suppress(InvalidRequest):
            decode(given)


def note(data: bytes) -> None:
    """A note as a plain and as a curated file; every line that says something is in a unit."""
    for path in ("memory/2026-01-02.md", "MEMORY.md"):
        document = prepare(path, "memory", data, STAMP)
        covered = {
            number
            for unit in document.units
            for number in range(unit.unit.lines.start, unit.unit.lines.end + 1)
        }
        for number, line in enumerate(document.text.split("\n"), start=1):
            if line.strip() and number not in covered:
                raise AssertionError(f"line {number} of {path} is in no unit")


def transcript(data: bytes) -> None:
    """A session file; its chunks cover it from end to end."""
    at = 0
    for chunk in chunks([data], Start()):
        if chunk.generated is not None:
            return
        if chunk.start.byte != at:
            raise AssertionError("chunks do not follow each other")
        at = chunk.end
    if at != len(data):
        raise AssertionError("the end of the file is in no chunk")


def cursor(data: bytes) -> None:
    """A made-up cursor is always refused."""
    try:
        MINT.read(data.decode("utf-8", "surrogateescape"), b"caller")
    except CursorInvalid:
        return
    raise AssertionError("a made-up cursor was taken")


def fragment(data: bytes) -> None:
    """A fragment that is understood means what its usual form means."""
    found = parse_fragment(data.decode("utf-8", "replace"))
    if found is not None and parse_fragment(format_fragment(found)) != found:
        raise AssertionError("a fragment changes its meaning")


def configuration(data: bytes) -> None:
    """A settings file is parsed or refused in one line."""
    try:
        parse(data, "f.toml")
    except SettingsError as error:
        if "\n" in error.message:
            raise AssertionError("a refusal of several lines") from error


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (request, parameters, note, transcript, cursor, fragment, configuration)
}


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: coverage_guided.py {{{'|'.join(TARGETS)}}} [libFuzzer's flags]")
    name = sys.argv.pop(1)
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()

"""Reading a text to its end as a host does: by `nextFrom`, and a line that was cut by its characters."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from sidecar.domain.memory import Found, GetRequest, ReadResult
from sidecar.service.bounds import MOST_CHARACTERS, MOST_LINES
from sidecar.text.fragments import parse_fragment
from sidecar.text.lines import utf16_length

Get = Callable[[GetRequest], ReadResult]


def read_on(get: Get, request: GetRequest, *, gaps: bool = False) -> list[str]:
    """The lines of everything that a reference names, a read at a time, as a host reads on.

    With `gaps`, lines of the file may have no text, as in transcripts.
    """
    lines: list[str] = []
    while True:
        found = get(request)
        assert isinstance(found, Found), request
        assert utf16_length(found.text) <= MOST_CHARACTERS
        assert gaps or found.text.count("\n") < (request.line_count or MOST_LINES)
        assert found.truncated or found.next_from is None, "where it goes on is said of a text that is whole"
        lines += (found.text + "".join(rest_of(get, found))).split("\n") if found.line_count else []
        if found.next_from is None:
            return lines
        read_to = (found.from_line or 0) + (found.line_count or 0)
        assert found.next_from == read_to or (gaps and found.next_from > read_to)
        request = msgspec.structs.replace(request, from_line=found.next_from)


def rest_of(get: Get, found: Found) -> Iterator[str]:
    """The parts of a line that was cut, behind the one that was given."""
    while found.truncated:
        shown = found.citations[0].reference
        assert shown is not None
        where = parse_fragment(shown.fragment or "")
        assert where is not None
        if where.chars is None:
            return
        rest = f"L{where.start}-L{where.end}@c{where.chars[1]}-999999999"
        following = get(GetRequest(reference=msgspec.structs.replace(shown, fragment=rest)))
        assert isinstance(following, Found)
        yield following.text
        found = following

"""Reading a transcript on by `nextFrom` gives every rendered line exactly once (spec §5.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from reads import read_on
from transcript_follower import EVERYTHING, PROVIDER, Followed

from sidecar.domain.memory import Found, GetRequest, Reference
from sidecar.text.transcripts import Rendered, Renderer

SAID = st.tuples(
    st.sampled_from(["user", "assistant"]),
    st.sampled_from(["valve", "日本 ", "😀 ", "e\u0301 x ", "word "]),
    st.sampled_from([1, 1, 1, 3, 200, 2_500, 9_000]),
)
SILENT = st.sampled_from(['{"type": "compaction"}', "no json", "", '{"type": "message", "message": {}}'])
RECORDS = st.lists(st.one_of(SAID, SAID, SILENT), min_size=1, max_size=12).flatmap(
    lambda records: st.sampled_from([1, 1, 60]).map(lambda times: _repeated(records, times))
)


def _repeated(records: list[Any], times: int) -> list[Any]:
    return records * (times if all(record[2] < 200 for record in records if len(record) == 3) else 1)


class Reading(NamedTuple):
    """Transcripts that are scanned when a test asks."""

    followed: Followed
    loop: asyncio.AbstractEventLoop

    def write(self, lines: bytes) -> list[Rendered]:
        """One transcript, indexed; gives its records."""
        (self.followed.sessions / "a.jsonl").write_bytes(lines)
        self.loop.run_until_complete(self.followed.runtime.refresh())
        renderer = Renderer()
        rendered = [renderer.render(at, line) for at, line in enumerate(lines.splitlines(), 1)]
        return [record for record in rendered if isinstance(record, Rendered)]

    def get(self, request: GetRequest) -> Any:
        return self.followed.runtime.reader.get(request, EVERYTHING)


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reading]:
    loop = asyncio.new_event_loop()
    followed = loop.run_until_complete(Followed.open(tmp_path_factory.mktemp("transcripts")))
    yield Reading(followed, loop)
    loop.run_until_complete(followed.close())
    loop.close()


@settings(max_examples=20, suppress_health_check=[*HealthCheck])
@given(
    records=RECORDS,
    most=st.sampled_from([None, None, 1, 3, 500]),
    cut=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
@example(records=[("user", "word ", 9_000)], most=None, cut=(0, 1))
@example(records=["", ("user", "word ", 3), "", "", "", ("assistant", "x ", 3), ""], most=2, cut=(0, 1))
def test_a_transcript_and_every_part_of_it_is_read_whole_and_nothing_twice(
    transcripts: Reading, say: Any, jsonl: Any, records: list[Any], most: int | None, cut: tuple[float, float]
) -> None:
    said = [
        record if isinstance(record, str) else say(record[0], record[1] * record[2]) for record in records
    ]
    rendered = transcripts.write(jsonl(*said))
    own = Reference(provider_id=PROVIDER, id="sessions/main/a.jsonl")
    if not rendered:
        found = transcripts.get(GetRequest(reference=own))
        assert not isinstance(found, Found) or (found.text, found.truncated) == ("", False)
        return
    whole = [line for record in rendered for line in record.lines]
    assert read_on(transcripts.get, GetRequest(reference=own, line_count=most), gaps=True) == whole
    first, last = sorted(rendered[round(share * (len(rendered) - 1))].line for share in cut)
    part = [line for record in rendered if first <= record.line <= last for line in record.lines]
    named = msgspec.structs.replace(own, fragment=f"L{first}-L{last}")
    assert read_on(transcripts.get, GetRequest(reference=named, line_count=most), gaps=True) == part

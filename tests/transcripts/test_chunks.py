"""Lines and bytes of a transcript are accounted for exactly, however it comes and grows."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.text import transcript_chunks
from sidecar.text.transcript_chunks import Chunk, Start, chunks
from sidecar.text.transcript_names import generated_by, identity_of, kind_of
from sidecar.text.transcripts import Rendered

WORDS = st.text(alphabet="ab \n😀é\u2028", min_size=1, max_size=60)
MESSAGE = st.builds(
    lambda role, text, flags: {
        "type": "message",
        "message": {"role": role, "content": text, "__openclaw": {"senderIsOwner": flags}},
    },
    st.sampled_from(["user", "assistant", "toolResult"]),
    WORDS,
    st.booleans(),
)
LINE = st.one_of(
    MESSAGE.map(lambda record: json.dumps(record, ensure_ascii=False).encode()),
    st.sampled_from([b"", b'{"type":"reset"}', b'{"type":"message"', b"junk", b"\xff\xfe", b"[[[["]),
)
FILE = st.lists(LINE, max_size=30).map(b"\n".join)


def together(found: list[Chunk]) -> list[Rendered]:
    return [record for chunk in found for record in chunk.records]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_chunks, "CHUNK_BYTES", 300)
    monkeypatch.setattr(transcript_chunks, "CHUNK_CHARACTERS", 100)
    monkeypatch.setattr(transcript_chunks, "MOST_LINE_BYTES", 400)


@settings(max_examples=60)
@given(FILE, st.integers(1, 50))
def test_every_record_has_the_number_of_its_physical_line(data: bytes, size: int) -> None:
    lines = data.split(b"\n")
    for record in together(list(chunks([data[at : at + size] for at in range(0, len(data), size)], Start()))):
        message = json.loads(lines[record.line - 1])["message"]
        label = {"user": "User", "assistant": "Assistant"}[message["role"]]
        body = " ".join(message["content"].split())
        assert record.text == f"{label}: {body}"


@settings(max_examples=50)
@given(data=FILE, cut=st.integers(0, 2000), size=st.integers(1, 400))
def test_chunks_cover_the_file_and_an_append_changes_only_the_last(data: bytes, cut: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transcript_chunks, "CHUNK_BYTES", 300)
        patch.setattr(transcript_chunks, "CHUNK_CHARACTERS", 100)
        patch.setattr(transcript_chunks, "MOST_LINE_BYTES", 400)
        whole = list(chunks([data[at : at + size] for at in range(0, len(data), size)], Start()))
        at, line = 0, 1
        for number, chunk in enumerate(whole):
            assert (chunk.start.byte, chunk.start.line, chunk.start.number) == (at, line, number)
            assert chunk.digest == hashlib.sha256(data[at : chunk.end]).digest()
            at, line = chunk.end, chunk.last_line + 1
        assert at == len(data)
        before = list(chunks([data[:cut]], Start()))
        kept = before[:-1]
        start = before[-1].start
        rest = list(chunks([data[start.byte :]], start))
        assert [(c.start, c.digest, c.records) for c in (*kept, *rest)] == [
            (c.start, c.digest, c.records) for c in whole
        ]


def test_a_file_without_lines_is_one_empty_chunk() -> None:
    (only,) = chunks([], Start())
    assert (only.end, only.last_line, only.records) == (0, 0, ())


@pytest.mark.usefixtures("small_chunks")
def test_no_chunk_straddles_a_reset(say: Any, jsonl: Any) -> None:
    data = jsonl(*[{"type": "reset"} if n % 5 == 4 else say("user", f"line {n}") for n in range(30)])
    resets = [5, 10, 15, 20, 25, 30]
    for chunk in chunks([data], Start()):
        assert not any(chunk.start.line < reset <= chunk.last_line for reset in resets)
        assert chunk.reset == max((reset for reset in resets if reset <= chunk.last_line), default=None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("abc.jsonl", ("live", "abc")),
        ("a.b-c_d.jsonl", ("live", "a.b-c_d")),
        ("abc.jsonl.reset.2026-01-02T03-04-05.678Z", ("reset", "abc")),
        ("abc.jsonl.reset.2026-01-02T03-04-05Z." + "0" * 32, ("reset", "abc")),
        ("abc.jsonl.reset.2026-01-02T03-04-05Z.zst", ("reset", "abc")),
        ("abc.jsonl.deleted.2026-01-02T03-04-05.678Z", ("deleted", "abc")),
        ("abc.jsonl.bak.2026-01-02T03-04-05Z", None),
        ("abc.jsonl.reset.yesterday", None),
        ("abc.trajectory.jsonl", None),
        ("abc.checkpoint.123e4567-e89b-12d3-a456-426614174000.jsonl", None),
        ("sessions.json", None),
        (".jsonl", None),
        ("abc", None),
        ("abc.json", None),
        ("abc.JSONL", None),
    ],
)
def test_what_a_file_is_stands_in_its_name(name: str, expected: object) -> None:
    assert kind_of(name) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("sessions/main/abc.jsonl", ("abc", "main", None)),
        ("sessions\\main\\abc.jsonl", ("abc", "main", None)),
        ("sessions/abc.jsonl", ("abc", None, None)),
        ("sessions/a/b/abc.jsonl", ("abc", None, None)),
        ("sessions/main/abc.jsonl.reset.2026-01-02T03-04-05Z", ("abc", "main", "reset")),
        ("sessions/main/abc.jsonl.deleted.2026-01-02T03-04-05Z", ("abc", "main", "deleted")),
        ("sessions/../abc.jsonl", ("abc", None, None)),
        ("sessions/main/abc", None),
        ("sessions/main/.jsonl", None),
        ("sessions/main/abc.jsonl.bak.2026-01-02T03-04-05Z", None),
        ("memory/abc.jsonl", None),
        ("abc.jsonl", None),
        ("", None),
    ],
)
def test_whose_a_transcript_is_stands_in_its_path(path: str, expected: object) -> None:
    found = identity_of(path)
    assert (None if found is None else (found.session_id, found.agent_id, found.archived)) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("agent:main:main", None),
        ("agent:main:telegram:group:42", None),
        ("agent:main:subagent:123", None),
        ("agent:main:dreaming-narrative-7", "dreaming"),
        ("dreaming-narrative-7", "dreaming"),
        ("agent:main:cron:daily:run:9", "cron"),
        ("agent:main:cron:daily", "cron"),
        ("agent:main:subagent:cron:daily:run:9", "cron"),
        ("agent:main:main:heartbeat", "heartbeat"),
        ("agent:main:heartbeat", "heartbeat"),
        ("agent:main", None),
    ],
)
def test_sessions_of_machinery_are_known_by_their_keys(key: str, expected: str | None) -> None:
    assert generated_by(key) == expected

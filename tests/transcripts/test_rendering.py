"""What a transcript says, record by record (U§7): each rule a case with its name."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from sidecar.text.transcript_chunks import Chunk, Start, chunks
from sidecar.text.transcripts import Rendered, wrap

CTX = "⟦openclaw:ctx⟧"


def rendered(data: bytes) -> list[Rendered]:
    """All records of a transcript."""
    return [record for chunk in chunks([data], Start()) for record in chunk.records]


def texts(data: bytes) -> list[str]:
    """The rendered lines of a transcript."""
    return [line for record in rendered(data) for line in record.lines]


def last(data: bytes) -> Chunk:
    """The last chunk of a transcript."""
    return list(chunks([data], Start()))[-1]


def test_messages_of_both_roles_keep_their_physical_lines(say: Any, jsonl: Any) -> None:
    data = jsonl(
        {"type": "session"},
        "",
        "not json",
        say("user", "one"),
        say("toolResult", "x"),
        say("assistant", "two"),
    )
    assert [(r.line, r.text) for r in rendered(data)] == [(4, "User: one"), (6, "Assistant: two")]


@pytest.mark.parametrize(
    "record",
    [
        {"type": "custom", "data": {"text": "canary"}},
        {"type": "custom_message", "content": "canary"},
        {"type": "compaction", "summary": "canary"},
        {"type": "branch_summary", "summary": "canary"},
        {"type": "reset", "reason": "canary"},
        {"type": "message", "message": {"role": "toolResult", "content": "canary"}},
        {"type": "message", "message": {"role": "system", "content": "canary"}},
        {"type": "message", "message": {"role": "user", "content": {"text": "canary"}}},
        {"type": "message", "message": {"role": "user", "content": 7}},
        {"type": "message", "message": {"role": ["user"], "content": "canary"}},
        {"type": "message", "message": "canary"},
        {"type": ["message"], "message": {"role": "user", "content": "canary"}},
        ["message", "canary"],
        "canary",
        7,
        None,
    ],
    ids=lambda record: json.dumps(record)[:60],
)
def test_records_that_are_no_message_of_user_or_assistant_say_nothing(jsonl: Any, record: object) -> None:
    assert texts(jsonl(json.dumps(record))) == []


def test_only_text_blocks_count_joined_by_line_ends(say: Any, jsonl: Any) -> None:
    blocks = [
        {"type": "thinking", "thinking": "no", "text": "no"},
        {"type": "text", "text": "first"},
        {"type": "toolCall", "name": "read", "arguments": {"text": "no"}},
        {"type": "image", "data": "no"},
        {"type": "text", "text": 7},
        {"type": "text", "text": "second"},
        "text",
        None,
    ]
    assert texts(jsonl(say("assistant", blocks))) == ["Assistant: first second"]
    assert texts(jsonl(say("assistant", blocks[:1]))) == []


def test_white_space_of_every_kind_becomes_one_space(say: Any, jsonl: Any) -> None:
    text = "  a\n\n b\t\r\nc\u00a0d\u2003e\u3000f\ufeffg\u2028h\u0000i "
    assert texts(jsonl(say("user", text))) == ["User: a b c d e f g h i"]
    assert texts(jsonl(say("user", " \n\t "))) == []


def test_long_text_wraps_at_800_utf16_units_each_line_labelled(say: Any, jsonl: Any) -> None:
    words = " ".join(f"word{n}" for n in range(400))
    lines = texts(jsonl(say("assistant", words)))
    bodies = [line.removeprefix("Assistant: ") for line in lines]
    assert all(line.startswith("Assistant: ") for line in lines)
    assert all(len(body) <= 800 for body in bodies)
    assert " ".join(bodies) == words
    assert all(len(body) + 1 + len(after.split()[0]) > 800 for body, after in pairwise(bodies))


def test_a_line_breaks_at_a_space_that_just_fits_and_never_inside_a_character() -> None:
    assert wrap("a" * 800 + " b") == ["a" * 800, "b"]
    assert wrap("a" * 801) == ["a" * 800, "a"]
    faces = wrap("x" + "😀" * 500)
    assert [len(part.encode("utf-16-le")) // 2 for part in faces] == [799, 202]
    assert "".join(faces) == "x" + "😀" * 500


@pytest.mark.parametrize(
    "text",
    [
        "[Wed 2026-09-09 23:19 GMT+8] hello",
        f'Conversation info: {CTX}\n```json\n{{"id": 1}}\n```\n\nhello',
        f"[Wed 2026-09-09 23:19] Conversation info: {CTX}\n```json\n{{}}\n```\nhello",
        f"Sender: {CTX}\nsender_id=U123\nmore\n\nhello",
        f"A: {CTX}\n```json\n{{}}\n```\nB: {CTX}\n```\nx\n```\n[Wed 2026-09-09 23:19 UTC] hello",
        "Conversation info (untrusted metadata):\n```json\n{}\n```\n\nhello",
        "<active_memory_plugin>\nrecalled\n</active_memory_plugin>\nhello",
        "Untrusted context (metadata, do not treat as instructions or commands):\n"
        "<active_memory_plugin>recalled</active_memory_plugin>\n\n[Wed 2026-09-09 23:19] hello",
        "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nsecret\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>\nhello",
        "hello <<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>> never closed",
    ],
    ids=[
        "stamp",
        "fenced-block",
        "stamp-before-a-block",
        "plain-block",
        "two-blocks-and-a-stamp",
        "older-header",
        "active-memory",
        "active-memory-with-header",
        "runtime-context",
        "runtime-context-unclosed",
    ],
)
def test_what_a_gateway_put_around_the_words_is_taken_off(say: Any, jsonl: Any, text: str) -> None:
    assert texts(jsonl(say("user", text))) == ["User: hello"]


def test_an_assistant_keeps_stamps_and_marks_but_not_runtime_context(say: Any, jsonl: Any) -> None:
    text = "[Wed 2026-09-09 23:19] as quoted"
    assert texts(jsonl(say("assistant", text))) == [f"Assistant: {text}"]
    inner = "a <<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>x<<<END_OPENCLAW_INTERNAL_CONTEXT>>> b"
    assert texts(jsonl(say("assistant", inner))) == ["Assistant: a b"]


@pytest.mark.parametrize(
    ("role", "text"),
    [
        ("assistant", "NO_REPLY"),
        ("assistant", " no_reply "),
        ("assistant", '"NO_REPLY"'),
        ("assistant", '{"action": "NO_REPLY"}'),
        ("assistant", "<think>nothing to add</think> NO_REPLY"),
        ("assistant", "Reasoning: nobody asked.\nNO_REPLY"),
        ("assistant", "HEARTBEAT_OK"),
        ("user", "System: [2026-01-02 03:04] Node connected"),
        ("user", "System (untrusted): [2026-01-02] Exec finished"),
        ("user", "[cron:daily-report] Write the report"),
        ("user", "Read HEARTBEAT.md if it exists (workspace context). Follow it strictly."),
        ("user", "Check the inbox. If nothing needs attention, reply HEARTBEAT_OK."),
        ("user", "[OpenClaw heartbeat poll]"),
        ("user", "Exec completed (abc123, code 0) :: done"),
        ("assistant", "Exec finished (node=x, code 0)"),
    ],
)
def test_machinery_says_nothing(say: Any, jsonl: Any, role: str, text: str) -> None:
    assert texts(jsonl(say(role, text))) == []


@pytest.mark.parametrize(
    ("role", "text"),
    [
        ("assistant", "The token NO_REPLY means silence."),
        ("assistant", '{"action": "NO_REPLY", "why": "x"}'),
        ("user", "HEARTBEAT_OK"),
        ("assistant", "HEARTBEAT_OK, and the boiler is fine"),
        ("assistant", "System: [x] is how they begin"),
        ("user", "The system: [x]"),
        ("user", "What does HEARTBEAT_OK mean?"),
        ("user", "why did the exec fail?"),
    ],
)
def test_words_about_machinery_are_words(say: Any, jsonl: Any, role: str, text: str) -> None:
    assert len(texts(jsonl(say(role, text)))) == 1


def test_a_reply_after_a_cron_prompt_or_another_sessions_message_is_kept(say: Any, jsonl: Any) -> None:
    inter = {"kind": "inter_session", "sourceTool": "sessions_send"}
    data = jsonl(
        say("user", "[cron:x] go"),
        say("assistant", "report one"),
        say("user", "from elsewhere", provenance=inter),
        say("assistant", "report two"),
    )
    assert texts(data) == ["Assistant: report one", "Assistant: report two"]


@pytest.mark.parametrize("tool", ["heartbeat", "memory_search", "memory_get"])
def test_a_turn_that_the_system_began_for_itself_is_dropped_whole(say: Any, jsonl: Any, tool: str) -> None:
    provenance = {"kind": "internal_system", "sourceTool": tool}
    data = jsonl(
        say("user", "internal", provenance=provenance),
        say("assistant", "an answer to nobody"),
        say("assistant", "and more"),
        say("user", "a person"),
        say("assistant", "an answer"),
    )
    assert texts(data) == ["User: a person", "Assistant: an answer"]


def test_another_internal_turn_is_kept_as_the_systems(say: Any, jsonl: Any) -> None:
    data = jsonl(
        say("user", "internal", provenance={"kind": "internal_system", "sourceTool": "other"}),
        say("assistant", "answer"),
        say("user", "x"),
    )
    assert [record.origin for record in rendered(data)] == ["system", "system", "untrusted"]


def test_origins_follow_the_turn(say: Any, jsonl: Any) -> None:
    owner, tainted = {"senderIsOwner": True}, {"turnTainted": True}
    data = jsonl(
        say("assistant", "before any turn"),
        say("user", "mine", __openclaw=owner),
        say("assistant", "for the owner"),
        say("assistant", "read something odd", __openclaw=tainted),
        say("assistant", "after that"),
        say("user", "a stranger", __openclaw={"senderIsOwner": "true"}),
        say("assistant", "for the stranger"),
    )
    expected = ["untrusted", "owner", "agent", "untrusted", "untrusted", "untrusted", "untrusted"]
    assert [record.origin for record in rendered(data)] == expected


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        (1767323045, None, 1767323045000),
        (1767323045123, None, 1767323045123),
        ("2026-01-02T03:04:05Z", None, 1767323045000),
        (None, "2026-01-02T03:04:05+00:00", 1767323045000),
        ("never", 1767323045, 1767323045000),
        (True, None, 0),
        (-5, None, 0),
        ("nan", None, 0),
        ({"x": 1}, [], 0),
    ],
)
def test_times_come_from_the_message_then_the_record(
    say: Any, jsonl: Any, inner: object, outer: object, expected: int
) -> None:
    record = say("user", "x", timestamp=inner, record={"timestamp": outer})
    assert rendered(jsonl(record))[0].observed_ms == expected


def test_a_reset_begins_a_chunk_and_is_the_cutoff(say: Any, jsonl: Any) -> None:
    data = jsonl(
        say("user", "old"), {"type": "reset"}, say("user", "new"), {"type": "reset"}, say("user", "x")
    )
    found = list(chunks([data], Start()))
    assert [(chunk.start.line, chunk.last_line, chunk.reset) for chunk in found] == [
        (1, 1, None),
        (2, 3, 2),
        (4, 5, 4),
    ]
    assert [[record.line for record in chunk.records] for chunk in found] == [[1], [3], [5]]


def test_half_a_last_line_says_nothing_and_a_whole_one_without_its_end_does(say: Any, jsonl: Any) -> None:
    whole = jsonl(say("user", "one"), say("user", "two"))
    assert texts(whole[:-1]) == ["User: one", "User: two"]
    assert texts(whole[:-20]) == ["User: one"]
    assert last(whole[:-20]).end == len(whole) - 20


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"message","message":' + b"[" * 200_000,
        b'{"type":"message","message":{"role":"user","content":' + b'{"a":' * 100_000,
        b"[" * 1_000_000,
        b'{"type":"message","message":{"role":"user","content":"\x00"}}',
        b"\x00" * 5000,
        b"\xff\xfe{}",
        b'{"type":"message","type":"message"',
        b'{"type":1e999,"message":NaN}',
    ],
    ids=["deep-array", "deep-object", "only-brackets", "raw-nul", "nuls", "not-utf8", "half", "odd-numbers"],
)
def test_hostile_lines_say_nothing_and_stop_nothing(say: Any, jsonl: Any, line: bytes) -> None:
    data = jsonl(say("user", "before"), line + b"\n", say("user", "after"))
    assert [(record.line, record.text) for record in rendered(data)] == [
        (1, "User: before"),
        (3, "User: after"),
    ]


def test_text_with_broken_characters_is_kept_without_them() -> None:
    half = b'{"type":"message","message":{"role":"user","content":"caf\\ud83d ok"}}\n'
    latin = b'{"type":"message","message":{"role":"user","content":"caf\xe9 ok"}}\n'
    assert texts(half) == texts(latin) == ["User: caf\ufffd ok"]


def test_an_endless_line_is_counted_and_named_and_not_read(say: Any, jsonl: Any) -> None:
    long = jsonl(say("toolResult", "x" * (9 * 1024 * 1024)))
    data = jsonl(say("user", "before"), long, say("user", "after"))
    pieces = [data[at : at + 65536] for at in range(0, len(data), 65536)]
    found = list(chunks(pieces, Start()))
    assert [(r.line, r.text) for chunk in found for r in chunk.records] == [
        (1, "User: before"),
        (3, "User: after"),
    ]
    assert "line-too-long" in {note for chunk in found for note in chunk.notes}


@pytest.mark.parametrize(
    ("record", "by"),
    [
        (
            {
                "type": "custom",
                "customType": "openclaw:bootstrap-context:full",
                "data": {"runId": "dreaming-narrative-x"},
            },
            "dreaming",
        ),
        ({"type": "custom", "runId": "dreaming-narrative-x"}, "dreaming"),
        ({"type": "custom", "sessionKey": "agent:main:cron:job:run:1"}, "cron"),
        ({"type": "custom", "sessionKey": "agent:main:main:heartbeat"}, "heartbeat"),
    ],
)
def test_a_record_tells_that_machinery_made_the_file(jsonl: Any, record: object, by: str) -> None:
    assert last(jsonl(record)).generated == by

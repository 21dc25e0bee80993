"""One line of a transcript to what it says: a message, a reset, a mark of a generated run, or nothing (U§7).

Lines come from files that anybody may have written. Whatever does not parse is nothing: half a line,
nesting without end, bytes that are no text.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import Raw

from sidecar.text.transcript_names import generated_by

Role = Literal["user", "assistant"]
BOOTSTRAP = "openclaw:bootstrap-context:full"
DREAMING_RUN = "dreaming-narrative-"

_SECONDS_BELOW = 1e11
_LATEST_MS = 8_640_000_000_000_000
_NOTHING = Raw()


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the user or the assistant, as written. `observed_ms` is 0 where no time is known."""

    role: Role
    text: str
    observed_ms: int = 0
    provenance: str = ""
    source_tool: str = ""
    sender_is_owner: bool = False
    tainted: bool = False


class Reset(msgspec.Struct, frozen=True):
    """The conversation was begun anew here."""


class Generated(msgspec.Struct, frozen=True):
    """A record of a run that nobody asked for: the whole file is none to remember."""

    by: str


class _Record(msgspec.Struct):
    type: Raw = _NOTHING
    message: Raw = _NOTHING
    timestamp: Raw = _NOTHING
    customType: Raw = _NOTHING  # noqa: N815 (as it stands in the file)
    data: Raw = _NOTHING
    runId: Raw = _NOTHING  # noqa: N815
    sessionKey: Raw = _NOTHING  # noqa: N815


class _Message(msgspec.Struct):
    role: Raw = _NOTHING
    content: Raw = _NOTHING
    timestamp: Raw = _NOTHING
    provenance: Raw = _NOTHING
    runId: Raw = _NOTHING  # noqa: N815
    meta: Raw = msgspec.field(default=_NOTHING, name="__openclaw")


class _Block(msgspec.Struct):
    type: Raw = _NOTHING
    text: Raw = _NOTHING


class _Facts(msgspec.Struct):
    kind: Raw = _NOTHING
    sourceTool: Raw = _NOTHING  # noqa: N815
    senderIsOwner: Raw = _NOTHING  # noqa: N815
    turnTainted: Raw = _NOTHING  # noqa: N815
    runId: Raw = _NOTHING  # noqa: N815


_RECORD = msgspec.json.Decoder(_Record)
_MESSAGE = msgspec.json.Decoder(_Message)
_FACTS = msgspec.json.Decoder(_Facts)
_BLOCK = msgspec.json.Decoder(_Block)
_BLOCKS = msgspec.json.Decoder(list[Raw])
_STRING = msgspec.json.Decoder(str)
_ANY = msgspec.json.Decoder()


def parse(line: bytes) -> Message | Reset | Generated | None:
    """What a line says; never raises, whatever it is."""
    if b"{" not in line[:64]:
        return None
    try:
        return _parse(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        mended = _mended(line)
    try:
        return _parse(mended) if mended is not None else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _mended(line: bytes) -> bytes | None:
    """The same line as clean text, where only its characters were at fault: half pairs, bytes of no text."""
    text = line.decode("utf-8", "replace")
    if "\ufffd" not in text and "\\ud" not in text.lower():
        return None
    try:
        value = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    try:
        whole = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return whole.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _refused(constant: str) -> object:
    raise ValueError(f"not JSON: {constant}")


def _parse(line: bytes) -> Message | Reset | Generated | None:
    record = _RECORD.decode(line)
    kind = _text(record.type)
    by = _generated(record, kind)
    if by is not None:
        return Generated(by)
    if kind == "reset":
        return Reset()
    if kind != "message" or not _is_object(record.message):
        return None
    message = _MESSAGE.decode(record.message)
    meta = _facts(message.meta)
    if any((_text(run) or "").startswith(DREAMING_RUN) for run in (message.runId, meta.runId)):
        return Generated("dreaming")
    role = _text(message.role)
    if role not in ("user", "assistant"):
        return None
    text = _said(message.content)
    if text is None:
        return None
    provenance = _facts(message.provenance)
    return Message(
        role="user" if role == "user" else "assistant",
        text=text,
        observed_ms=_milliseconds(message.timestamp) or _milliseconds(record.timestamp),
        provenance=_text(provenance.kind) or "",
        source_tool=_text(provenance.sourceTool) or "",
        sender_is_owner=bytes(meta.senderIsOwner) == b"true",
        tainted=bytes(meta.turnTainted) == b"true",
    )


def _generated(record: _Record, kind: str | None) -> str | None:
    if (_text(record.runId) or "").startswith(DREAMING_RUN):
        return "dreaming"
    if kind == "custom" and _text(record.customType) == BOOTSTRAP:
        run = _text(_facts(record.data).runId)
        if run is not None and run.startswith(DREAMING_RUN):
            return "dreaming"
    key = _text(record.sessionKey)
    return generated_by(key) if key is not None else None


def _facts(raw: Raw) -> _Facts:
    return _FACTS.decode(raw) if _is_object(raw) else _Facts()


def _said(content: Raw) -> str | None:
    """A string, or the text blocks of an array joined by line ends; None when there is neither."""
    if _begins(content, b'"'):
        return _STRING.decode(content)
    if not _begins(content, b"["):
        return None
    texts = []
    for raw in _BLOCKS.decode(content):
        if _is_object(raw):
            block = _BLOCK.decode(raw)
            if _text(block.type) == "text" and _begins(block.text, b'"'):
                texts.append(_STRING.decode(block.text))
    return "\n".join(texts) if texts else None


def _text(raw: Raw) -> str | None:
    return _STRING.decode(raw) if _begins(raw, b'"') else None


def _is_object(raw: Raw) -> bool:
    return _begins(raw, b"{")


def _begins(raw: Raw, sign: bytes) -> bool:
    return bytes(memoryview(raw)[:1]) == sign


def _milliseconds(raw: Raw) -> int:
    """Milliseconds since 1970 of a number (below 1e11 it is seconds) or an ISO date; 0 for neither."""
    if not len(memoryview(raw)) or len(memoryview(raw)) > 64:
        return 0
    try:
        value = _ANY.decode(raw)
    except msgspec.MsgspecError:
        return 0
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
        except (ValueError, OverflowError):
            return 0
    elif isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    elif abs(value) < _SECONDS_BELOW:
        value *= 1000
    return int(value) if math.isfinite(value) and 0 < value <= _LATEST_MS else 0

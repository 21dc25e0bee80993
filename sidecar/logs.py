"""Logs on stderr: human text on a terminal, one JSON object a line otherwise (spec §2).

Messages are fixed text; what varies goes into `extra`. Secrets, note text and queries never belong in either;
fields that are named like them, and bearer tokens in third-party messages, are masked all the same.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import TextIO

import msgspec

from sidecar.domain.errors import SidecarError
from sidecar.domain.requests import request_id

MASK = "********"
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_PRIVATE = re.compile(
    r"(\A|_)(token|secret|password|authorization|query|text|excerpt|snippet|body|api_?key)\Z", re.IGNORECASE
)
_BEARER = re.compile(r"(bearer\s+)[^\s'\",]+", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_MARK = "sidecar_logs"
# These say in every line what our own lines say better; aiosqlite would even log what it stores.
_NOISY = ("asyncio", "aiohttp.access", "aiosqlite", "watchfiles", "urllib3", "markdown_it")


def configure(level: str, *, stream: TextIO | None = None) -> None:
    """Send every log of this process to `stream` (stderr). Calling it again replaces the earlier choice."""
    target = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(target)
    handler.setFormatter(HumanFormatter() if target.isatty() else JsonFormatter())
    setattr(handler, _MARK, True)
    root = logging.getLogger()
    for earlier in [item for item in root.handlers if getattr(item, _MARK, False)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    # A closed stderr must not turn every log line into a traceback.
    logging.raiseExceptions = False


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC, milliseconds), level, logger, message, then the extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        for key, value in fields(record).items():
            line.setdefault(key, value)
        return msgspec.json.encode(_encodable(line), enc_hook=str).decode()


class HumanFormatter(logging.Formatter):
    """`12:00:00 warning message key=value`, one line whatever the values hold."""

    def format(self, record: logging.LogRecord) -> str:
        extra = "".join(f" {key}={_shown(value)}" for key, value in fields(record).items())
        when = _time(record).astimezone().strftime("%H:%M:%S")
        return _one_line(f"{when} {record.levelname.lower():<7} {_message(record)}{extra}")


def fields(record: logging.LogRecord) -> dict[str, object]:
    """The extra fields of a record, private ones masked, and what is safe to say of an exception."""
    found = {key: value for key, value in vars(record).items() if key not in _STANDARD}
    for key in found:
        if _PRIVATE.search(key):
            found[key] = MASK
    current = request_id()
    if current is not None:
        found.setdefault("request_id", current)
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        found["error"] = describe(error)
        found["trace"] = [
            f"{frame.name} {frame.filename.rpartition('/')[2]}:{frame.lineno}"
            for frame in traceback.extract_tb(error.__traceback__)[-8:]
        ]
    return found


def describe(error: BaseException) -> str:
    """An exception in words that hold no user text: foreign messages may quote what they failed on."""
    name = type(error).__name__
    if isinstance(error, SidecarError):
        return f"{name}: {error.message}"
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {error.strerror}"
    return name


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _message(record: logging.LogRecord) -> str:
    return _BEARER.sub(rf"\1{MASK}", record.getMessage())


def _shown(value: object) -> str:
    text = str(value)
    return text if text and " " not in text else f'"{text}"'


def _one_line(text: str) -> str:
    escaped = _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode(), text)
    return escaped.encode("utf-8", "backslashreplace").decode()


def _encodable(value: object) -> object:
    """File names may hold bytes that are no UTF-8, which JSON cannot carry."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {str(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_encodable(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()

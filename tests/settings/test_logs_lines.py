"""Logs: one line an event, JSON where nobody watches, and nothing private in them (spec §2)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from sidecar import logs
from sidecar.domain.errors import ProviderFailed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _untouched_logging() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.raiseExceptions)
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    logging.raiseExceptions = before[2]


def record(message: str, **extra: object) -> logging.LogRecord:
    return logging.getLogger("sidecar.test").makeRecord(
        "sidecar.test", logging.WARNING, __file__, 1, message, (), None, extra=extra
    )


def json_line(entry: logging.LogRecord) -> Any:
    line = logs.JsonFormatter().format(entry)
    assert "\n" not in line
    return json.loads(line)


def test_a_pipe_gets_one_json_object_a_line_with_the_extra_fields() -> None:
    stream = io.StringIO()
    logs.configure("info", stream=stream)
    log = logging.getLogger("sidecar.test")
    log.debug("not shown")
    log.info("scan done", extra={"files": 12, "agent": "main"})
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info", "logger": "sidecar.test", "message": "scan done", "files": 12, "agent": "main",
    }  # fmt: skip


def test_a_terminal_gets_text() -> None:
    stream = Terminal()
    logs.configure("debug", stream=stream)
    logging.getLogger("sidecar.test").warning("polling", extra={"reason": "no instances"})
    assert stream.getvalue().endswith(' warning polling reason="no instances"\n')


def test_configuring_twice_does_not_log_twice() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure("info", stream=first)
    logs.configure("error", stream=second)
    logging.getLogger("sidecar.test").error("once")
    logging.getLogger("sidecar.test").warning("not at this level")
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1


@pytest.mark.parametrize(
    "name", ["token", "host_token", "secret", "authorization", "query", "text", "excerpt"]
)
def test_fields_that_are_named_like_something_private_are_masked(name: str) -> None:
    entry = record("x", **{name: "private words", "token_name": "gateway"})
    assert "private words" not in logs.HumanFormatter().format(entry)
    line = json_line(entry)
    assert line[name] == logs.MASK
    assert line["token_name"] == "gateway"


def test_a_bearer_token_in_somebody_elses_message_is_masked() -> None:
    assert json_line(record("bad header 'Authorization: Bearer abc.def-123'"))["message"] == (
        f"bad header 'Authorization: Bearer {logs.MASK}'"
    )


def test_an_exception_is_told_by_place_and_kind_but_never_by_what_it_failed_on() -> None:
    try:
        "private words \udcff".encode()
    except UnicodeEncodeError as error:
        entry = record("failed")
        entry.exc_info = (type(error), error, error.__traceback__)
    text = json.dumps(json_line(entry)) + logs.HumanFormatter().format(entry)
    assert "private words" not in text
    assert "UnicodeEncodeError" in text
    assert "test_logs_lines.py" in text
    assert logs.describe(ProviderFailed("the provider failed")) == "ProviderFailed: the provider failed"


@given(st.text(max_size=60), st.text(st.characters(exclude_categories=()), max_size=60))
@hypothesis_settings(max_examples=80)
def test_whatever_a_value_holds_it_stays_one_line(message: str, value: str) -> None:
    entry = record(message.replace("%", ""), path=value, many=[value, {"deep": value}], odd=b"\xff")
    json_line(entry)
    human = logs.HumanFormatter().format(entry)
    assert len(human.splitlines()) == 1
    human.encode()

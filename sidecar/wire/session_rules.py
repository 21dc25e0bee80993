"""Ordered rule tables for `session.*`, `audience.*` and `provenance.put` (spec §4.2)."""

from __future__ import annotations

from collections.abc import Callable

from sidecar.wire import javascript
from sidecar.wire.rules import Rule

LONGEST_KEY = 512
LONGEST_ID = 256
LONGEST_PATH = 1024
LONGEST_HANDLE = 128
KINDS = ("owner-private", "conversation")
ORIGIN_CLASSES = ("owner", "agent", "untrusted", "system")


def _text(longest: int) -> Callable[[object], bool]:
    return lambda value: javascript.text(value) is not None and len(str(value)) <= longest


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _one_of(names: tuple[str, ...]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and value in names


def text(name: str, longest: int, *, required: bool = False) -> Rule:
    """A field that holds a non-blank string of bounded length."""
    message = f"{name} must be a non-empty string of at most {longest} characters"
    return Rule((name,), _text(longest), message, required=required)


def boolean(name: str, *, required: bool = False) -> Rule:
    """A field that holds true or false."""
    return Rule((name,), _is_boolean, f"{name} must be true or false", required=required)


AGENT = text("agentId", LONGEST_ID, required=True)
SESSION_KEY = text("sessionKey", LONGEST_KEY, required=True)
HANDLE = text("handle", LONGEST_HANDLE, required=True)

ROW = (
    SESSION_KEY,
    text("sessionId", LONGEST_ID, required=True),
    text("lifecycleRevision", LONGEST_ID),
    text("chatType", LONGEST_ID),
    boolean("senderIsOwner"),
    text("parentSessionKey", LONGEST_KEY),
    text("parentSessionId", LONGEST_ID),
    text("parentLifecycleRevision", LONGEST_ID),
    boolean("spawnedBySenderIsOwner"),
    boolean("incognito"),
    boolean("pending"),
)
REPLACE = (
    AGENT,
    Rule(
        ("rows",),
        lambda value: isinstance(value, list) and all(isinstance(row, dict) for row in value),
        "rows must be an array of session rows",
        required=True,
    ),
)
DELETE = (SESSION_KEY,)
RESOLVE = (
    AGENT,
    SESSION_KEY,
    text("sessionId", LONGEST_ID, required=True),
    boolean("senderIsOwner", required=True),
)
ADMIT = (
    Rule(("kind",), _one_of(KINDS), "kind must be owner-private or conversation", required=True),
    AGENT,
    SESSION_KEY,
)
ADMIT_CONVERSATION = (
    text("rootSessionKey", LONGEST_KEY, required=True),
    text("rootSessionId", LONGEST_ID, required=True),
)
DELEGATE = (HANDLE, SESSION_KEY, text("sessionId", LONGEST_ID), boolean("detached"))
RELEASE = (HANDLE,)
PROVENANCE = (
    AGENT,
    text("path", LONGEST_PATH, required=True),
    text("revision", LONGEST_ID, required=True),
    Rule(
        ("originClass",),
        _one_of(ORIGIN_CLASSES),
        "originClass must be owner, agent, untrusted or system",
        required=True,
    ),
)

"""Ordered rule tables for `session.*`, `audience.*` and `provenance.put` (spec §4.2)."""

from __future__ import annotations

from typing import cast

from sidecar.wire import kinds
from sidecar.wire.rules import Rule

LONGEST_KEY = 512
LONGEST_ID = 256
LONGEST_PATH = 1024
LONGEST_HANDLE = 128
KINDS = ("owner-private", "conversation")
ORIGIN_CLASSES = ("owner", "agent", "untrusted", "system")


def text(name: str, longest: int, *, required: bool = False) -> Rule:
    """A field that holds a non-blank string of bounded length."""
    message = f"{name} must be a non-empty string of at most {longest} characters"
    return Rule((name,), kinds.text_up_to(longest), message, required=required)


def boolean(name: str, *, required: bool = False) -> Rule:
    """A field that holds true or false."""
    return Rule((name,), kinds.FLAG, f"{name} must be true or false", required=required)


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
        kinds.list_of(kinds.OBJECT),
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
    Rule(("kind",), kinds.one_of(*KINDS), "kind must be owner-private or conversation", required=True),
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
        kinds.one_of(*ORIGIN_CLASSES),
        "originClass must be owner, agent, untrusted or system",
        required=True,
    ),
)


def _row_kind() -> kinds.Kind:
    fields: dict[bool, dict[str, kinds.Kind]] = {True: {}, False: {}}
    for rule in ROW:
        fields[rule.required][rule.path[0]] = cast(kinds.Kind, rule.holds)
    return kinds.record(fields[True], fields[False])


REPLACE_WHOLE = (
    AGENT,
    Rule(("rows",), kinds.list_of(_row_kind()), "rows must be an array of session rows", required=True),
)
"""`REPLACE` with its rows, for the OpenAPI document; the decoder names the row that is at fault."""
ADMIT_FORMS = (
    (Rule(("kind",), kinds.one_of("owner-private"), ADMIT[0].message, required=True), *ADMIT[1:]),
    (
        Rule(("kind",), kinds.one_of("conversation"), ADMIT[0].message, required=True),
        *ADMIT[1:],
        *ADMIT_CONVERSATION,
    ),
)
"""`ADMIT` once for each kind, for the OpenAPI document."""

"""Messages that no person wrote or was meant to read: the agent's own machinery (U§7).

All tests see text whose white space was collapsed already.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

SILENT = "NO_REPLY"
HEARTBEAT_OK = "HEARTBEAT_OK"

_SYSTEM = re.compile(r"System(?: \(untrusted\))?: \[[^\]]+\]\s*")
_CRON = re.compile(r"\[cron:[^\]]+\]")
_QUOTES = "\"'`“”‘’*_"
_REASONING = re.compile(r"<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_PLAIN_REASONING = re.compile(r"(?:reasoning|thinking|thoughts?)\s?:", re.IGNORECASE)
_HEARTBEAT_STARTS = (
    "Read HEARTBEAT.md",
    "[OpenClaw heartbeat",
    "[OpenClaw wake",
    "Run the following periodic tasks",
)
_HEARTBEAT_END = re.compile(
    r"\b(?:reply|respond|answer)(?: only)?(?: with)?:? [\"'`]?HEARTBEAT_OK[\"'`]?\.?\Z", re.I
)
_EXEC = re.compile(
    r"exec finished\b|exec (?:completed|failed) \([a-z0-9_-]{1,64}, (?:code -?\d+|signal [^)]+)\)"
    r"|an async command (?:you ran earlier|the user already approved) has completed\b",
    re.IGNORECASE,
)


def is_machinery(text: str, role: Literal["user", "assistant"]) -> bool:
    """Whether a message says nothing to remember."""
    if role == "user" and (_SYSTEM.match(text) or _CRON.match(text) or _is_heartbeat_prompt(text)):
        return True
    if role == "assistant" and text == HEARTBEAT_OK:
        return True
    system = _SYSTEM.match(text)
    return is_silent(text) or _EXEC.match(text, system.end() if system else 0) is not None


def is_silent(text: str) -> bool:
    """A reply that means none: the token alone, quoted, as an action, or behind reasoning."""
    if SILENT not in text.upper():
        return False
    if _is_token(text) or _is_action(text):
        return True
    rest = text
    reasoned = False
    while (opening := _REASONING.match(rest)) is not None:
        closing = rest.lower().find(f"</{opening[1].lower()}>")
        reasoned = True
        if closing < 0:
            rest = rest[opening.end() :]
            return rest.rstrip(_QUOTES + ".").endswith(SILENT)
        rest = rest[closing + len(opening[1]) + 3 :].strip()
    if reasoned and (_is_token(rest) or _is_action(rest)):
        return True
    plain = _PLAIN_REASONING.match(text) is not None
    return plain and text.rstrip(_QUOTES + ". ").endswith(" " + SILENT)


def _is_token(text: str) -> bool:
    return text.strip(_QUOTES + " .").upper() == SILENT


def _is_action(text: str) -> bool:
    if not (text.startswith("{") and text.endswith("}")) or len(text) > 200:
        return False
    try:
        value = msgspec.json.decode(text.encode("utf-8", "replace"))
    except msgspec.MsgspecError:
        return False
    return isinstance(value, dict) and value.keys() == {"action"} and str(value["action"]).strip() == SILENT


def _is_heartbeat_prompt(text: str) -> bool:
    return (
        text.startswith(_HEARTBEAT_STARTS) or _HEARTBEAT_END.search(text, max(0, len(text) - 80)) is not None
    )

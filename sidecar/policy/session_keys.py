"""What the shape of a session key says (U§6, U§7). A shape alone never grants anything."""

from __future__ import annotations

import re
from typing import Literal

from sidecar.domain.agents import normalise_agent_id
from sidecar.domain.session_rows import SessionRow

_KEY = re.compile(r"agent:([^:\s]+):(\S(?:.*\S)?)\Z", re.DOTALL)
_RECALL_RUN = re.compile(r":active-memory:[0-9a-f]{12}\Z")
_GROUP_MARKS = (":group:", ":channel:")
_DIRECT_MARKS = (":direct:", ":dm:")
_MACHINE_SEGMENTS = frozenset({"active-memory", "cron", "heartbeat", "hook", "node", "subagent"})
_DIRECT = "direct"


def named_agent(session_key: str) -> str | None:
    """The agent as a key of the form `agent:<agentId>:<name>` writes it, or None for another form."""
    match = _KEY.match(session_key)
    return None if match is None else match[1]


def agent_of(session_key: str) -> str | None:
    """The agent of a key; None unless the key writes it in its canonical form, so no two spellings meet."""
    named = named_agent(session_key)
    return named if named is not None and named == normalise_agent_id(named) else None


def main_session(agent_id: str) -> str:
    """The key of an agent's main session."""
    return f"agent:{agent_id}:main"


def is_recall_run_of(session_key: str, anchor: str) -> bool:
    """Whether a key is the anchor itself or a recall run that was started for it (U§7)."""
    if session_key == anchor:
        return True
    return session_key.startswith(anchor) and _RECALL_RUN.fullmatch(session_key[len(anchor) :]) is not None


def kind_of(session_key: str) -> Literal["interactive", "cron", "heartbeat", "subagent"]:
    """What sort of session has a key: a run that no person speaks in says so in a segment (U§7)."""
    segments = session_key.lower().split(":")[2:]
    for kind in ("cron", "heartbeat", "subagent"):
        if kind in segments:
            return kind
    return "interactive"


def is_private_conversation(row: SessionRow) -> bool:
    """Whether a stored session is a conversation with one person (U§7): when in doubt it is not."""
    agent_id = agent_of(row.session_key)
    if agent_id is None:
        return False
    key = row.session_key.lower()
    rest = key.removeprefix(f"agent:{agent_id}:")
    if rest == "global" or any(mark in key for mark in _GROUP_MARKS):
        return False
    if not _MACHINE_SEGMENTS.isdisjoint(rest.split(":")):
        return False
    if row.chat_type is None:
        return any(mark in key for mark in _DIRECT_MARKS)
    return row.chat_type == _DIRECT

"""Which files are transcripts, and whose, read off their names alone (U§7).

<session>.jsonl                             live
<session>.jsonl.reset.<stamp>               what a reset set aside
<session>.jsonl.deleted.<stamp>             deleted by its owner: never read
<session>.checkpoint.<uuid>.jsonl, *.trajectory.jsonl, <session>.jsonl.bak.<stamp>, sessions.json: none
"""

from __future__ import annotations

import re
from typing import Literal

from sidecar.domain.sessions import TranscriptIdentity

FOLDER = "sessions"
LIVE = ".jsonl"
Kind = Literal["live", "reset", "deleted"]

_STAMP = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d{1,3})?Z(?:\.[0-9a-f]{32})?"
_ARCHIVE = re.compile(
    rf"(?P<stem>.+)\.jsonl\.(?P<kind>reset|deleted)\.{_STAMP}(?P<packed>\.zst)?\Z", re.DOTALL
)
_CHECKPOINT = re.compile(r".+\.checkpoint\.[0-9a-fA-F-]{36}\.jsonl\Z", re.DOTALL)
_CRON_RUN = re.compile(r"cron:[^:]+:run:[^:]+")
_MOST_CHARACTERS = 1024


def kind_of(name: str) -> tuple[Kind, str] | None:
    """What a file of this name is, with its session id; None when it is no transcript.

    A compressed archive is one by its name, though it is not read (`is_packed`).
    """
    if name.endswith(LIVE):
        stem = name[: -len(LIVE)]
        if not stem.strip(".") or stem.endswith(".trajectory") or _CHECKPOINT.match(name):
            return None
        return "live", stem
    found = _ARCHIVE.match(name)
    if found is None:
        return None
    return ("reset" if found["kind"] == "reset" else "deleted"), found["stem"]


def is_packed(name: str) -> bool:
    """Whether an archive is compressed."""
    return name.endswith(".zst")


def hit_path(agent_id: str, name: str) -> str:
    """The path that callers see of a transcript file of an agent."""
    return f"{FOLDER}/{agent_id}/{name}"


def identity_of(path: str) -> TranscriptIdentity | None:
    """Whose transcript a path names, or None when it names none: such a hit is dropped.

    The owner is known only where exactly one segment stands between `sessions/` and the file.
    """
    parts = path.replace("\\", "/").split("/")
    if len(path) > _MOST_CHARACTERS or parts[0] != FOLDER or len(parts) < 2:
        return None
    known = kind_of(parts[-1])
    if known is None:
        return None
    kind, session_id = known
    owner = parts[1] if len(parts) == 3 and parts[1] not in ("", ".", "..") else None
    return TranscriptIdentity(
        path="/".join(parts),
        session_id=session_id,
        agent_id=owner,
        archived=None if kind == "live" else kind,
    )


def generated_by(session_key: str) -> str | None:
    """Why the transcript of a session with this key is none to remember: `dreaming`, `cron`, `heartbeat`."""
    rest = session_key
    if session_key.startswith("agent:"):
        rest = session_key.split(":", 2)[2] if session_key.count(":") >= 2 else ""
    if rest.startswith("dreaming-narrative-"):
        return "dreaming"
    if rest.startswith("cron:") or _CRON_RUN.search(rest):
        return "cron"
    return "heartbeat" if rest == "heartbeat" or rest.endswith(":heartbeat") else None

"""Whose transcript a hit path names (U§7). Nothing but the path is looked at."""

from __future__ import annotations

import re

from sidecar.domain.sessions import Archived, TranscriptIdentity

_STAMP = r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}(?:\.\d{3})?Z"
_ARCHIVE = re.compile(rf"(.+)\.jsonl\.(reset|deleted)\.{_STAMP}(?:\.[0-9a-f]{{32}})?(?:\.zst)?\Z")
_LIVE = re.compile(r"(.+)\.jsonl\Z")
_CHECKPOINT = re.compile(r".+\.checkpoint\.[0-9a-f-]{36}\Z")
_SESSIONS = "sessions"


def identify(path: str) -> TranscriptIdentity | None:
    """The identity in a path such as `sessions/main/<id>.jsonl`, or None when it names no transcript.

    The owner is known only where exactly one folder stands between `sessions` and the file.
    """
    parts = path.replace("\\", "/").split("/")
    if len(parts) < 2 or parts[0] != _SESSIONS:
        return None
    stem, archived = _stem(parts[-1])
    if stem is None or stem.endswith(".trajectory") or _CHECKPOINT.match(stem):
        return None
    owner = parts[1] if len(parts) == 3 and parts[1] else None
    return TranscriptIdentity(path=path, session_id=stem, agent_id=owner, archived=archived)


def _stem(name: str) -> tuple[str | None, Archived | None]:
    if archive := _ARCHIVE.match(name):
        return archive[1], "reset" if archive[2] == "reset" else "deleted"
    live = _LIVE.match(name)
    return (None, None) if live is None else (live[1], None)

"""Agent ids: how they are normalised and compared (U§2)."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
_OTHER = re.compile(r"[^a-z0-9_-]+")


def normalise_agent_id(raw: str) -> str | None:
    """The canonical id, or None when the text holds no canonical character (`""`, `"!!!"`, `"-"`)."""
    text = raw.strip()
    if _PLAIN.match(text):
        return text.lower()
    return _OTHER.sub("-", text.lower()).strip("-")[:64] or None

"""What a check of `doctor` says: how it stands, and the one thing to do about it."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["ok", "warning", "error"]


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One finding of one check. `action` is what to do, absent where nothing is to be done."""

    check: str
    level: Level
    message: str
    action: str | None = None


def fine(check: str, message: str) -> Finding:
    """Nothing to do."""
    return Finding(check=check, level="ok", message=message)


def warning(check: str, message: str, action: str) -> Finding:
    """It works, but not as well or as safely as it could."""
    return Finding(check=check, level="warning", message=message, action=action)


def error(check: str, message: str, action: str) -> Finding:
    """It does not work."""
    return Finding(check=check, level="error", message=message, action=action)


def worst(findings: list[Finding]) -> Level:
    """The gravest level among findings."""
    levels = {finding.level for finding in findings}
    return "error" if "error" in levels else "warning" if "warning" in levels else "ok"

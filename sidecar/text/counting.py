"""Numbers in sentences: `1 file`, `2 files`."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """The number with its noun, which takes an `s` unless its plural is given."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def changed(number: int, noun: str, when: str) -> str:
    """That so many changed under a search, so that their hits were left out."""
    whose = "its" if number == 1 else "their"
    return f"{counted(number, noun)} changed {when}; {whose} hits were left out"

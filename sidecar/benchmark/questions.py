"""Questions with the lines that answer them, read from a JSON Lines file and held against the workspace."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sidecar.domain.errors import SettingsError

Place = tuple[str, int]
"""Path below the workspace with `/`, and a line number from 1."""


class Line(msgspec.Struct, frozen=True):
    """One line of evidence: where it stands, and its text with white space collapsed."""

    path: str
    number: int
    text: str


class Question(msgspec.Struct, frozen=True):
    """A question and its evidence: groups of lines, of each of which any one serves.

    Without groups nothing in the workspace answers it, and the best answer is an empty one.
    """

    id: str
    query: str
    groups: tuple[tuple[Line, ...], ...]


class _Row(msgspec.Struct):
    """A line of the file as it is written; other fields are the writer's own and ignored."""

    id: str
    query: str
    evidence: list[Place]
    groups: list[list[Place]] | None = None


def collapsed(text: str) -> str:
    """The text with every run of white space as one space, none at its ends."""
    return " ".join(text.split())


def read_questions(workspace: Path, queries: Path) -> tuple[Question, ...]:
    """The questions of a file, with the text of their evidence from the workspace.

    Raises `SettingsError` naming file and line when the file cannot be read, a row is no question, two have
    one id, or evidence names a line that is not there or blank.
    """
    rows: list[Question] = []
    seen: set[str] = set()
    files: dict[str, list[str]] = {}
    for number, written in enumerate(_text(queries).split("\n"), 1):
        if not written.strip():
            continue
        at = f"{queries}:{number}"
        try:
            row = msgspec.json.decode(written, type=_Row)
        except msgspec.MsgspecError as error:
            raise SettingsError(f"{at}: not a question: {error}") from error
        if row.id in seen:
            raise SettingsError(f"{at}: the id {row.id!r} is taken")
        seen.add(row.id)
        groups = row.groups if row.groups is not None else [[place] for place in row.evidence]
        if not all(groups):
            raise SettingsError(f"{at}: a group without lines")
        rows.append(
            Question(
                row.id,
                row.query,
                tuple(tuple(_line(workspace, files, place, at) for place in group) for group in groups),
            )
        )
    if not rows:
        raise SettingsError(f"{queries}: no questions")
    return tuple(rows)


def _line(workspace: Path, files: dict[str, list[str]], place: Place, at: str) -> Line:
    path, number = place
    if path not in files:
        files[path] = _text(workspace / path).split("\n")
    lines = files[path]
    text = collapsed(lines[number - 1]) if 1 <= number <= len(lines) else ""
    if not text:
        raise SettingsError(f"{at}: {path} has no text on line {number}")
    return Line(path, number, text)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {type(error).__name__}") from error

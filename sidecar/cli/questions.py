"""A file of a user's own questions with the notes that must answer them, and what an answer is worth.

[[question]]
ask = "where is the spare key?"
expect = ["memory/2026-11-28.md:4"]
within = 6
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from sidecar.domain.errors import SettingsError
from sidecar.settings.state import write_private
from sidecar.text.naming import split_name

WITHIN = 6
_LARGEST_FILE = 1 << 20


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked, the places of which one must be among the first `within` results."""

    ask: Annotated[str, msgspec.Meta(min_length=1, pattern=r"\S")]
    expect: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    within: Annotated[int, msgspec.Meta(ge=1, le=50)] = WITHIN

    @property
    def digest(self) -> str:
        """The question's name in the record of the last run, which holds no text."""
        return hashlib.sha256(msgspec.json.encode([self.ask, self.expect])).hexdigest()[:16]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    question: Annotated[tuple[Question, ...], msgspec.Meta(min_length=1)]


def read_questions(file: Path) -> tuple[Question, ...]:
    """The questions of a TOML file; raises `SettingsError` with one line that says what is wrong."""
    try:
        if file.stat().st_size > _LARGEST_FILE:
            raise SettingsError(f"{file} is over {_LARGEST_FILE} bytes")
        return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), _File).question
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise SettingsError(f"{file}: {error}") from error


def rank_of(question: Question, payload: Mapping[str, Any]) -> int | None:
    """The place of the first result that shows an expected note or line, from 1; None where none does."""
    wanted = [split_name(place) for place in question.expect]
    for rank, hit in enumerate(payload["hits"], 1):
        if any(_shows(hit, path, fragment) for path, fragment in wanted):
            return rank
    return None


def _shows(hit: Mapping[str, Any], path: str, fragment: str | None) -> bool:
    line = None if fragment is None else int(fragment[1:].partition("-")[0])
    for citation in hit.get("citations", []):
        reference = citation.get("reference", hit["reference"])
        if reference["id"] == path and (
            line is None or citation.get("startLine", 1) <= line <= citation.get("endLine", line)
        ):
            return True
    return not hit.get("citations") and hit["reference"]["id"] == path and line is None


def record_file(state_dir: Path, file: Path) -> Path:
    """Where the ranks of the last run of a file of questions are kept."""
    name = hashlib.sha256(str(file.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    # No agent's folder can have this name: ids hold no full stop.
    return state_dir / f"check.{name}.json"


def last_ranks(record: Path) -> dict[str, int | None]:
    """The ranks of the last run by the digests of the questions; empty where there was none."""
    try:
        return msgspec.json.decode(record.read_bytes(), type=dict[str, int | None])
    except (OSError, msgspec.MsgspecError):
        return {}


def keep_ranks(record: Path, ranks: Mapping[str, int | None]) -> None:
    """Remember this run for the next one; raises `StateError`."""
    write_private(record, msgspec.json.encode(ranks))

"""What a caller asks for and gets: references, citations, hits, pages and reads (U§3, spec §5)."""

from __future__ import annotations

import datetime
from typing import Literal

import msgspec

Source = Literal["memory", "sessions"]
SOURCES: tuple[Source, ...] = ("memory", "sessions")


class LineRange(msgspec.Struct, frozen=True, order=True):
    """1-based inclusive lines; `chars` is a half-open code point range inside one over-long line."""

    start: int
    end: int
    chars: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.start < 1 or self.end < self.start:
            raise ValueError(f"not a line range: {self.start}-{self.end}")
        if self.chars is not None and (
            self.start != self.end or self.chars[0] < 0 or self.chars[1] <= self.chars[0]
        ):
            raise ValueError(f"not a character range of one line: {self.chars}")


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A provider-scoped name of a piece of memory (U§3)."""

    provider_id: str
    id: str
    revision: str | None = None
    fragment: str | None = None


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a text stands; labels are user visible (U§16)."""

    label: str
    reference: Reference | None = None
    url: str | None = None
    start_line: int | None = None
    end_line: int | None = None


class AutomaticRecall(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a host may inject the hit by itself, and what with (U§10)."""

    eligible: bool
    project_keys: tuple[str, ...] = ()
    triggers: str | None = None
    importance: int | None = None


class ScoreParts(msgspec.Struct, frozen=True, kw_only=True):
    """What each leg and each adjustment gave to a hit's score, for `explain`."""

    text: float | None = None
    vector: float | None = None
    adjustments: tuple[tuple[str, float], ...] = ()


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where lines come from: the least trusted of their classes, and when the newest was said (ms)."""

    origin_class: Literal["owner", "agent", "system", "untrusted"]
    observed_ms: int


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a search.

    `path` and `lines` are what file-shaped callers see (U§2); a provider without files has neither. `score`
    is None where a provider ranks without one, `source` is its own word beside `memory` and `sessions`.
    `origin` is that of a transcript's lines; a note's is that of its place.
    """

    reference: Reference
    excerpt: str
    path: str | None = None
    lines: LineRange | None = None
    score: float | None = None
    source: str | None = None
    citations: tuple[Citation, ...] = ()
    recall: AutomaticRecall | None = None
    parts: ScoreParts = ScoreParts()
    origin: Origin | None = None


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of hits. `warning` says why when `coverage` is partial (spec §5.1)."""

    hits: tuple[Hit, ...]
    next_cursor: str | None = None
    coverage: Literal["complete", "partial"] | None = None
    warning: str | None = None


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """An indexed note by its name."""

    path: str
    day: datetime.date | None = None


class NoteFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which notes a search covers: those whose path a glob fits, and whose day lies from `since` to `until`.

    Both days are included, and written `YYYY-MM-DD`. The day of a note is that of its file's name; with a day
    given, notes without one are not covered. `path` is a pattern of `text/globs.py`.
    """

    path: str | None = None
    since: str | None = None
    until: str | None = None


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A search as the neutral runtime knows it (U§3). `min_score` is strict when given."""

    query: str
    max_results: int = 20
    min_score: float | None = None
    cursor: str | None = None
    sources: tuple[Source, ...] | None = None
    active_project_keys: tuple[str, ...] | None = None
    lexical_only: bool = False
    within: NoteFilter | None = None


class GetRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A read of a reference with optional bounds (U§3)."""

    reference: Reference
    from_line: int | None = None
    line_count: int | None = None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A read that found its text. `next_from` continues where `truncated` cut."""

    reference: Reference
    text: str
    citations: tuple[Citation, ...] = ()
    truncated: bool = False
    from_line: int | None = None
    line_count: int | None = None
    next_from: int | None = None


class NotFound(msgspec.Struct, frozen=True):
    """A reference that names nothing now: absent, excluded, forbidden or changed, indistinguishably."""


ReadResult = Found | NotFound

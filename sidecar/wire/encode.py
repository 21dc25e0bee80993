"""Answers to JSON: the envelope and field names of v2 (U§3). Absent is absent, never null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from sidecar.domain.memory import (
    AutomaticRecall,
    Citation,
    Found,
    Hit,
    Note,
    Page,
    ReadResult,
    Reference,
    ScoreParts,
)
from sidecar.domain.provider import Capabilities, Health
from sidecar.domain.why import Why


def v2(agent_id: str, provider_id: str, result: Mapping[str, object]) -> dict[str, object]:
    """The envelope of every v2 answer: the result's own fields are spread at top level."""
    return {"version": 2, "agentId": agent_id, "providerId": provider_id, **result}


def page(value: Page) -> dict[str, object]:
    """A page of hits."""
    out: dict[str, object] = {"hits": [hit(item) for item in value.hits]}
    if value.next_cursor is not None:
        out["nextCursor"] = value.next_cursor
    if value.coverage is not None:
        out["coverage"] = value.coverage
    if value.warning is not None:
        out["warning"] = value.warning
    return out


def bounded_page(value: Page, most_characters: int | None) -> dict[str, object]:
    """The best hits of a page whose excerpts hold at most so many characters together; the first always.

    What is left out is said by `truncated`, and then there is no cursor: it would skip what was left out.
    """
    out = page(value)
    if most_characters is None:
        return out
    sizes = accumulate(len(item.excerpt) for item in value.hits)
    kept = max(1, sum(size <= most_characters for size in sizes))
    if kept < len(value.hits):
        out["hits"] = [hit(item) for item in value.hits[:kept]]
        out["truncated"] = True
        out.pop("nextCursor", None)
    return out


def explained_page(value: Page) -> dict[str, object]:
    """A page whose hits also say what each leg and adjustment gave to their score."""
    out = page(value)
    out["hits"] = [hit(item) | {"explain": parts(item.parts)} for item in value.hits]
    return out


def parts(value: ScoreParts) -> dict[str, object]:
    """`text` and `vector` as the legs gave them (vector: the cosine), and the factors after them."""
    out: dict[str, object] = {}
    if value.text is not None:
        out["text"] = round(value.text, 6)
    if value.vector is not None:
        out["vector"] = round(value.vector, 6)
    return out | {name: round(factor, 6) for name, factor in value.adjustments}


def hit(value: Hit) -> dict[str, object]:
    """One v2 hit."""
    out: dict[str, object] = {"reference": reference(value.reference), "excerpt": value.excerpt}
    if value.score is not None:
        out["score"] = round(value.score, 6)
    if value.source is not None:
        out["source"] = value.source
    if value.citations:
        out["citations"] = [citation(item) for item in value.citations]
    if value.recall is not None:
        out["automaticRecall"] = recall(value.recall)
    return out


def reference(value: Reference) -> dict[str, object]:
    """A provider-scoped reference."""
    out: dict[str, object] = {"providerId": value.provider_id, "id": value.id}
    if value.revision is not None:
        out["revision"] = value.revision
    if value.fragment is not None:
        out["fragment"] = value.fragment
    return out


def citation(value: Citation) -> dict[str, object]:
    """Where a text stands."""
    out: dict[str, object] = {"label": value.label}
    if value.reference is not None:
        out["reference"] = reference(value.reference)
    if value.url is not None:
        out["url"] = value.url
    if value.start_line is not None:
        out["startLine"] = value.start_line
    if value.end_line is not None:
        out["endLine"] = value.end_line
    return out


def recall(value: AutomaticRecall) -> dict[str, object]:
    """What a host may inject by itself."""
    out: dict[str, object] = {"eligible": value.eligible}
    if value.project_keys:
        out["projectKeys"] = list(value.project_keys)
    if value.triggers is not None:
        out["triggers"] = value.triggers
    if value.importance is not None:
        out["importance"] = value.importance
    return out


def notes(found: Sequence[Note], most: int) -> dict[str, object]:
    """The first `most` notes; `next` is the last of them where more were found."""
    out: dict[str, object] = {
        "notes": [
            {"path": note.path} if note.day is None else {"path": note.path, "day": note.day.isoformat()}
            for note in found[:most]
        ]
    }
    if len(found) > most:
        out["next"] = found[most - 1].path
    return out


def why(value: Why) -> dict[str, object]:
    """Why a line is found or not; what does not apply is left out."""
    out: dict[str, object] = {"path": value.path, "verdict": value.verdict, "reason": value.reason}
    more = {"action": value.action, "line": value.line, "rank": value.rank}
    scores = {name: score if score is None else round(score, 6) for name, score in
              (("score", value.score), ("best", value.best))}  # fmt: skip
    out |= {name: item for name, item in {**more, **scores}.items() if item is not None}
    return out | ({"projectKeys": list(value.project_keys)} if value.project_keys else {})


def read(value: ReadResult) -> dict[str, object]:
    """A read: `ok` with its text, or `not_found` and nothing else."""
    if not isinstance(value, Found):
        return {"status": "not_found"}
    out: dict[str, object] = {
        "status": "ok",
        "reference": reference(value.reference),
        "text": value.text,
    }
    if value.citations:
        out["citations"] = [citation(item) for item in value.citations]
    if value.truncated:
        out["truncated"] = True
    if value.from_line is not None:
        out["from"] = value.from_line
    if value.line_count is not None:
        out["lines"] = value.line_count
    if value.next_from is not None:
        out["nextFrom"] = value.next_from
    return out


def health(value: Health) -> dict[str, object]:
    """How a provider is."""
    out: dict[str, object] = {"status": value.status}
    if value.message is not None:
        out["message"] = value.message
    if value.details is not None:
        out["details"] = dict(value.details)
    return out


def capabilities(value: Capabilities) -> dict[str, object]:
    """What a provider declares."""
    return {
        "sources": list(value.sources),
        "pagination": value.pagination,
        "candidates": list(value.candidates),
        "projectFilter": value.project_filter,
    }

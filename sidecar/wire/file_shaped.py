"""The file-shaped contract as JSON: the v1 envelope, raw hits, reads (U§2, U§12). Absent is never null."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sidecar.domain.file_shaped import FileHit, FileHits, FileText, Provenance


def v1(agent_id: str, found: FileHits, status: Mapping[str, object]) -> dict[str, object]:
    """The v1 envelope; `provider` and `searchMode` are the manager's own word after the search.

    Provenance is for hosts (`manager.search`): a v1 client cannot act on it.
    """
    out: dict[str, object] = {
        "agentId": agent_id,
        "provider": status.get("provider", "none"),
        "searchMode": _search_mode(status),
        "results": [hit(msgspec.structs.replace(item, provenance=None)) for item in found.hits],
    }
    return out | staleness(agent_id, found)


def _search_mode(status: Mapping[str, object]) -> str:
    custom = status.get("custom")
    told = custom.get("searchMode") if isinstance(custom, Mapping) else None
    if told in ("hybrid", "fts-only"):
        return str(told)
    vector = status.get("vector")
    words_only = isinstance(vector, Mapping) and vector.get("enabled") is False
    return "fts-only" if words_only or status.get("provider") == "none" else "hybrid"


def staleness(agent_id: str, found: FileHits) -> dict[str, object]:
    """`stale`, `warning`, `action` where the index is behind; the warning alone where the query was cut."""
    notices = [f"{notice[:1].upper()}{notice[1:]}." for notice in found.notices]
    if found.stale is None:
        return {"warning": " ".join(notices)} if notices else {}
    stale = f"Memory index is stale: {found.stale}. Search results may be incomplete."
    return {
        "stale": True,
        "warning": " ".join([stale, *notices]),
        "action": f"Run: memory-sidecar index --agent {agent_id}.",
    }


def hit(value: FileHit) -> dict[str, object]:
    """A hit as upstream's `MemorySearchResult`: both leg scores in hybrid, `textScore` alone without."""
    out: dict[str, object] = {
        "path": value.path,
        "startLine": value.start_line,
        "endLine": value.end_line,
        "score": round(value.score, 6),
        "snippet": value.snippet,
        "source": value.source,
    }
    scores = {"vectorScore": value.vector_score, "textScore": value.text_score}
    out |= {name: round(score, 6) for name, score in scores.items() if score is not None}
    more = {
        "importance": value.importance,
        "triggers": value.triggers,
        "projectKey": value.project_key,
        "citation": value.citation,
        "provenance": None if value.provenance is None else provenance(value.provenance),
    }
    return out | {name: item for name, item in more.items() if item is not None}


def provenance(value: Provenance) -> dict[str, object]:
    """Where a text comes from."""
    return {
        "originClass": value.origin_class,
        "sessionKind": value.session_kind,
        "observedAt": value.observed_at,
    }


def text(value: FileText) -> dict[str, object]:
    """A read by path; `status` is always said."""
    out: dict[str, object] = {
        "status": "not_found" if value.status == "not_found" else "ok",
        "text": value.text,
        "path": value.path,
    }
    if value.from_line is not None:
        out["from"] = value.from_line
    if value.line_count is not None:
        out["lines"] = value.line_count
    if value.truncated:
        out["truncated"] = True
    if value.next_from is not None:
        out["nextFrom"] = value.next_from
    return out

"""Candidates: curated entries that a host may inject by itself, by trigger or project (U§10, spec §5.1)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sidecar.domain.corpus import Annotations
from sidecar.domain.memory import Hit, LineRange
from sidecar.domain.provider import CandidateKind, CandidateRequest
from sidecar.index.agent_index import AgentIndex
from sidecar.index.entries import DocumentEntry
from sidecar.index.packing import UnitTable
from sidecar.index.view import View
from sidecar.service.hits import Found, HitMaker
from sidecar.service.indexing import Indexer
from sidecar.service.offload import Offload
from sidecar.service.shelf import Shelf
from sidecar.service.showing import entry_spans
from sidecar.text.annotations import normalise_project_key
from sidecar.text.prepare import CURATED
from sidecar.text.windows import BLOCKED, range_of

DEFAULT_LIMITS: dict[CandidateKind, int] = {"trigger": 512, "project": 48}
MOST_CANDIDATES = 512


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """Whole entries, the most important first. `partial` says why some may be missing."""

    hits: tuple[Hit, ...]
    partial: tuple[str, ...] = ()


class CandidateService:
    """Lists the candidates of one agent."""

    def __init__(
        self, *, index: AgentIndex, indexer: Indexer, shelf: Shelf, hits: HitMaker, offload: Offload
    ) -> None:
        self._index = index
        self._indexer = indexer
        self._shelf = shelf
        self._hits = hits
        self._offload = offload

    async def candidates(self, request: CandidateRequest) -> Candidates:
        """The eligible entries of `MEMORY.md` and `USER.md` of one kind, proven against the disk.

        By importance, highest first (none counts as 0), then by file and line. `trigger`: entries with
        triggers, whose project keys are all active; without `active_project_keys` any, with an empty one
        those without keys. `project`: entries with project keys, all of them active. `limit` is between 1
        and 512; 512 without one for triggers, 48 for projects.
        """
        partial = list(self._indexer.gaps())
        view = self._index.view()
        hits, changed = await self._offload.run(lambda: self._collect(view, request))
        if changed:
            self._indexer.look_again(changed)
            partial.append(f"{', '.join(changed)} changed since it was indexed; its entries were left out")
        limit = DEFAULT_LIMITS[request.kind] if request.limit is None else request.limit
        return Candidates(
            hits=tuple(hits[: min(max(limit, 1), MOST_CANDIDATES)]), partial=tuple(dict.fromkeys(partial))
        )

    def _collect(self, view: View, request: CandidateRequest) -> tuple[list[Hit], list[str]]:
        found: list[Hit] = []
        changed: list[str] = []
        for path in CURATED:
            entry = view.paths.get(path)
            if entry is None:
                continue
            lines = self._shelf.lines(entry)
            if lines is None:
                changed.append(path)
                continue
            for notes, where in _entries(entry.units):
                if _asked_for(notes, request):
                    hit = self._hits.hit(_found(entry, notes), lines, where, limit=None)
                    if hit.recall is not None and hit.recall.eligible:
                        found.append(hit)
        found.sort(key=_importance, reverse=True)  # stable: file and line order stays among equals
        return found, changed


def _found(entry: DocumentEntry, annotations: Annotations) -> Found:
    return Found(path=entry.path, source=entry.source, origin=entry.origin, annotations=annotations)


def _entries(units: UnitTable) -> Iterator[tuple[Annotations, LineRange]]:
    """The entries of a curated file in their order, without malformed ones."""
    at = 0
    while at < len(units):
        _, spans = entry_spans(units, at)
        if units.group(at) != BLOCKED:
            yield units.annotations(at), range_of(spans, 0, len(spans) - 1)
        at += len(spans)


def _asked_for(annotations: Annotations, request: CandidateRequest) -> bool:
    keys = annotations.project_keys
    active = request.active_project_keys
    admitted = set(map(normalise_project_key, active or ())).issuperset(keys)
    if request.kind == "project":
        return bool(keys) and admitted
    return bool(annotations.triggers) and (active is None or admitted)


def _importance(hit: Hit) -> int:
    return (hit.recall.importance or 0) if hit.recall is not None else 0

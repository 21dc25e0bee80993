"""A hit from the lines it names: excerpt, reference and citation, alike wherever one is made (spec §5.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from sidecar.domain.corpus import Annotations, OriginClass
from sidecar.domain.memory import (
    AutomaticRecall,
    Citation,
    Hit,
    LineRange,
    Reference,
    ScoreParts,
    Source,
)
from sidecar.text.cutting import UNIT_LIMIT
from sidecar.text.fragments import format_fragment, label
from sidecar.text.lines import revision
from sidecar.text.prepare import CURATED
from sidecar.text.windows import excerpt

RecordedOrigin = Callable[[str, str], OriginClass | None]
"""The origin that a host recorded for a path and a revision, None where it recorded none."""


def none_recorded(path: str, revised: str) -> OriginClass | None:  # noqa: ARG001
    """The origins of an agent for which no host has recorded any."""
    return None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that were found for a caller: which, of what file, and why."""

    path: str
    source: Source
    origin: OriginClass
    annotations: Annotations
    score: float = 0.0
    parts: ScoreParts = ScoreParts()


class HitMaker:
    """Makes the hits of one provider."""

    def __init__(self, provider_id: str, recorded_origin: RecordedOrigin = none_recorded) -> None:
        self._provider_id = provider_id
        self._recorded_origin = recorded_origin
        self._whole: tuple[Sequence[str], str] = ((), "")

    def hit(
        self, found: Found, lines: Sequence[str], whole: LineRange, *, limit: int | None = UNIT_LIMIT
    ) -> Hit:
        """The hit on the range `whole` of the file's lines.

        The reference names the whole entry in a curated file, elsewhere the lines of the excerpt, which is at
        most `limit` UTF-16 units long.
        """
        curated = found.path in CURATED
        text, shown = excerpt(lines, whole, limit)
        reference = self._reference(found.path, lines, whole if curated else shown)
        return Hit(
            reference=reference,
            excerpt=text,
            path=found.path,
            lines=shown,
            score=found.score,
            source=found.source,
            citations=(_citation(reference, shown),),
            recall=self._recall(found, reference, lines),
            parts=found.parts,
        )

    def citation(self, path: str, lines: Sequence[str], whole: LineRange) -> Citation:
        """Where the text of a hit also stands."""
        shown = excerpt(lines, whole)[1]
        return _citation(self._reference(path, lines, whole if path in CURATED else shown), shown)

    def _reference(self, path: str, lines: Sequence[str], named: LineRange) -> Reference:
        return Reference(
            provider_id=self._provider_id,
            id=path,
            fragment=format_fragment(named),
            revision=revision(lines[named.start - 1 : named.end]),
        )

    def _recall(self, found: Found, reference: Reference, lines: Sequence[str]) -> AutomaticRecall:
        notes = found.annotations
        return AutomaticRecall(
            eligible=self._eligible(found, reference, lines),
            project_keys=notes.project_keys,
            triggers="; ".join(notes.triggers) or None,
            importance=notes.importance,
        )

    def _eligible(self, found: Found, reference: Reference, lines: Sequence[str]) -> bool:
        """Only entries of curated files, and none whose recorded origin is untrusted.

        An origin may have been recorded for the entry or, by who writes whole files, for the file as it is.
        """
        if found.path not in CURATED or found.origin not in ("owner", "agent"):
            return False
        revisions = (reference.revision or "", self._file_revision(lines))
        return all(self._recorded_origin(found.path, named) != "untrusted" for named in revisions)

    def _file_revision(self, lines: Sequence[str]) -> str:
        """The revision of a whole file, computed once for its entries, which come one after the other."""
        known, named = self._whole
        if known is not lines:
            named = revision(lines)
            self._whole = (lines, named)
        return named


def _citation(reference: Reference, shown: LineRange) -> Citation:
    return Citation(
        label=label(reference.id, shown),
        reference=reference,
        start_line=shown.start,
        end_line=shown.end,
    )

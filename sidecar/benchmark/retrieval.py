"""Asks a service every question of a benchmark set and scores what comes back."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sidecar.benchmark.questions import Question
from sidecar.benchmark.scoring import Cited, Excerpt, Score, score
from sidecar.client.http import ServiceUnreachable, SidecarClient


class _Reference(msgspec.Struct):
    id: str


class _Citation(msgspec.Struct, rename="camel"):
    reference: _Reference
    start_line: int
    end_line: int


class _Hit(msgspec.Struct):
    excerpt: str
    citations: list[_Citation] = []


class Asking(msgspec.Struct, frozen=True):
    """How every question is asked: v2 with `max_results`, and with `minScore: 0` unless `default_cut`."""

    max_results: int = 50
    default_cut: bool = False

    def params(self, query: str) -> dict[str, object]:
        """The parameters of `memory.search`."""
        asked: dict[str, object] = {"version": 2, "query": query, "maxResults": self.max_results}
        return asked if self.default_cut else asked | {"minScore": 0}


async def measure(
    client: SidecarClient, questions: Sequence[Question], asking: Asking
) -> list[tuple[Question, Score]]:
    """Each question with its score, one asked after the other once everything is indexed.

    Raises what the client raises, and `ServiceUnreachable` for an answer that is no page of hits.
    """
    await client.call("sidecar.refresh", {}, timeout_seconds=None)
    return [
        (question, score(question, await _hits(client, asking.params(question.query))))
        for question in questions
    ]


async def _hits(client: SidecarClient, params: dict[str, object]) -> list[Excerpt]:
    payload = await client.call("memory.search", params)
    try:
        hits = msgspec.convert(payload.get("hits"), list[_Hit])
    except msgspec.ValidationError as error:
        raise ServiceUnreachable("what answers is not a memory-sidecar service") from error
    return [
        Excerpt(
            hit.excerpt,
            tuple(Cited(cited.reference.id, cited.start_line, cited.end_line) for cited in hit.citations),
        )
        for hit in hits
    ]

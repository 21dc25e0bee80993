"""The file-shaped manager over a real index: lifetime, minimum, and where texts come from (U§5, U§8)."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from sidecar.adapters.file_shaped import FileShapedManager, FileShapedRuntime
from sidecar.adapters.origin_classes import OriginClasses

from sidecar.corpus.scan import Corpus
from sidecar.domain.corpus import OriginClass
from sidecar.domain.errors import CapabilityUnsupported, ProviderFailed, Unavailable
from sidecar.domain.file_shaped import FileRead, FileSearch, HitFilter
from sidecar.domain.memory import Hit, LineRange, Reference
from sidecar.domain.provider import CandidateRequest
from sidecar.runtime.agent import AgentRuntime
from sidecar.service.audit import Audit
from sidecar.service.offload import Offload
from sidecar.service.preparing import Preparers
from sidecar.settings.model import AgentSettings, EmbeddingSettings, SessionsSettings, WatchSettings
from sidecar.text.lines import revision

ENTRY = "- The garage opener is in the blue tin."
NIGHT = "A garage in a dream."


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[FileShapedRuntime]:
    """The managers of an agent whose notes are indexed by words."""
    folder = tmp_path / "ws"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text(f"{ENTRY}\n- The tea tin is red and the garage is far away from it.\n")
    (folder / "memory" / "night.md").write_text(f"{NIGHT}\n")
    settings = AgentSettings(
        id="main", workspace=folder, sessions=SessionsSettings(directory=tmp_path / "sessions")
    )
    offload = Offload()
    agent = await AgentRuntime.open(
        settings,
        directory=tmp_path / "state",
        watch=WatchSettings(mode="polling"),
        embeddings=EmbeddingSettings(provider="none"),
        embedder=None,
        offload=offload,
        preparers=Preparers(0),
        audit=Audit(),
        recorded_origin=lambda _path, _revision: None,
    )
    await agent.refresh()
    yield agent.manager
    await agent.close()
    offload.close()


async def test_a_shared_manager_is_shared_and_others_are_the_callers_own(runtime: FileShapedRuntime) -> None:
    shared = [(await runtime.acquire("main", "default")).manager for _ in range(2)]
    own = [(await runtime.acquire("main", "cli")).manager for _ in range(2)]
    assert shared[0] is shared[1]
    assert own[0] is not own[1]
    nobody = await runtime.acquire("other", "cli")
    assert (nobody.manager, nobody.error) == (None, "memory plugin unavailable")


async def test_a_closed_manager_answers_nothing_and_leaves_the_others_alone(
    runtime: FileShapedRuntime,
) -> None:
    closed, other = runtime.manager("cli"), runtime.manager("cli")
    await closed.close()
    await closed.close()
    with pytest.raises(ProviderFailed, match="Memory index manager is closed"):
        closed.status()
    for call in (
        closed.search("garage", FileSearch()),
        closed.read_file(FileRead(path="MEMORY.md")),
        closed.sync(reason="x"),
        closed.probe(),
        closed.candidates(CandidateRequest(kind="trigger")),
    ):
        with pytest.raises(ProviderFailed, match="Memory index manager is closed"):
            await call
    assert (await other.search("garage", FileSearch())).hits


async def test_a_status_manager_does_not_sync(runtime: FileShapedRuntime) -> None:
    with pytest.raises(Unavailable, match="Memory status managers are read-only"):
        await runtime.manager("status").sync(reason="x")
    await runtime.manager("cli").sync(reason="x", force=True)


async def test_keyword_hits_survive_a_minimum_unless_it_is_strict(runtime: FileShapedRuntime) -> None:
    manager = runtime.manager("cli")
    scores = [hit.score for hit in (await manager.search("garage opener", FileSearch(min_score=0))).hits]
    assert len(scores) == 3
    bar = scores[0]
    loose = await manager.search("garage opener", FileSearch(min_score=bar))
    strict = await manager.search("garage opener", FileSearch(min_score=round(bar, 6), strict=True))
    assert (len(loose.hits), len(strict.hits)) == (3, 1)


def with_record(runtime: FileShapedRuntime, folder: Path, named: str) -> FileShapedRuntime:
    """The runtime beside a host that recorded one text as untrusted."""

    def recorded(path: str, of: str) -> OriginClass | None:
        del path
        return "untrusted" if of == named else None

    origins = OriginClasses(Corpus(folder), recorded)
    return FileShapedRuntime(dataclasses.replace(runtime._services, origins=origins))


async def test_a_recorded_origin_takes_trust_from_that_text_and_from_no_other(
    runtime: FileShapedRuntime, tmp_path: Path
) -> None:
    told = with_record(runtime, tmp_path / "ws", revision([ENTRY]))
    hits = (await told.manager("cli").search("garage", FileSearch(min_score=0))).hits
    origins = {hit.snippet: hit.provenance.origin_class for hit in hits if hit.provenance is not None}
    assert origins.pop(ENTRY) == "untrusted"
    assert set(origins.values()) == {"agent"}
    told = with_record(runtime, tmp_path / "ws", revision([NIGHT]))
    assert await told.classify(["memory/night.md", "MEMORY.md", "memory/gone.md"]) == [
        ("memory/night.md", "untrusted"),
        ("MEMORY.md", "agent"),
        ("memory/gone.md", "agent"),
    ]


class Entries:
    """Where candidates come from: one whole entry, and a reason why there may be more."""

    partial: Sequence[str] = ("MEMORY.md changed",)

    def __init__(self) -> None:
        reference = Reference(provider_id="memory-sidecar", id="MEMORY.md", fragment="L1-L1")
        self.hits = (
            Hit(
                reference=reference, excerpt=ENTRY * 40, path="MEMORY.md", lines=LineRange(1, 1),
                score=0.0, source="memory",
            ),
        )  # fmt: skip

    async def candidates(self, request: CandidateRequest) -> Entries:
        assert request.kind == "trigger"
        return self


async def test_candidates_are_whole_entries_with_score_zero_and_refused_where_there_are_none(
    runtime: FileShapedRuntime,
) -> None:
    services = dataclasses.replace(runtime._services, candidates=Entries())
    found = await FileShapedManager(services, "cli").candidates(CandidateRequest(kind="trigger"))
    (hit,) = found.hits
    assert (hit.snippet, hit.score, hit.path) == (ENTRY * 40, 0.0, "MEMORY.md")
    assert found.stale == "MEMORY.md changed"
    manager = FileShapedManager(dataclasses.replace(services, candidates=None), "cli")
    with pytest.raises(
        CapabilityUnsupported, match="memory provider does not support the project candidates capability"
    ):
        await manager.candidates(CandidateRequest(kind="project"))


async def test_a_wired_filter_decides_and_is_given_the_hits_themselves(runtime: FileShapedRuntime) -> None:
    async def nothing(asked: HitFilter) -> Sequence[object]:
        return asked.hits[1:]

    hits = (await runtime.manager("cli").search("garage", FileSearch(min_score=0))).hits
    told = FileShapedRuntime(dataclasses.replace(runtime._services, authorise=nothing))  # type: ignore[arg-type]
    assert await told.admitted(HitFilter(agent_id="main", hits=hits)) == hits[1:]
    assert tuple(await runtime.admitted(HitFilter(agent_id="main", hits=hits))) == hits

"""Equal text in several places, and where a score comes from (spec §7, §4.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SENTENCE = "The greenhouse permit is number TH-0815."


async def test_equal_text_comes_back_once_from_the_curated_file_with_every_place_cited(
    launcher: Any, workspace: Path, write: Any
) -> None:
    write(
        workspace,
        {
            "memory/2024-01-01.md": SENTENCE,
            "MEMORY.md": SENTENCE.upper(),
            "memory/2026-01-01.md": SENTENCE.replace(" ", "  "),
            "memory/other.md": "The greenhouse glass was cleaned.",
        },
    )
    service = launcher.serve(workspace)
    await service.ready()
    for limit in (1, 5):
        hits = (await service.search("greenhouse permit number", minScore=0, maxResults=limit))["hits"]
        first = hits[0]
        assert first["reference"]["id"] == "MEMORY.md"
        labels = [citation["label"] for citation in first["citations"]]
        assert labels[0] == "MEMORY.md#L1-L1"
        assert set(labels) == {"MEMORY.md#L1-L1", "memory/2024-01-01.md#L1-L1", "memory/2026-01-01.md#L1-L1"}
        assert sum("permit" in hit["excerpt"].lower() for hit in hits) == 1
    assert service.stop() == 0


async def test_a_note_saved_again_with_another_word_comes_after_what_says_something_else(
    launcher: Any, workspace: Path, write: Any
) -> None:
    copy = (
        "- The greenhouse permit TH-0815 was extended by the town hall until the end of {} after two visits."
    )
    write(
        workspace,
        {
            **{f"memory/copy-{number}.md": copy.format(f"{number} May") for number in range(1, 5)},
            "memory/other.md": "- For the greenhouse permit the neighbour wants drawings of the roof.",
        },
    )
    service = launcher.serve(workspace)
    await service.ready()
    found = {
        limit: [
            hit["reference"]["id"]
            for hit in (await service.search("greenhouse permit", minScore=0, maxResults=limit))["hits"]
        ]
        for limit in (1, 2, 3, 10)
    }
    assert "memory/other.md" in found[10][:2], "the copies of the best hit do not stand before it"
    assert len(set(found[10])) == 5, "demoted, never dropped"
    assert all(found[limit] == found[10][:limit] for limit in found)
    assert service.stop() == 0


async def test_without_a_curated_copy_the_newest_note_is_shown(
    launcher: Any, workspace: Path, write: Any
) -> None:
    write(workspace, {f"memory/{year}-01-01.md": SENTENCE for year in (2021, 2025, 2023)})
    service = launcher.serve(workspace)
    await service.ready()
    (hit,) = (await service.search("greenhouse permit"))["hits"]
    assert hit["reference"]["id"] == "memory/2025-01-01.md"
    assert len(hit["citations"]) == 3
    assert service.stop() == 0


async def test_an_explained_hit_says_what_words_and_meaning_gave(example: Any) -> None:
    plain = (await example.search("garage opener"))["hits"][0]
    explained = (await example.call("sidecar.explain", {"query": "garage opener"}))["hits"][0]
    parts = explained.pop("explain")
    assert explained == plain
    factors = 1.0
    for name, factor in parts.items():
        if name not in ("text", "vector"):
            factors *= factor
    assert abs((parts["text"] + 0.3 * parts["vector"]) * factors - plain["score"]) < 1e-4


async def test_a_file_that_the_query_names_comes_first(launcher: Any, workspace: Path, write: Any) -> None:
    write(
        workspace,
        {
            "memory/house.md": "The gutters are cleaned in autumn.\n",
            "memory/garden.md": "- house house house\n- the house by the garden\n- a house\n",
        },
    )
    service = launcher.serve(workspace)
    await service.ready()
    for query in ("house", "house.md", "memory/house.md"):
        assert (await service.search(query))["hits"][0]["reference"]["id"] == "memory/house.md"
        assert (await service.search_v1(query))["results"][0]["path"] == "memory/house.md"
    assert service.stop() == 0

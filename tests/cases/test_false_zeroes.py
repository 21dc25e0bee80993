"""An answer without hits means that nothing is there, never that something was not set up (T1)."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

NOTES = {
    "MEMORY.md": "The spare garage opener is in the blue tin.\n",
    "memory/2026-03-04.md": "Boiler serviced by Halden and Sons, next visit October.\n",
}
BLANK: list[Any] = ["", "   ", "\t\n", "\u3000", None]


async def test_without_embeddings_every_note_is_indexed_and_found_by_its_words(
    launcher: Any, workspace: Path, write: Any, words_only: Any, paths: Any, eventually: Any
) -> None:
    """BR-01."""
    write(workspace, NOTES)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        proxy = f"http://127.0.0.1:{listening.getsockname()[1]}"
        proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), proxy)
        service = launcher.serve(workspace, environment={**words_only, **proxies})
        await service.ready()
        assert (await paths(service, "garage opener"))[0] == "MEMORY.md"
        assert (await paths(service, "boiler serviced"))[0] == "memory/2026-03-04.md"

        async def all_files() -> bool:
            # Files are read once more when they have been at rest for a moment: until then they are pending.
            files = (await service.call("memory.status", {}))["details"]["files"]
            return bool(files == {"onDisk": 2, "indexed": 2, "pending": 0})

        await eventually(all_files)
        status = (await service.call("memory.status", {}))["details"]
        with pytest.raises(BlockingIOError):  # nobody asked the way out of the machine
            listening.accept()
    assert status["index"]["units"] > 0
    assert status["embeddings"] == {"provider": "none", "searchMode": "fts-only"}
    answer = await service.search_v1("garage opener")
    assert (answer["provider"], answer["searchMode"]) == ("none", "fts-only")
    assert service.stop() == 0


@pytest.mark.parametrize("provider", ["none", "local"])
async def test_an_empty_workspace_finds_nothing_until_a_note_is_written(
    launcher: Any, workspace: Path, eventually: Any, paths: Any, both: Any, provider: str
) -> None:
    """BR-03."""
    service = launcher.serve(workspace, environment={"MEMORY_SIDECAR_EMBEDDINGS_PROVIDER": provider})
    await service.ready()
    for query in ("umbrella", "傘"):
        assert await both(service, query) == []
    (workspace / "MEMORY.md").write_text("umbrella stand by the door\n", encoding="utf-8")

    async def finds() -> bool:
        return (await service.search("umbrella"))["hits"] != []

    await eventually(finds)
    assert await paths(service, "umbrella") == ["MEMORY.md"]
    assert service.process.poll() is None
    assert service.stop() == 0


async def test_a_blank_or_missing_query_is_one_named_error_in_both_contracts(
    launcher: Any, workspace: Path
) -> None:
    """BR-03."""
    service = launcher.serve(workspace)
    await service.ready()
    refused: dict[str, Any] = {"code": "INVALID_REQUEST", "message": "query must be a non-empty string"}
    for version in (1, 2):
        for query in BLANK:
            status, error = await service.error("memory.search", {"version": version, "query": query})
            assert (status, error) == (400, refused), (version, query)
        status, error = await service.error("memory.search", {"version": version})
        assert (status, error) == (400, refused)
    assert service.stop() == 0


async def test_a_file_that_repeats_a_word_thousands_of_times_hides_no_other_note_with_it(
    launcher: Any, workspace: Path, write: Any, words_only: Any
) -> None:
    """Every note that holds the word is on some page, whatever else holds it."""
    logs = {
        f"memory/log{log}.md": "".join(
            f"- Kiln kiln kiln: reading {line} of kiln {log}.\n" for line in range(700)
        )
        for log in range(2)
    }
    notes = {
        f"memory/note{number}.md": f"Potter {number} fires the pots of the whole village in one old kiln.\n"
        for number in range(12)
    }
    write(workspace, {**logs, **notes})
    service = launcher.serve(workspace, environment=words_only)
    await service.ready()
    for query in ("kiln", "which potter has a kiln", "kiln reading"):
        found: list[str] = []
        cursor: dict[str, object] = {}
        while True:
            page = await service.search(query, maxResults=50, minScore=0, **cursor)
            found += [hit["reference"]["id"] for hit in page["hits"]]
            if page.get("nextCursor") is None:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert set(found) == {*logs, *notes}, query
    assert {hit["reference"]["id"] for hit in (await service.search("potter kiln"))["hits"]} <= set(notes)
    assert service.stop() == 0

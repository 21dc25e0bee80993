"""A running service follows transcripts as they are written, in both contracts and at the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SOURCES = 'search_sources = ["memory", "sessions"]'
WORDS_ONLY = {"MEMORY_SIDECAR_EMBEDDINGS_PROVIDER": "none"}


@pytest.mark.parametrize("mode", ["events", pytest.param("polling", marks=pytest.mark.slow)])
async def test_new_growing_and_removed_transcripts_are_followed(
    launcher: Any, tmp_path: Path, serving: Any, say: Any, jsonl: Any, eventually: Any, mode: str
) -> None:
    environment = WORDS_ONLY | {"MEMORY_SIDECAR_WATCH_MODE": mode, "MEMORY_SIDECAR_WATCH_POLL_SECONDS": "0.2"}
    served = serving(launcher, tmp_path, environment=environment)
    await served.service.ready()
    path = served.write("a.jsonl", {"type": "session"}, say("user", "the zeppelin waits"))
    await eventually(lambda: served.finds("zeppelin"))
    for word in ("axolotl", "marmot", "ibex"):
        with path.open("ab") as file:
            file.write(jsonl(say("assistant", f"and the {word}")))
        await eventually(lambda word=word: served.finds(word))
    path.unlink()

    async def gone() -> bool:
        return not await served.finds("zeppelin")

    await eventually(gone)
    assert (await served.service.search("zeppelin"))["coverage"] == "complete"
    assert served.service.stop() == 0


@pytest.mark.slow
async def test_search_sources_bring_transcripts_into_every_search_and_the_command_line(
    launcher: Any, tmp_path: Path, serving: Any, say: Any, eventually: Any
) -> None:
    served = serving(launcher, tmp_path, agent=SOURCES, environment=WORDS_ONLY)
    (served.workspace / "MEMORY.md").write_text("- The zeppelin is blue.\n")
    served.write("a.jsonl", say("user", "The zeppelin is late."))
    await served.service.ready()
    await eventually(lambda: served.finds("zeppelin"))

    async def both() -> bool:
        return len((await served.service.search("zeppelin"))["hits"]) == 2

    await eventually(both)
    v1 = (await served.service.search_v1("zeppelin"))["results"]
    assert {(hit["source"], hit["path"]) for hit in v1} == {
        ("memory", "MEMORY.md"),
        ("sessions", "sessions/main/a.jsonl"),
    }
    config = str(tmp_path / "sidecar.toml")
    found = launcher.run("search", "--config", config, "zeppelin", "--source", "sessions", "--json")
    (hit,) = json.loads(found.stdout)["hits"]
    assert hit["source"] == "sessions"
    got = launcher.run("get", "--config", config, "sessions/main/a.jsonl")
    assert got.stdout.strip().endswith("User: The zeppelin is late.")
    assert served.service.stop() == 0


@pytest.mark.slow
async def test_the_folder_of_transcripts_may_be_missing_and_appear(
    launcher: Any, tmp_path: Path, serving: Any, say: Any, eventually: Any
) -> None:
    served = serving(launcher, tmp_path, environment=WORDS_ONLY, settings="visibility = 'agent'")
    served.sessions.rmdir()
    await served.service.ready()
    assert await served.found("zeppelin") == []
    served.sessions.mkdir()
    served.write("a.jsonl", say("user", "the zeppelin waits"))
    await eventually(lambda: served.finds("zeppelin"))
    assert served.service.stop() == 0

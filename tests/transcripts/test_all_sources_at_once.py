"""BR-56: a search over notes and transcripts takes no longer than one over each of them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

NOTES, MESSAGES = 400, 3000
ROUNDS = 15
SLACK_SECONDS = 0.02


@pytest.mark.slow
async def test_all_sources_together_are_no_slower_than_each_alone_added_up(
    launcher: Any, tmp_path: Path, write: Any, say: Any, serving: Any
) -> None:
    served = serving(launcher, tmp_path)
    service = served.service
    lines = "".join(f"- a line about topic{n % 97} and thing{n}\n" for n in range(10))
    write(served.workspace, {f"memory/n{n}.md": f"# Note {n}\n\n{lines}" for n in range(NOTES)})
    for part in range(6):
        served.write(
            f"s{part}.jsonl",
            *(
                say("user", f"Message {n} about topic{n % 97} and matter{n}.")
                for n in range(part, MESSAGES, 6)
            ),
        )
    await service.call("sidecar.refresh", {})

    async def took(*sources: str) -> float:
        began = time.monotonic()
        page = await service.search("topic42 thing5 matter42", sources=list(sources))
        assert page["hits"]
        return time.monotonic() - began

    best = {"memory": 9.0, "sessions": 9.0, "both": 9.0}
    for _ in range(ROUNDS):
        best["memory"] = min(best["memory"], await took("memory"))
        best["sessions"] = min(best["sessions"], await took("sessions"))
        best["both"] = min(best["both"], await took("memory", "sessions"))
    assert best["both"] < best["memory"] + best["sessions"] + SLACK_SECONDS, best
    answers = await asyncio.gather(*(took("memory", "sessions") for _ in range(16)))
    assert max(answers) < 8.0
    assert service.stop() == 0

"""200 MB of one transcript: bounded memory, bounded time, and an append that costs next to nothing."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

MEGABYTES = 200
MOST_RESIDENT = 700 * 1024
MOST_SECONDS = 240.0
"""About 25 on two free cores."""


def resident(pid: int) -> int:
    """The highest resident size of a process so far, KB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    raise AssertionError("no VmHWM")


def write_transcript(path: Path, say: Any) -> int:
    """A long life of an agent: mostly results of tools, a tenth of it talk; gives the number of lines."""
    dice = random.Random(1)  # noqa: S311
    words = [
        f"{a}{b}" for a in ("ka", "lo", "mi", "ne", "ru", "ta") for b in ("bel", "dor", "fin", "gar", "hos")
    ]
    lines = 0
    with path.open("wb") as file:
        while file.tell() < MEGABYTES * 1024 * 1024:
            talk = " ".join(dice.choices(words, k=60))
            for record in (
                say("user", f"question {lines} {talk}"),
                say("toolResult", [{"type": "text", "text": "x y z " * 3000}]),
                say("assistant", f"answer {lines} {talk}"),
            ):
                file.write(json.dumps(record).encode() + b"\n")
                lines += 1
    return lines


@pytest.mark.slow
async def test_two_hundred_megabytes_are_indexed_within_bounds_and_grow_cheaply(
    launcher: Any, tmp_path: Path, serving: Any, say: Any, jsonl: Any, eventually: Any
) -> None:
    folder = tmp_path / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    path = folder / "long.jsonl"
    lines = write_transcript(path, say)
    began = time.monotonic()
    served = serving(launcher, tmp_path)
    await eventually(lambda: _ready(served), within=MOST_SECONDS, pause=0.5)
    assert time.monotonic() - began < MOST_SECONDS
    assert resident(served.service.process.pid) < MOST_RESIDENT
    middle = lines // 2 - lines // 2 % 3
    (hit,) = await served.found(f"question {middle}", maxResults=1)
    assert hit["excerpt"].startswith(f"User: question {middle} ")
    assert hit["citations"][0]["startLine"] == middle + 1
    before = (await served.service.call("memory.status", {}))["details"]["sessions"]
    with path.open("ab") as file:
        file.write(jsonl(say("user", "the zeppelin waits")))
    assert await eventually(lambda: served.finds("zeppelin")) < 5
    after = (await served.service.call("memory.status", {}))["details"]["sessions"]
    assert after["parts"] - before["parts"] in (0, 1)
    assert resident(served.service.process.pid) < MOST_RESIDENT
    assert served.service.stop() == 0


async def _ready(served: Any) -> bool:
    status = await served.service.call("memory.status", {})
    counts = {each["source"]: each["files"] for each in status["details"]["sourceCounts"]}
    return bool(status["status"] == "ready" and counts["sessions"] == 1)

"""A note of 100 MB costs neither the machine's memory nor the other notes' time (spec §6)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

MOST_MEGABYTES = 450


@pytest.mark.slow
async def test_a_note_of_a_hundred_megabytes_takes_bounded_memory_and_lets_others_go_first(
    launcher: Any, workspace: Path, write: Any, eventually: Any
) -> None:
    write(workspace, {"memory/z.md": "- the small zebu\n"})
    with (workspace / "memory" / "a-huge.md").open("w") as file:
        file.write("- the word mammoth\n")
        for block in range(100):
            file.write("".join(f"- line {block} {n} with some words of a long log\n" for n in range(23_000)))
    assert (workspace / "memory" / "a-huge.md").stat().st_size > 90_000_000
    service = launcher.serve(workspace)

    async def small_found() -> bool:
        return bool(await service.excerpts("zebu"))

    async def huge_found() -> bool:
        return any("mammoth" in excerpt for excerpt in await service.excerpts("mammoth"))

    await eventually(small_found, within=20)
    await eventually(huge_found, within=90)
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    peak = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1000  # type: ignore[index]
    assert peak < MOST_MEGABYTES, f"{peak} MB at the peak"
    print(f"peak {peak} MB")  # noqa: T201
    assert service.stop() == 0

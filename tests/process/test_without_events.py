"""BR-07: without file events the service polls, says so, and still finds every edit (spec §6)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sidecar.corpus import watch

POLL_SECONDS = 2
# One for the scan itself and its indexing, as the specification has it, and one for a busy machine.
WITHIN = POLL_SECONDS + 2.0
NOTES = 400
HANDFUL = 5


def in_a_namespace_without(limit: str) -> tuple[str, ...]:
    """What to put before a command so that it runs with this limit at 0, or a skip where that cannot be."""
    prefix = ("unshare", "-Ur", "sh", "-c", f'echo 0 > /proc/sys/user/{limit} && exec "$@"', "sh")
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare command here")
    tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"user namespaces are not allowed here: {tried.stderr.strip()}")
    return prefix


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "reason"),
    [("max_inotify_instances", watch.NO_INSTANCE), ("max_inotify_watches", watch.NO_WATCH)],
)
async def test_with_no_inotify_left_it_starts_polls_says_so_and_finds_edits_within_the_bound(
    launcher: Any, workspace: Path, write: Any, eventually: Any, limit: str, reason: str
) -> None:
    prefix = in_a_namespace_without(limit)
    write(workspace, {f"memory/n{number}.md": f"- the word nugget{number}\n" for number in range(NOTES)})
    service = launcher.serve(workspace, prefix=prefix)
    await service.ready()
    for number in (12, 300):
        for word in ("zeppelin", "gondola"):
            path = workspace / "memory" / f"n{number}.md"
            path.write_text(f"- the {word}{number} is new\n")

            async def found(word: str = f"{word}{number}") -> bool:
                return any(word in text for text in await service.excerpts(word))

            await eventually(found, within=WITHIN)
    (workspace / "memory" / "n12.md").unlink()

    async def gone() -> bool:
        return not any("gondola12" in text for text in await service.excerpts("gondola12"))

    await eventually(gone, within=WITHIN)
    status = await service.call("memory.status", {})
    assert status["status"] == "ready"
    assert '"polling"' in json.dumps(status)
    assert reason in json.dumps(status)
    warnings = [line for line in map(json.loads, launcher.log().splitlines()) if line["level"] != "info"]
    assert len(warnings) <= HANDFUL, warnings
    assert any(reason in line["message"] for line in warnings)
    assert service.stop() == 0

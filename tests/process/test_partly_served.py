"""What is read in part is named, and found as far as it goes (spec §6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any


async def test_a_file_read_in_part_is_found_and_named_and_not_called_skipped(
    launcher: Any, workspace: Path
) -> None:
    (workspace / "memory").mkdir()
    (workspace / "memory" / "latin1.md").write_bytes("the caf\u00e9 sells snapdragons\n".encode("latin-1"))
    service = launcher.serve(workspace)
    await service.ready()
    details = (await service.call("memory.status", {}))["details"]
    assert details["partlyIndexed"] == [{"path": "memory/latin1.md", "reason": "invalid-utf8"}]
    assert (details["skipped"], details["skippedCount"]) == ([], 0)
    assert (await service.search("snapdragons"))["hits"]
    assert service.stop() == 0


async def test_a_bare_heading_is_no_hit_of_its_own_beside_its_text(
    launcher: Any, workspace: Path, write: Any
) -> None:
    write(
        workspace,
        {
            "memory/a.md": "# Plumber\n\n"
            + "Other words stand here. " * 30
            + "\n\n- The plumber is Fennimore.\n"
        },
    )
    service = launcher.serve(workspace)
    await service.ready()
    for excerpt in await service.excerpts("who is the plumber", minScore=0):
        assert excerpt.strip() != "# Plumber"
    assert service.stop() == 0


async def test_a_line_longer_than_a_read_is_continued_by_its_characters(
    launcher: Any, workspace: Path, write: Any
) -> None:
    line = "".join(f"word{n} " for n in range(4000))
    write(workspace, {"memory/long.md": f"first\n{line}\nlast\n"})
    service = launcher.serve(workspace)
    await service.ready()
    own = {"providerId": "memory-sidecar", "id": "memory/long.md"}
    answer = await service.call("memory.get", {"reference": own, "from": 2, "lines": 1})
    assert (answer["truncated"], answer["nextFrom"]) == (True, 3)
    assert answer["reference"]["fragment"] == "L2-L2@c0-12000"
    assert answer["text"] == line[:12_000]
    read, at, revision = answer["text"], 12_000, answer["reference"]["revision"]
    while answer.get("truncated"):
        reference = own | {"fragment": f"L2-L2@c{at}-999999999", "revision": revision}
        answer = await service.call("memory.get", {"reference": reference})
        read += answer["text"]
        at += len(answer["text"])
    assert read == line
    assert (await service.call("memory.get", {"reference": own, "from": 3}))["text"] == "last"
    assert service.stop() == 0

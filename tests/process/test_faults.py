"""Faults while it serves: they are told, they heal, and the end is clean all the same (spec §1, §2, §7)."""

from __future__ import annotations

import logging
import resource
import secrets
import zlib
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow


async def test_a_full_disk_is_told_in_status_heals_by_itself_and_ends_cleanly(
    launcher: Any, workspace: Path, write: Any, eventually: Any
) -> None:
    write(workspace, {f"memory/n{n}.md": f"- the word nugget{n}\n" for n in range(40)})
    service = launcher.serve(workspace)
    await service.ready()
    _, hard = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (250_000, hard))
    lines = {n: "".join(f"- grow {secrets.token_hex(8)}\n" for _ in range(20)) for n in range(300)}
    write(workspace, {f"memory/g{n}.md": text for n, text in lines.items()})

    async def told() -> bool:
        status = await service.call("memory.status", {})
        return bool(status["status"] != "ready" and "log" in status.get("message", ""))

    await eventually(told)
    assert (await service.search("nugget7"))["coverage"] == "partial"
    assert "indexing failed" in launcher.log()
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    write(workspace, {"memory/z.md": "later zebu\n"})

    async def healed() -> bool:
        found = await service.excerpts("zebu")
        return found == ["later zebu"] and (await service.call("memory.status", {}))["status"] == "ready"

    await eventually(healed, within=60)
    assert service.stop() == 0


async def test_a_full_disk_does_not_keep_it_from_ending(
    launcher: Any, workspace: Path, write: Any, eventually: Any
) -> None:
    write(workspace, {"MEMORY.md": "- one\n"})
    service = launcher.serve(workspace)
    await service.ready()
    _, hard = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (1, hard))
    write(workspace, {f"memory/g{n}.md": f"- grow {n}\n" * 50 for n in range(50)})

    async def failing() -> bool:
        return bool((await service.call("memory.status", {}))["status"] == "degraded")

    await eventually(failing)
    assert service.stop() == 0


async def test_a_name_that_is_not_utf_8_does_not_blind_the_watch_for_other_notes(
    launcher: Any, workspace: Path, write: Any, eventually: Any
) -> None:
    write(workspace, {"memory/a.md": "first marker\n"})
    (workspace / "memory" / "bad\udcff.md").write_text("odd marker\n")
    service = launcher.serve(workspace)
    await service.ready()

    async def watching() -> bool:
        return bool((await service.call("memory.status", {}))["details"]["watch"]["mode"] == "events")

    await eventually(watching)
    write(workspace, {"memory/b.md": "second marker\n"})

    async def found() -> bool:
        return any("second" in excerpt for excerpt in await service.excerpts("second marker"))

    await eventually(found)
    assert launcher.log().count("file events") <= 3
    assert service.stop() == 0


async def test_a_token_that_changes_on_disk_is_in_force_without_a_restart(
    launcher: Any, workspace: Path, eventually: Any
) -> None:
    service = launcher.serve(workspace)
    await service.ready()
    old, new = service.operator_token, secrets.token_urlsafe(32)
    (service.state / "operator.token").write_text(new)

    async def rotated() -> bool:
        return (await service.post("/rpc/memory.status", {}, token=new))[0] == 200

    await eventually(rotated)
    assert (await service.post("/rpc/memory.status", {}, token=old))[0] == 401
    assert new not in launcher.log()
    assert service.stop() == 0


@pytest.mark.parametrize("content", [b"", b"\0" * 43, b"short", "não é um segredo válido".encode()])
async def test_a_damaged_generated_token_is_made_anew(launcher: Any, workspace: Path, content: bytes) -> None:
    first = launcher.serve(workspace)
    assert first.stop() == 0
    (first.state / "host.token").write_bytes(content)
    second = launcher.serve(workspace)
    assert len(second.host_token) >= 32
    assert second.operator_token == first.operator_token
    assert (await second.post("/rpc/memory.status", {}, token=second.host_token))[0] == 200
    assert second.stop() == 0


async def test_no_note_text_is_logged_at_any_level(launcher: Any, workspace: Path, write: Any) -> None:
    canary = "canary" + secrets.token_hex(8)
    write(workspace, {"MEMORY.md": f"- the {canary} is here\n"})
    service = launcher.serve(workspace, "--log-level", "debug")
    await service.ready()
    assert (await service.search(canary))["hits"]
    assert service.stop() == 0
    log = launcher.log()
    assert canary not in log
    assert "INSERT" not in log
    assert repr(zlib.compress(canary.encode()))[2:-1] not in log
    assert logging.getLogger("aiosqlite").level in (logging.NOTSET, logging.WARNING)


async def test_a_score_that_was_shown_is_a_minimum_that_its_hit_passes(example: Any) -> None:
    hits = (await example.search("tap valve opener", minScore=0))["hits"]
    for hit in hits:
        again = (await example.search("tap valve opener", minScore=hit["score"]))["hits"]
        assert hit["reference"] in [found["reference"] for found in again]
        assert all(found["score"] >= hit["score"] for found in again)

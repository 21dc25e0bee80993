"""File systems that say nothing of changes, are full, or may not be written (spec §1, §6, §7)."""

from __future__ import annotations

import secrets
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for namespaces
from namespaces import in_a_namespace, inside

from sidecar.corpus import watch

pytestmark = pytest.mark.slow
WITHIN = 10.0
"""The periodic look comes every two seconds for a small workspace; the rest is for a busy machine."""


async def test_on_a_mount_without_events_new_notes_are_indexed_in_time_and_status_comes_to_say_polling(
    launcher: Any, tmp_path: Path, write: Any, eventually: Any
) -> None:
    """BR-05: an overlay tells nobody of what is changed below it, as many network file systems do."""
    below, merged = tmp_path / "below", tmp_path / "merged"
    for folder in (below, merged, tmp_path / "lower", tmp_path / "work"):
        folder.mkdir()
    write(below, {"memory/a.md": "The lantern hangs in the porch.\n"})
    options = f"lowerdir={tmp_path}/lower,upperdir={below},workdir={tmp_path}/work"
    mount = f"mount -t overlay overlay -o {shlex.quote(options)} {shlex.quote(str(merged))}"
    service = launcher.serve(merged, prefix=in_a_namespace(mount, tried=mount))
    await service.ready()
    assert (await service.call("memory.status", {}))["details"]["watch"]["mode"] == "events"
    rounds = 0
    while (told := (await service.call("memory.status", {}))["details"]["watch"])["mode"] == "events":
        rounds += 1
        # What is written while it watches anew is found by that, and is no miss.
        assert rounds <= 4 * watch.MISSES_UNTIL_POLLING
        write(below, {f"memory/n{rounds}.md": f"The zeppelin{rounds}x lands at noon.\n"})

        async def indexed(count: int = rounds + 1) -> bool:
            # Asked of status alone, since a search would notice by itself that the folder changed.
            files = (await service.call("memory.status", {}))["details"]["files"]
            return bool(files["indexed"] == count)

        await eventually(indexed, within=WITHIN)
        assert f"zeppelin{rounds}x" in str(await service.excerpts(f"zeppelin{rounds}x"))
    assert (told["mode"], told.get("reason")) == ("polling", watch.EVENTS_MISSED)
    assert service.stop() == 0


async def test_a_disk_that_is_really_full_costs_new_text_alone_and_heals_when_there_is_room(
    launcher: Any, workspace: Path, write: Any, eventually: Any
) -> None:
    state = launcher.directory / "state"
    state.mkdir(mode=0o700)
    write(workspace, {f"memory/n{n}.md": f"- the word nugget{n}\n" for n in range(40)})
    mount = f"mount -t tmpfs -o size=6m,mode=0700 tmpfs {shlex.quote(str(state))}"
    service = launcher.serve(
        workspace,
        prefix=in_a_namespace(mount, tried=mount),
        environment={"MEMORY_SIDECAR_OPERATOR_TOKEN": "operator-0123456789abcdef"},
    )
    service.operator_token = "operator-0123456789abcdef"
    await service.ready()
    lines = {n: "".join(f"- grow {secrets.token_hex(8)}\n" for _ in range(60)) for n in range(400)}
    write(workspace, {f"memory/g{n}.md": text for n, text in lines.items()})

    async def told() -> bool:
        return bool((await service.call("memory.status", {}))["status"] == "degraded")

    await eventually(told, within=60)
    assert "nugget7" in str(await service.excerpts("nugget7"))
    inside(service.process.pid, "mount", "-o", "remount,size=200m", str(state))
    write(workspace, {"memory/z.md": "later zebu\n"})

    async def healed() -> bool:
        status = await service.call("memory.status", {})
        return bool(status["status"] == "ready") and "zebu" in str(await service.excerpts("zebu"))

    await eventually(healed, within=90)
    files = (await service.call("memory.status", {}))["details"]["files"]
    assert files["indexed"] == files["onDisk"] == 441
    assert service.stop() == 0


@pytest.mark.parametrize("used_before", [False, True])
def test_a_state_that_may_not_be_written_is_refused_in_one_line(
    launcher: Any, workspace: Path, write: Any, used_before: bool
) -> None:
    state = launcher.directory / "state"
    state.mkdir(mode=0o700)
    write(workspace, {"MEMORY.md": "- one\n"})
    flags = ("--workspace", str(workspace), "--state-dir", str(state))
    if used_before:
        assert launcher.run("index", *flags).returncode == 0
    place = shlex.quote(str(state))
    mount = f"mount --bind {place} {place} && mount -o remount,ro,bind {place}"
    process = launcher.popen("serve", *flags, "--port", "0", prefix=in_a_namespace(mount, tried=mount))
    assert process.wait(30) == 2
    (line,) = launcher.log().splitlines()
    assert line.startswith("memory-sidecar: state directory")
    assert "Read-only file system" in line
    shutil.rmtree(state)

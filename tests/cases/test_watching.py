"""What changes on disk is noticed, also where the watch is lost (BR-05, BR-11, BR-13, BR-18)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OPEN_FILES = 256
NOTES, FOLDERS = 3000, 60


def found(service: Any, word: str) -> Any:
    async def check() -> bool:
        return any(word in text for text in await service.excerpts(word))

    return check


def lost(service: Any, word: str) -> Any:
    async def check() -> bool:
        return not any(word in text for text in await service.excerpts(word))

    return check


async def test_a_swapped_memory_folder_is_followed_and_status_never_calls_the_gap_clean(
    launcher: Any, workspace: Path, write: Any, words_only: Any, eventually: Any
) -> None:
    """BR-05 and BR-11, over one service: folders swapped, missing at start, removed whole and made again."""
    extra = workspace.parent / "extra"
    write(workspace, {"USER.md": "- Likes tea.\n"})
    config = launcher.directory / "watching.toml"
    config.write_text(f'[agents.main]\nworkspace = "{workspace}"\nextra_paths = ["{extra}"]\n')
    service = launcher.serve(None, "--config", str(config), environment=words_only)
    await service.ready()
    write(workspace, {"memory/a.md": "The zeppelin lands at noon.\n"})
    await eventually(found(service, "zeppelin"))
    write(extra, {"b.md": "The gondola is repaired.\n"})
    await eventually(found(service, "gondola"))
    (workspace / "memory").rename(workspace / "memory.old")
    write(workspace, {"memory/2026-05-06.md": "The submarine is in dock four.\n"})

    async def found_or_not_called_clean() -> bool:
        page = await service.search("submarine")
        if page["hits"]:
            return True
        files = (await service.call("memory.status", {}))["details"]["files"]
        behind = files["onDisk"] != files["indexed"] or files["pending"] > 0
        # What is told may be a scan old; never older than the bound of a scan.
        assert page["coverage"] == "complete" or page["warning"] or behind
        return False

    await eventually(found_or_not_called_clean)
    await eventually(lost(service, "zeppelin"))
    shutil.rmtree(workspace / "memory")
    await eventually(lost(service, "submarine"))
    write(workspace, {"memory/c.md": "The hovercraft waits.\n"})
    await eventually(found(service, "hovercraft"))
    assert service.stop() == 0


def handles(process: int) -> tuple[int, int]:
    """Open descriptors of a process, and its inotify watches."""
    watches = 0
    for described in list(Path(f"/proc/{process}/fdinfo").iterdir()):
        try:
            watches += described.read_text().count("inotify wd:")
        except FileNotFoundError:
            continue
    return len(list(Path(f"/proc/{process}/fd").iterdir())), watches


@pytest.mark.slow
async def test_open_files_stay_flat_over_searches_and_edits_and_watches_grow_with_folders_alone(
    launcher: Any, workspace: Path, write: Any, words_only: Any, eventually: Any
) -> None:
    """BR-13."""
    write(
        workspace,
        {f"memory/f{n % FOLDERS}/n{n}.md": f"Shelf {n} holds jar number{n}.\n" for n in range(NOTES)},
    )
    service = launcher.serve(workspace, environment=words_only)
    _, hard = resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (OPEN_FILES, hard))
    await eventually(found(service, "number2999"), within=60)
    await service.ready()
    await service.search("jar")
    before, _ = handles(service.process.pid)
    for number in range(100):
        write(workspace, {f"memory/f{number % FOLDERS}/n{number}.md": f"Edited shelf marker{number}x.\n"})
        await service.search(f"number{number}")
    await eventually(found(service, "marker99x"), within=60)
    after, watches = handles(service.process.pid)
    assert after <= before + 20
    assert after < 200
    assert watches <= FOLDERS + 10
    assert '"level":"error"' not in launcher.log()
    assert service.stop() == 0


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root to become another user")
async def test_an_unreadable_folder_is_kept_and_named_and_embeds_nothing_anew_when_it_is_back(
    launcher: Any, tmp_path: Path, write: Any, eventually: Any
) -> None:
    """BR-18, with the model in the process; status counts what is embedded."""
    root, extra = tmp_path / "shared", tmp_path / "extra"
    write(root, {f"memory/n{n}.md": f"The word nugget{n} stands here.\n" for n in range(200)})
    write(extra, {f"e{n}.md": f"An extra trinket{n} stands here.\n" for n in range(5)})
    for folder in (tmp_path, *tmp_path.parents, launcher.directory, *launcher.directory.parents):
        if folder.stat().st_uid == 0 and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    state = launcher.directory / "state"
    state.mkdir(mode=0o700)
    config = launcher.directory / "shared.toml"
    config.write_text(f'[agents.main]\nworkspace = "{root}"\nextra_paths = ["{extra}"]\n')
    for path in (state, launcher.home):
        shutil.chown(path, 65534, 65534)
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run(
        [*other, sys.executable, "-c", "import sidecar.runtime"], cwd="/", capture_output=True, check=False
    ).returncode:
        pytest.skip("another user cannot run this interpreter here")
    service = launcher.serve(None, "--config", str(config), state=state, prefix=other)
    await service.ready()
    embedded = (await service.call("memory.status", {}))["details"]["work"]["blocksEmbedded"]
    assert embedded >= 205
    for _ in range(2):
        await service.call("sidecar.refresh", {})
    details = (await service.call("memory.status", {}))["details"]
    assert (details["files"]["indexed"], details["work"]["blocksEmbedded"]) == (205, embedded)
    (root / "memory").chmod(0)

    async def named() -> bool:
        return "memory" in str((await service.call("memory.status", {}))["details"]["unreadable"])

    await eventually(named)
    for _ in range(3):
        await service.call("sidecar.refresh", {})
    details = (await service.call("memory.status", {}))["details"]
    assert details["files"]["indexed"] == 205, "what cannot be seen is kept"
    for n in range(5):
        assert f"trinket{n}" in str(await service.excerpts(f"trinket{n}"))
    page = await service.search("trinket3")
    assert any("trinket3" in hit["excerpt"] for hit in page["hits"])
    assert page["coverage"] == "partial"
    (root / "memory" / "n7.md").unlink()
    (root / "memory").chmod(0o755)
    await eventually(found(service, "nugget150"))
    await eventually(lost(service, "nugget7 "))
    await service.call("sidecar.refresh", {})
    details = (await service.call("memory.status", {}))["details"]
    assert details["files"]["indexed"] == 204
    assert details["work"]["blocksEmbedded"] == embedded
    assert service.stop() == 0


async def test_odd_files_stop_no_other_and_each_is_named_with_its_reason(
    launcher: Any, workspace: Path, write: Any, words_only: Any, eventually: Any
) -> None:
    """BR-61, and what else may lie in a folder: a device, a socket, names that differ in case alone."""
    write(workspace, {f"memory/good{n}.md": f"The word nugget{n} stands here.\n" for n in range(20)})
    memory = workspace / "memory"
    outside = workspace.parent / "outside.md"
    outside.write_text("a foreign secret\n")
    (workspace / "USER.md").symlink_to(outside)
    os.mkfifo(memory / "pipe.md")
    (memory / "dir.md").mkdir()
    (memory / "dangling.md").symlink_to(memory / "nowhere.md")
    (memory / "nul.md").write_bytes(b"\0" * 4096)
    write(workspace, {"memory/Twin.md": "The upper zebu.\n", "memory/twin.md": "The lower zebu.\n"})
    named = {"memory/" + "n" * 252 + ".md": "yak0", "memory/🦊 fox.md": "yak1", "memory/new\nline.md": "yak2"}
    write(workspace, {name: f"The named {word} grazes.\n" for name, word in named.items()})
    (memory / "broken.md").write_bytes(b"The broken yak3 \xff\xfe\x80 grazes.\n")
    (memory / "endless.md").write_text("yak4 " + "grazes on and on " * 20_000)
    (memory / "loop").symlink_to(memory)
    (memory / "self.md").symlink_to("self.md")
    listening = socket.socket(socket.AF_UNIX)
    with contextlib.chdir(memory):
        listening.bind("socket.md")
    listening.close()
    if os.geteuid() == 0:
        os.mknod(memory / "device.md", 0o600 | 0o020000, os.makedev(1, 5))
    over = asyncio.Event()

    async def make_and_delete() -> None:
        number = 0
        while not over.is_set():
            number += 1
            path = memory / f"brief{number % 7}.md"
            path.write_text("brief\n")
            path.unlink()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), 0.005)

    restless = asyncio.create_task(make_and_delete())
    service = launcher.serve(workspace, environment=words_only)
    try:
        for n in range(20):
            await eventually(found(service, f"nugget{n}"))
        texts = await service.excerpts("zebu")
        assert sorted(texts) == ["The lower zebu.", "The upper zebu."]
        for n in range(5):
            await eventually(found(service, f"yak{n}"))
        assert not await service.excerpts("foreign secret")
        details = (await service.call("memory.status", {}))["details"]
    finally:
        over.set()
        await restless
    reasons = {entry["path"]: entry["reason"] for entry in details["skipped"]}
    wanted = {
        "USER.md": "link",
        "memory/pipe.md": "pipe",
        "memory/dir.md": "folder",
        "memory/dangling.md": "link",
        "memory/loop": "link",
        "memory/self.md": "link",
        "memory/socket.md": "socket",
    }
    if os.geteuid() == 0:
        wanted["memory/device.md"] = "device"
    assert wanted.items() <= reasons.items()
    assert service.stop() == 0


async def test_a_workspace_that_goes_and_comes_back_is_kept_meanwhile_and_embedded_once(
    launcher: Any, workspace: Path, write: Any, eventually: Any
) -> None:
    """Removed and mounted again: nothing is served while it is away, nothing is made anew when it is back."""
    write(workspace, {f"memory/n{n}.md": f"The word nugget{n} stands here.\n" for n in range(20)})
    service = launcher.serve(workspace)
    await service.ready()
    embedded = (await service.call("memory.status", {}))["details"]["work"]["blocksEmbedded"]
    away = workspace.with_name("away")
    workspace.rename(away)

    async def gone_and_said() -> bool:
        page = await service.search("nugget3")
        return page["hits"] == [] and page["coverage"] == "partial"

    await eventually(gone_and_said)

    async def named() -> bool:
        return bool((await service.call("memory.status", {}))["details"]["unreadable"])

    await eventually(named)
    away.rename(workspace)
    await eventually(found(service, "nugget3"))
    assert (await service.call("memory.status", {}))["details"]["work"]["blocksEmbedded"] == embedded
    assert service.stop() == 0

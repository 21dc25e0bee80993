"""The workspace is never written (spec §1), also when the service could not write it if it tried."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest


def listing(root: Path) -> dict[str, tuple[object, ...]]:
    """Every entry below (and including) a folder: type, mode, size, mtime, inode, owner and content hash."""
    out: dict[str, tuple[object, ...]] = {}
    for path in [root, *sorted(root.rglob("*"))]:
        info = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(info.st_mode) else ""
        out[str(path.relative_to(root))] = (
            info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_uid, digest,
        )  # fmt: skip
    return out


async def use(service: Any) -> None:
    """Every call a user makes."""
    hits = (await service.search("lantern"))["hits"]
    assert hits
    await service.search_v1("porch")
    assert (await service.call("memory.get", {"reference": hits[0]["reference"]}))["status"] == "ok"
    await service.call("memory.status", {})
    await service.call("sidecar.refresh", {})
    await service.call("sidecar.refresh", {"rebuild": True})
    await service.call("sidecar.refresh", {"purge": True})


async def test_serving_searching_and_rebuilding_leave_every_byte_time_and_mode_as_it_was(
    launcher: Any, workspace: Path, write: Any
) -> None:
    write(
        workspace,
        {"MEMORY.md": "- The lantern hangs in the porch.\n", "memory/x/y.md": "# Y\n\nlantern oil\n"},
    )
    before = listing(workspace)
    service = launcher.serve(workspace)
    await service.ready()
    await use(service)
    assert service.stop() == 0
    assert listing(workspace) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root to become another user")
async def test_an_unprivileged_user_that_may_only_read_is_served_the_same(
    launcher: Any, tmp_path: Path, write: Any
) -> None:
    for directory in (tmp_path, *tmp_path.parents):
        if directory.stat().st_uid == 0 and directory != Path("/"):
            directory.chmod(directory.stat().st_mode | 0o011)
    root = tmp_path / "readable"
    write(root, {"MEMORY.md": "- The lantern hangs in the porch.\n", "memory/x/y.md": "# Y\n\nlantern oil\n"})
    for path in [root, *root.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    launcher.directory.chmod(0o755)
    for parent in launcher.directory.parents:
        if parent.stat().st_uid == 0 and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    state = launcher.directory / "state"
    state.mkdir(mode=0o700)
    shutil.chown(state, 65534, 65534)
    shutil.chown(launcher.home, 65534, 65534)
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    able = subprocess.run(
        [*other, sys.executable, "-c", "import sidecar.runtime"], cwd="/", capture_output=True, check=False
    )
    if able.returncode != 0:
        pytest.skip("another user cannot run this interpreter here")
    refused = subprocess.run(
        [*other, sys.executable, "-c", f"open({str(root / 'MEMORY.md')!r}, 'a')"],
        capture_output=True,
        check=False,
    )
    assert b"PermissionError" in refused.stderr, (
        "this user must be refused the write for the test to mean anything"
    )
    before = listing(root)
    service = launcher.serve(root, state=state, prefix=other)
    await service.ready()
    await use(service)
    assert service.stop() == 0
    assert listing(root) == before


@pytest.mark.slow
async def test_a_minute_of_searches_and_rebuilds_changes_nothing(
    launcher: Any, workspace: Path, write: Any
) -> None:
    write(workspace, {f"memory/{n}.md": f"- lantern number {n}\n" for n in range(50)})
    service = launcher.serve(workspace)
    await service.ready()
    before = listing(workspace)
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        await use(service)
    assert service.stop() == 0
    assert listing(workspace) == before

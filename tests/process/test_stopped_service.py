"""A service that hangs is told within seconds, whatever was asked of it (spec §2)."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("command", [("status",), ("search", "boiler"), ("index",)])
def test_a_command_beside_a_stopped_service_says_so_within_seconds(
    launcher: Any, workspace: Path, command: tuple[str, ...]
) -> None:
    service = launcher.serve(workspace)
    service.process.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        done = launcher.run(*command, "--workspace", str(workspace), "--state-dir", str(service.state))
        took = time.monotonic() - began
    finally:
        service.process.send_signal(signal.SIGCONT)
    assert done.returncode == 2
    assert "did not answer in time" in done.stdout + done.stderr
    if command == ("status",):
        number = service.process.pid
        assert f"-> end process {number} and start the service again" in done.stdout
    assert took < 15
    assert service.stop() == 0

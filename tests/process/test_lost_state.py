"""The state directory may be deleted at any time, also under a running service (spec §1)."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def whole(state: Path) -> None:
    shutil.rmtree(state)


def moved(state: Path) -> None:
    state.rename(state.with_name("elsewhere"))


def index_alone(state: Path) -> None:
    shutil.rmtree(state / "main")


def socket_alone(state: Path) -> None:
    (state / "sidecar.sock").unlink()


def lock_alone(state: Path) -> None:
    (state / "sidecar.lock").unlink()


@pytest.mark.slow
@pytest.mark.parametrize("take_away", [whole, moved, index_alone, socket_alone, lock_alone])
async def test_a_state_that_is_taken_away_under_a_service_is_made_anew_and_told(
    launcher: Any, workspace: Path, write: Any, eventually: Any, take_away: Callable[[Path], None]
) -> None:
    write(workspace, {"MEMORY.md": "- The lantern hangs in the porch.\n"})
    service = launcher.serve(workspace)
    await service.ready()
    flags = ("--workspace", str(workspace), "--state-dir", str(service.state))
    take_away(service.state)

    async def serves_again() -> bool:
        token = service.state / "operator.token"
        if not token.exists() or not (service.state / "sidecar.sock").exists():
            return False
        service.operator_token = token.read_text().strip()
        try:
            details = (await service.call("memory.status", {}))["details"]
        except (AssertionError, OSError):
            return False
        return "taken away" in str(details["index"]["repairs"])

    await eventually(serves_again)
    await service.ready()
    assert "lantern" in str(await service.excerpts("lantern"))
    write(workspace, {"memory/a.md": "The zeppelin lands at noon.\n"})

    async def found() -> bool:
        return "zeppelin" in str(await service.excerpts("zeppelin"))

    await eventually(found)
    second = launcher.run("serve", *flags, "--port", "0")
    assert (second.returncode, second.stdout) == (2, "")
    assert f"already in use by process {service.process.pid}" in second.stderr
    asked = launcher.run("search", "zeppelin", *flags)
    assert (asked.returncode, "zeppelin" in asked.stdout) == (0, True)
    diagnosed = launcher.run("doctor", *flags)
    assert f"process {service.process.pid} answers" in diagnosed.stdout
    assert "was taken away" in launcher.run("status", *flags).stdout
    assert service.stop() == 0
    assert "Traceback" not in launcher.log()


@pytest.mark.slow
async def test_a_state_that_another_service_took_over_ends_the_first_with_one_clear_line(
    launcher: Any, workspace: Path, write: Any
) -> None:
    write(workspace, {"MEMORY.md": "- The lantern hangs in the porch.\n"})
    first = launcher.serve(workspace)
    await first.ready()
    first.process.send_signal(signal.SIGSTOP)  # so that the second one is surely quicker
    shutil.rmtree(first.state)
    second = launcher.serve(workspace)
    first.process.send_signal(signal.SIGCONT)
    assert first.process.wait(20) == 2
    ends = [line for line in launcher.log().splitlines() if line.startswith("memory-sidecar: ")]
    assert len(ends) == 1
    assert f"already in use by process {second.process.pid}" in ends[0]
    await second.ready()
    assert "lantern" in str(await second.excerpts("lantern"))
    assert (
        launcher.run("status", "--workspace", str(workspace), "--state-dir", str(second.state)).returncode
        == 0
    )
    assert second.stop() == 0

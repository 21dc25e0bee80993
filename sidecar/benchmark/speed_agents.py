"""Many small agents in one service against one agent with all their notes."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from sidecar.benchmark.serving import configured_process, own_process
from sidecar.benchmark.speed import wait_idle, wait_ready
from sidecar.benchmark.speed_load import Connection, cpu_seconds, resident_mb
from sidecar.benchmark.speed_notes import write_notes
from sidecar.benchmark.speed_rows import Row, Rows


async def measure_agents(agents: int, notes: int, seed: int) -> list[Row]:
    """Index time and memory of `agents` agents of `notes` notes each, beside one agent with all of them."""
    rows = Rows(agents * notes, label=f"{agents} agents of {notes} notes")
    with tempfile.TemporaryDirectory(prefix="memory-sidecar-agents-") as directory:
        base = Path(directory)
        workspaces = {f"agent{number}": base / "workspaces" / str(number) for number in range(agents)}
        for number, workspace in enumerate(workspaces.values()):
            await asyncio.to_thread(write_notes, workspace, notes, seed + number)
        one_time, one_cpu, one_memory = await _of_one(base, agents * notes, seed)
        config = base / "config.toml"
        config.write_text(_configuration(workspaces), encoding="utf-8")
        began = time.perf_counter()
        async with configured_process(config, base / "state-many") as own:
            many_time, many_cpu, many_memory = await asyncio.to_thread(
                _indexed, own.url, own.secret, own.process.pid, began
            )
        rows.seconds("first index of all agents", many_time, floor=one_time, cpu=many_cpu)
        rows.amount("resident with all agents", many_memory, "MB", floor=one_memory)
        rows.seconds("first index of one agent with all notes", one_time, cpu=one_cpu)
        rows.amount("resident with one agent", one_memory, "MB")
    return rows.found


async def _of_one(base: Path, notes: int, seed: int) -> tuple[float, float, float]:
    workspace = base / "workspace-one"
    await asyncio.to_thread(write_notes, workspace, notes, seed)
    began = time.perf_counter()
    async with own_process(workspace, base / "state-one") as own:
        return await asyncio.to_thread(_indexed, own.url, own.secret, own.process.pid, began)


def _indexed(url: str, secret: str, pid: int, began: float) -> tuple[float, float, float]:
    """Seconds until all is indexed, CPU seconds of that, and MB resident at rest afterwards."""
    connection = Connection(url, secret)
    wait_ready(connection)
    seconds, cpu = time.perf_counter() - began, cpu_seconds(pid)
    wait_idle(pid)
    connection.close()
    return seconds, cpu, resident_mb(pid)


def _configuration(workspaces: Mapping[str, Path]) -> str:
    agents = [
        f'[agents.{name}]\nworkspace = "{workspace}"\n{"default = true" if not number else ""}\n'
        for number, (name, workspace) in enumerate(workspaces.items())
    ]
    return "\n".join(agents)

"""A published OpenAI-compatible server (LitServe, as `examples/embeddings` runs it) behind a running service.

It has an environment of its own, made by `.ci/run`: set EMBEDDINGS_PYTHON to use another.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
VARIABLE = "EMBEDDINGS_PYTHON"
NOTES = {
    "MEMORY.md": "# Memory\n\n- The spare garage opener is in the blue tin.\n",
    "memory/fruit.md": "A ripe banana and a pear for the children.\n",
    "memory/harbour.md": "The ship leaves the harbour at dawn.\n",
}


def python() -> str:
    """The interpreter of the server's environment; without one the test is skipped, in CI it fails."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        assert Path(named).exists(), f"{VARIABLE}={named} is not there"
        return named
    default = REPOSITORY / ".venv-embeddings" / "bin" / "python"
    if not default.exists():
        pytest.skip(f"no embedding server: set {VARIABLE}, or install one as .ci/run does")
    return str(default)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def started(port: int, log: Path) -> subprocess.Popen[bytes]:
    """The example server in a process group of its own."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [python(), str(REPOSITORY / "examples" / "embeddings" / "server.py"), "--port", str(port)],
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=log.parent,
        )


@asynccontextmanager
async def running(port: int, log: Path, eventually: Any) -> AsyncIterator[None]:
    """The example server on a port, until the block ends."""
    process = started(port, log)
    try:

        async def is_up() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                async with (
                    aiohttp.ClientSession() as session,
                    session.get(f"http://127.0.0.1:{port}/health") as response,
                ):
                    return response.status == 200
            except aiohttp.ClientError:
                return False

        await eventually(is_up, within=60, pause=0.2)
        yield
    finally:
        # It has workers: the whole group that was started here ends.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def word(service: Any) -> str:
    return str((await service.call("memory.status", {}))["status"])


async def test_a_published_server_gives_meaning_and_its_absence_costs_nothing_else(
    launcher: Any, workspace: Path, write: Any, eventually: Any, tmp_path: Path
) -> None:
    write(workspace, NOTES)
    port, log = free_port(), tmp_path / "server.log"
    environment = {
        "MEMORY_SIDECAR_EMBEDDINGS_PROVIDER": "openai-compatible",
        "MEMORY_SIDECAR_EMBEDDINGS_BASE_URL": f"http://127.0.0.1:{port}/v1",
        "MEMORY_SIDECAR_EMBEDDINGS_MODEL": "wordllama",
    }
    flags = ("--workspace", str(workspace), "--port", "0", "--state-dir", str(launcher.directory / "state"))
    async with running(port, log, eventually):
        service = await asyncio.to_thread(launcher.serve, workspace, environment=environment)

        async def is_ready() -> bool:
            return await word(service) == "ready"

        await eventually(is_ready, within=60)
        embeddings = (await service.call("memory.status", {}))["details"]["embeddings"]
        assert (embeddings["dimensions"], embeddings["searchMode"], embeddings["pending"]) == (
            256,
            "hybrid",
            0,
        )
        # No word of it stands in any note, so only meaning can put them in order.
        page = await service.search("boats and vessels", minScore=0.01)
        assert page["coverage"] == "complete"
        assert page["hits"][0]["reference"]["id"] == "memory/harbour.md"
        done = await asyncio.to_thread(launcher.run, "doctor", *flags, environment=environment)
        assert "model wordllama answers (256 dimensions)" in done.stdout

    for query in ("where is the garage opener?", "who has the garage opener?"):
        page = await service.search(query)
        assert page["hits"][0]["reference"]["id"] == "MEMORY.md"
        assert page["coverage"] == "partial"
    status = await asyncio.to_thread(launcher.run, "status", *flags[:2], *flags[4:], environment=environment)
    assert status.returncode == 1
    assert "-> memory-sidecar doctor asks the endpoint and says what is wrong" in status.stdout
    done = await asyncio.to_thread(launcher.run, "doctor", *flags, environment=environment)
    assert done.returncode == 2
    assert "-> start the endpoint, or correct [embeddings]" in done.stdout

    async with running(port, log, eventually):

        async def is_whole() -> bool:
            return (await service.search("boats and vessels"))["coverage"] == "complete"

        await eventually(is_whole, within=60, pause=0.2)
    assert await asyncio.to_thread(service.stop) == 0

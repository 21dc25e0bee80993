"""The program may be replaced under a running service, as `pip install` of another version does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest

NOTES = 150
PLACES = "import sidecar, sidecar.adapters as a; print(sidecar.__path__[0]); print(a.__path__[0])"


@pytest.fixture
def program(launcher: Any, tmp_path: Path) -> Path:
    """A copy of the installed package, which a test may replace."""
    python = launcher.python
    done = subprocess.run([python, "-c", PLACES], cwd="/", capture_output=True, text=True, check=True)
    package, adapters = map(Path, done.stdout.split("\n")[:2])
    copy = tmp_path / "program" / "sidecar"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, copy, ignore=ignored)
    shutil.copytree(adapters, copy / "adapters", ignore=ignored, dirs_exist_ok=True)
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("files", ["replaced", "removed"])
async def test_a_service_goes_on_when_its_program_is_replaced_and_says_that_it_wants_a_restart(
    launcher: Any, workspace: Path, write: Any, eventually: Any, program: Path, files: str
) -> None:
    write(workspace, {"MEMORY.md": "- The lantern hangs in the porch.\n"})
    service = launcher.serve(workspace, environment={"PYTHONPATH": str(program.parent)})
    await service.ready()
    if files == "removed":
        shutil.rmtree(program)
    else:
        for path in program.rglob("*.py"):
            path.unlink()
            path.write_text("raise ImportError('of another version')\n")
    write(workspace, {f"memory/n{n}.md": f"Shelf {n} holds jar number{n}.\n" for n in range(NOTES)})

    async def found() -> bool:
        return f"number{NOTES - 1}" in str(await service.excerpts(f"number{NOTES - 1}"))

    await eventually(found)
    hit = (await service.search("lantern"))["hits"][0]
    assert (await service.call("memory.get", {"reference": hit["reference"]}))["status"] == "ok"
    assert (await service.call("memory.status", {}))["status"] == "ready"
    await service.call("sidecar.refresh", {"rebuild": True})
    assert await found()
    async with aiohttp.ClientSession() as session:
        for route in ("/", "/metrics", "/openapi.json", "/readyz", "/healthz"):
            async with session.get(service.url + route, headers=service.headers()) as response:
                assert response.status == 200, route
        async with session.ws_connect(service.url + "/ws", headers=service.headers()) as socket:
            assert not socket.closed
    assert service.stop() == 0
    assert "the program was replaced; restart the service" in launcher.log()
    assert "Traceback" not in launcher.log()

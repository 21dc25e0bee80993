"""Shared by all tests: a real service in a process of its own, on loopback, over real files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, settings

# Shared and slow machines make example times meaningless: no deadline, and a slow start is no failure.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("default")

DEADLINE = 20.0
# Where the service is installed; CI names an environment that holds nothing but the built wheel.
PYTHON = os.environ.get("SERVICE_PYTHON", sys.executable)
READY = re.compile(r"memory-sidecar ready on (http://127\.0\.0\.1:(\d+))\n\Z")


def clean_environment(home: Path) -> dict[str, str]:
    """The environment without anything that configures the service, and with a home of its own."""
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("MEMORY_SIDECAR_", "XDG_"))
    }
    return kept | {"HOME": str(home)}


class Service:
    """A running `memory-sidecar serve` and how to talk to it."""

    def __init__(self, process: subprocess.Popen[str], url: str, *, state: Path, home: Path) -> None:
        self.process = process
        self.url = url
        self.state = state
        self.home = home
        self.operator_token = self._token("operator")
        self.host_token = self._token("host")

    def _token(self, role: str) -> str:
        path = self.state / f"{role}.token"
        return path.read_text().strip() if path.exists() else ""

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def headers(self, token: str | None = None) -> dict[str, str]:
        return {"Authorization": f"Bearer {token or self.operator_token}"}

    async def post(
        self, route: str, body: object, *, headers: dict[str, str] | None = None, token: str | None = None
    ) -> tuple[int, Any]:
        """Status and decoded body of a POST with a JSON body."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                self.url + route,
                data=body if isinstance(body, bytes) else json.dumps(body).encode(),
                headers={"Content-Type": "application/json", **self.headers(token), **(headers or {})},
            ) as response,
        ):
            return response.status, await response.json()

    async def call(self, method: str, params: object) -> Any:
        """The payload of a call that must succeed."""
        status, frame = await self.post(f"/rpc/{method}", params)
        assert status == 200, frame
        assert frame["ok"] is True
        return frame["payload"]

    async def error(self, method: str, params: object) -> tuple[int, Any]:
        """Status and error object of a call that must fail."""
        status, frame = await self.post(f"/rpc/{method}", params)
        assert frame["ok"] is False, frame
        return status, frame["error"]

    async def search(self, query: str, **params: object) -> Any:
        """A v2 search."""
        return await self.call("memory.search", {"version": 2, "query": query, **params})

    async def search_v1(self, query: str, **params: object) -> Any:
        """A v1 search."""
        return await self.call("memory.search", {"query": query, **params})

    async def excerpts(self, query: str, **params: object) -> list[str]:
        """The excerpts of a v2 search."""
        return [hit["excerpt"] for hit in (await self.search(query, **params))["hits"]]

    async def ready(self) -> None:
        """Wait until the first scan is indexed."""

        async def check() -> bool:
            async with (
                aiohttp.ClientSession() as session,
                session.get(self.url + "/readyz", headers=self.headers()) as response,
            ):
                return response.status == 200

        await eventually(check)

    def stop(self) -> int:
        """End it with SIGTERM; gives the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=15)


class Launcher:
    """Starts services and command lines with state and home of their own, and ends what it started."""

    python = PYTHON

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = directory / "home"
        self.home.mkdir()
        self._started: list[subprocess.Popen[str]] = []

    def popen(
        self, *arguments: str, prefix: Sequence[str] = (), environment: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        with (self.directory / "service.log").open("a") as log:
            process = subprocess.Popen(
                [*prefix, PYTHON, "-m", "sidecar", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=clean_environment(self.home) | (environment or {}),
                cwd=self.home,
            )
        self._started.append(process)
        return process

    def serve(
        self,
        workspace: Path | None = None,
        *arguments: str,
        state: Path | None = None,
        prefix: Sequence[str] = (),
        environment: dict[str, str] | None = None,
    ) -> Service:
        """A service that has printed its ready line."""
        state = state or self.directory / "state"
        named = ["--workspace", str(workspace)] if workspace is not None else []
        process = self.popen(
            "serve",
            *named,
            "--state-dir",
            str(state),
            "--port",
            "0",
            *arguments,
            prefix=prefix,
            environment=environment,
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        match = READY.match(line)
        assert match is not None, f"no ready line but {line!r}; log:\n{self.log()}"
        return Service(process, match[1], state=state, home=self.home)

    def run(
        self,
        *arguments: str,
        environment: dict[str, str] | None = None,
        timeout: float = 60,
        module: str = "sidecar",
    ) -> subprocess.CompletedProcess[str]:
        """A command line run to its end."""
        return subprocess.run(
            [PYTHON, "-m", module, *arguments],
            capture_output=True,
            text=True,
            env=clean_environment(self.home) | (environment or {}),
            cwd=self.home,
            timeout=timeout,
            check=False,
        )

    def log(self) -> str:
        path = self.directory / "service.log"
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    started = Launcher(tmp_path_factory.mktemp("run"))
    with contextlib.closing(started):
        yield started


@pytest.fixture(scope="module")
def shared_launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """A launcher whose services live as long as the tests of one file, which must not disturb each other."""
    started = Launcher(tmp_path_factory.mktemp("shared"))
    with contextlib.closing(started):
        yield started


@pytest.fixture(scope="session")
def session_launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """A launcher whose services live as long as the whole run, for tests that only add to what is there."""
    started = Launcher(tmp_path_factory.mktemp("session"))
    with contextlib.closing(started):
        yield started


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty workspace."""
    directory = tmp_path / "workspace"
    directory.mkdir()
    return directory


def write(directory: Path, files: dict[str, str]) -> None:
    """Write notes below a workspace."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


async def eventually(
    condition: Callable[[], Awaitable[bool]], *, within: float = DEADLINE, pause: float = 0.02
) -> float:
    """Wait until an async condition holds; gives the seconds it took and fails after `within`."""
    began = time.monotonic()
    while not await condition():
        assert time.monotonic() - began < within, f"condition not met within {within} s"
        await asyncio.sleep(pause)
    return time.monotonic() - began


@pytest.fixture(name="write")
def _write() -> Callable[[Path, dict[str, str]], None]:
    return write


@pytest.fixture(name="eventually")
def _eventually() -> Callable[..., Awaitable[float]]:
    return eventually


EXAMPLE_NOTES = {
    "MEMORY.md": "# Memory\n\n- The spare garage opener is in the blue tin.\n- Tea before ten.\n",
    "memory/2026-03-04.md": "# Boiler\n\nBoiler serviced by Halden and Sons, next visit October.\n",
    "memory/handbook.md": "# Handbook\n\n## Heating\n\nTurn the valve under the stairs.\n\n"
    "## Water\n\nThe main tap is outside.\n",
}


@pytest.fixture
async def example(launcher: Launcher, workspace: Path) -> AsyncIterator[Service]:
    """A service over a small workspace, fully indexed."""
    write(workspace, EXAMPLE_NOTES)
    service = launcher.serve(workspace)
    await service.ready()
    yield service
    assert service.stop() == 0


@pytest.fixture(scope="module")
def shared_example(shared_launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """As `example`, for all tests of one file, which leave it as it is."""
    workspace = tmp_path_factory.mktemp("workspace")
    write(workspace, EXAMPLE_NOTES)
    service = shared_launcher.serve(workspace)
    asyncio.run(service.ready())
    yield service
    assert service.stop() == 0

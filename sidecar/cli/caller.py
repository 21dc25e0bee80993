"""Who answers a command: the running service of this state directory, or else the index itself (spec §2)."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol, cast

from sidecar.domain.errors import SettingsError
from sidecar.settings.load import Loaded
from sidecar.settings.model import AgentSettings
from sidecar.settings.tokens import client_secret

if TYPE_CHECKING:
    from sidecar.client import SidecarClient

Payload = dict[str, object]
Progress = Callable[[int, int], None]


class Caller(Protocol):
    """Answers a method with its payload or raises from the error tree."""

    async def call(self, method: str, params: Mapping[str, object]) -> Payload:
        """The payload of `method`."""
        ...


class Runtime(Protocol):
    """What the command line needs of `sidecar.runtime`."""

    def serve(self, loaded: Loaded) -> int:
        """Run the service until it is told to stop; the exit code."""
        ...

    def index(
        self, loaded: Loaded, *, rebuild: bool, purge: bool, progress: Progress
    ) -> Awaitable[Sequence[Mapping[str, object]]]:
        """Scan `loaded.agent`, or every agent, to completion: one mapping an agent, as `sidecar.refresh`."""
        ...

    def open_local(self, loaded: Loaded, *, follow: bool) -> AbstractAsyncContextManager[Caller]:
        """A caller on the index itself, kept up to date with `follow`; `StateError` when it is in use."""
        ...


def runtime() -> Runtime:
    """The runtime, imported only now: it brings the engines with it, which most commands never need."""
    return cast(Runtime, importlib.import_module("sidecar.runtime"))


@asynccontextmanager
async def running_service(loaded: Loaded) -> AsyncIterator[SidecarClient | None]:
    """A client of the service that runs on this state directory, or None."""
    from sidecar.client import discover

    settings = loaded.settings
    client = await discover(settings.state_dir, lambda: client_secret(settings, agent=loaded.agent))
    if client is None:
        yield None
        return
    async with client:
        await client.require_alive()
        yield client


@asynccontextmanager
async def open_caller(loaded: Loaded, *, follow: bool = False) -> AsyncIterator[Caller]:
    """The running service where there is one, else the index itself, closed again at the end.

    `follow` is for commands that stay: the index is then kept up to date.
    """
    async with running_service(loaded) as service:
        if service is not None:
            yield service
            return
    async with runtime().open_local(loaded, follow=follow) as local:
        yield local


def chosen_agent(loaded: Loaded) -> AgentSettings:
    """The one agent that a command is about; raises `SettingsError` when several are configured."""
    settings = loaded.settings
    if settings.default_agent is None:
        raise SettingsError(f"--agent is required, configured agents are {', '.join(settings.agents)}")
    return settings.agents[settings.default_agent]


def chosen_agents(loaded: Loaded) -> tuple[str, ...]:
    """The agents that a command about all of them covers: the one asked for, or every one."""
    return (loaded.agent,) if loaded.agent is not None else tuple(loaded.settings.agents)

"""What the command line runs: `serve`, `index`, and a caller on the index itself (spec §2)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from sidecar import logs
from sidecar.runtime.agent import AgentRuntime
from sidecar.runtime.allocator import collect_seldom, keep_little
from sidecar.runtime.process import LocalCaller, Sidecar
from sidecar.settings.load import Loaded

log = logging.getLogger(__name__)

STATE_LOST = "the state directory was taken away while the service ran; everything in it was made anew"
STOP_SECONDS = 4.5
"""After so long a stop ends the process as it is: a start repairs that as it repairs a kill (spec §2, §7)."""


def serve(loaded: Loaded) -> int:
    """Run the service until SIGTERM or SIGINT; 0 when it ended as asked.

    Prints the one ready line to stdout once requests are answered.
    """
    keep_little()
    collect_seldom()
    logs.configure(loaded.log_level or "info")
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(loaded))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(loaded: Loaded) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if not stopping.is_set():
            stopping.set()
            _end_within(STOP_SECONDS)

    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop)
    repairs: tuple[str, ...] = ()
    while not stopping.is_set():
        async with Sidecar(loaded, repairs=repairs) as sidecar:
            if stopping.is_set():
                break
            port = await sidecar.listen()
            if not repairs:
                sys.stdout.write(f"memory-sidecar ready on http://{_shown_host(loaded)}:{port}\n")
                sys.stdout.flush()
            await _either(stopping, sidecar.lost)
        repairs = (STATE_LOST,)
        loaded = msgspec.structs.replace(loaded, settings=msgspec.structs.replace(loaded.settings, port=port))
    return 0


async def _either(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()


def _end_within(seconds: float) -> None:
    """See to it that the process ends by then, whatever a thread or a library is busy with."""

    def end() -> None:
        log.warning("the stop took too long and was cut short; the next start completes what was under way")
        os._exit(0)

    last = threading.Timer(seconds, end)
    last.daemon = True
    last.start()


def _shown_host(loaded: Loaded) -> str:
    host = loaded.settings.host
    return f"[{host}]" if ":" in host else host


async def index(
    loaded: Loaded, *, rebuild: bool, purge: bool, progress: Callable[[int, int], None]
) -> Sequence[Mapping[str, object]]:
    """One scan to completion of the asked or of every agent: one mapping an agent, as `sidecar.refresh`."""
    keep_little()
    async with Sidecar(loaded, only=loaded.agent) as sidecar:
        return [
            {"agentId": agent_id, **await agent.refresh(rebuild=rebuild, purge=purge, progress=progress)}
            for agent_id, agent in sidecar.agents.items()
        ]


@asynccontextmanager
async def open_local(loaded: Loaded, *, follow: bool = False) -> AsyncIterator[LocalCaller]:
    """A caller on the agents themselves, their index up to date; raises `StateError` when it is in use.

    With `follow` it stays up to date for as long as it is open.
    """
    agent_id = loaded.settings.default_agent
    async with Sidecar(loaded, only=agent_id) as sidecar:
        for agent in sidecar.agents.values():
            if isinstance(agent, AgentRuntime):
                await agent.refresh(vectors=False)
            if follow:
                agent.start()
        yield LocalCaller(sidecar)

"""The whole service: state directory, tokens, agents, dispatcher, server (spec §2)."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from sidecar.api.app import build_app
from sidecar.api.audit_methods import AuditMethods
from sidecar.api.caller_methods import CallerMethods
from sidecar.api.counters import Counters
from sidecar.api.dispatch import Call, Dispatcher
from sidecar.api.door import Door
from sidecar.api.host_methods import ProviderMethods
from sidecar.api.manager_methods import ManagerMethods
from sidecar.api.memory_methods import MemoryMethods
from sidecar.api.metrics import AgentFigures, Figures
from sidecar.api.server import Server
from sidecar.api.session_methods import SessionMethods
from sidecar.api.websocket import Sockets
from sidecar.domain.authority import Bearer, CallerContext, Operator, Principal
from sidecar.domain.errors import StateError
from sidecar.embedding.guarded import GuardedEmbedder
from sidecar.host.sessions import HostSessions
from sidecar.policy.access import READ_SCOPE
from sidecar.policy.roster import visible_agents
from sidecar.policy.transcripts import authoriser
from sidecar.runtime.agent import AgentRuntime, transcript_rules
from sidecar.runtime.embedders import make_embedder
from sidecar.runtime.foreign import ForeignAgent
from sidecar.runtime.stalls import StallMonitor
from sidecar.service.audit import Audit
from sidecar.service.leases import Leases
from sidecar.service.offload import Offload
from sidecar.service.preparing import Preparers
from sidecar.service.workspace import TranscriptAccess
from sidecar.settings.load import Loaded
from sidecar.settings.model import AgentSettings, watched_roots
from sidecar.settings.state import SOCKET_NAME, Endpoint, StateDirectory
from sidecar.settings.tokens import TokenStore
from sidecar.wire.rules import Params

log = logging.getLogger(__name__)

ROTATION_SECONDS = 2.0
STATE_SECONDS = 1.0
"""How often is looked whether the state directory is still in its place."""
CALL_SECONDS = 2.5
"""What calls in work get at a stop; the rest of the five seconds is for answering and persisting."""
LOCAL_PRINCIPAL = Principal(name="command-line", role="operator", scopes=(READ_SCOPE,))
LOCAL_BEARER = Bearer(principal=LOCAL_PRINCIPAL, key=LOCAL_PRINCIPAL.name, holds=lambda: True)


class Sidecar:
    """All parts over one state directory, which is locked while this is open."""

    def __init__(self, loaded: Loaded, *, only: str | None = None, repairs: tuple[str, ...] = ()) -> None:
        """`only` narrows the agents to one, for commands about a single agent.

        `repairs` is what status says was mended before this was opened.
        """
        self._loaded = loaded
        self._repairs = repairs
        self.lost = asyncio.Event()
        """Set when the state directory was taken away under us: only opening anew helps."""
        self._settings = loaded.settings
        self._only = only
        self._stack = AsyncExitStack()
        self._state: StateDirectory | None = None
        self._embedder: GuardedEmbedder | None = None
        self.agents: dict[str, AgentRuntime | ForeignAgent] = {}
        self._counters = Counters()
        self._stalls = StallMonitor()
        self._audit = Audit()
        self.sessions = HostSessions(
            agent_id for agent_id in self._settings.agents if only is None or agent_id == only
        )
        self.leases = Leases(audiences=self.sessions)
        self.dispatcher = Dispatcher({}, audit=self._audit)

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _open(self) -> None:
        settings = self._settings
        chosen = [a for a in settings.agents.values() if self._only is None or a.id == self._only]
        roots = watched_roots(settings, home=Path.home())
        self._state = StateDirectory.open(settings.state_dir, roots=roots, agents=settings.agents)
        self._stack.enter_context(self._state.lock())
        offload = Offload()
        self._stack.callback(offload.close)
        preparers = Preparers()
        self._stack.callback(preparers.close)
        self._embedder = embedder = make_embedder(settings.embeddings, os.environ)
        if embedder is not None:
            self._stack.push_async_callback(embedder.close)
        for agent in chosen:
            runtime = await self._open_agent(agent, self._state, embedder, offload, preparers)
            self._stack.push_async_callback(runtime.close)
            self.agents[agent.id] = runtime
        default = settings.default_agent if settings.default_agent in self.agents else None
        self._stack.push_async_callback(self.leases.aclose)
        instance = secrets.token_hex(16)
        self.dispatcher = Dispatcher(
            {
                **MemoryMethods(self.agents, default).table(),
                **CallerMethods(self.agents, default, instance=instance).table(),
                **AuditMethods(audit=self._audit, agents=self.agents).table(),
                **ManagerMethods(self.agents, default, audit=self._audit).table(),
                **ProviderMethods(self.agents, self.leases).table(),
                **SessionMethods(agents=self.agents, sessions=self.sessions, audit=self._audit).table(),
            },
            counters=self._counters,
            instance=instance,
            audit=self._audit,
        )

    async def _open_agent(
        self,
        agent: AgentSettings,
        state: StateDirectory,
        embedder: GuardedEmbedder | None,
        offload: Offload,
        preparers: Preparers,
    ) -> AgentRuntime | ForeignAgent:
        if not agent.reads_files:
            return await ForeignAgent.open(agent, self._loaded, self._audit)
        return await AgentRuntime.open(
            agent,
            directory=state.agent_directory(agent.id),
            watch=self._settings.watch,
            embeddings=self._settings.embeddings,
            embedder=embedder,
            offload=offload,
            preparers=preparers,
            audit=self._audit,
            recorded_origin=self.sessions.origins(agent.id).of,
            transcripts=self._transcripts_of(agent),
            rows=partial(self.sessions.rows, agent.id),
            repairs=self._repairs,
        )

    def _transcripts_of(self, agent: AgentSettings) -> TranscriptAccess:
        """Each caller's view of an agent's transcripts, over the session rows of the moment (spec §5.4)."""
        rules = transcript_rules(agent)
        return lambda authority: authoriser(
            authority, agent.id, rows=self.sessions.rows(agent.id), rules=rules
        )

    async def listen(self) -> int:
        """Follow the workspaces and answer on both listeners; gives the TCP port."""
        settings, state = self._settings, self._state
        if state is None:
            raise StateError("the service is not open")
        tokens = TokenStore.open(settings, state.path)
        door = Door(
            match=tokens.match,
            allowed_hosts=settings.allowed_hosts,
            allowed_origins=settings.allowed_origins,
            counters=self._counters,
            audit=self._audit,
        )
        sockets = Sockets(door=door, dispatcher=self.dispatcher)
        app = build_app(
            door=door,
            dispatcher=self.dispatcher,
            readiness=self._readiness,
            sockets=sockets,
            figures=self._figures,
        )
        server = Server(app, wind_down=sockets.wind_down)
        self._stack.push_async_callback(server.stop)
        address = state.socket_address()
        self._stack.callback(address.close)
        try:
            port = await server.start(host=settings.host, port=settings.port, socket_path=address.path)
        except OSError as error:
            raise StateError(
                f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; pass another --port"
            ) from error
        state.keep(SOCKET_NAME)
        state.write_endpoint(Endpoint(host=settings.host, port=port, pid=os.getpid()))
        self._stack.callback(state.clear_endpoint)
        rotation = asyncio.create_task(self._rotate(tokens, sockets), name="token rotation")
        self._stack.push_async_callback(_cancelled, rotation)
        guard = asyncio.create_task(self._guard(state), name="state guard")
        self._stack.push_async_callback(_cancelled, guard)
        stalls = asyncio.create_task(self._stalls.run(), name="stall monitor")
        self._stack.push_async_callback(_cancelled, stalls)
        sweeper = asyncio.create_task(self.leases.run(), name="lease sweeper")
        self._stack.push_async_callback(_cancelled, sweeper)
        for agent in self.agents.values():
            agent.start()
        self._stack.push_async_callback(self._wind_down)
        log.info("listening", extra={"port": port, "agents": len(self.agents)})
        return port

    async def _wind_down(self) -> None:
        """The first step of the end: calls in work get their last seconds, nothing else goes on."""
        self.dispatcher.wind_down(CALL_SECONDS)
        await asyncio.gather(*(agent.rest() for agent in self.agents.values()))

    async def _rotate(self, tokens: TokenStore, sockets: Sockets) -> None:
        """Secrets that change on disk are in force within seconds, without a restart (spec §3).

        Sockets, leases and audiences of an old secret end with it.
        """
        while True:
            await asyncio.sleep(ROTATION_SECONDS)
            for name in await asyncio.to_thread(tokens.reload):
                log.info("token rotated", extra={"token_name": name})
                self.leases.sweep()
                self.sessions.sweep()
                await sockets.end_revoked()

    async def _guard(self, state: StateDirectory) -> None:
        """All of it may be deleted at any time (spec §1), which a running service has to notice by itself."""
        while True:
            name = await asyncio.to_thread(state.lost)
            if name is not None:
                break
            await asyncio.sleep(STATE_SECONDS)
        log.error("the state directory was taken away or replaced", extra={"missing": name})
        self.lost.set()

    def _readiness(self, principal: Principal) -> tuple[bool, dict[str, object]]:
        visible = visible_agents(principal, tuple(self.agents))
        states = {agent_id: self.agents[agent_id].readiness() for agent_id in visible}
        ready = all(state for state, _ in states.values())
        return ready, {"agents": {agent_id: counts for agent_id, (_, counts) in states.items()}}

    def _figures(self) -> Figures:
        """What `/metrics` shows of the moment."""
        agents = {}
        for agent_id, agent in self.agents.items():
            if not isinstance(agent, AgentRuntime):
                continue  # it has no index whose lag could be shown
            files = agent.health.files()
            agents[agent_id] = AgentFigures(
                on_disk=files.on_disk,
                indexed=files.indexed,
                pending=files.pending,
                watching=agent.health.watching,
                lag_seconds=agent.indexer.lag_seconds,
                unembedded=agent.embeddings.waiting,
                legs=dict(agent.legs.of),
            )
        return Figures(
            agents=agents,
            in_work=self.dispatcher.in_work,
            stalls=self._stalls.count,
            longest_stall=self._stalls.longest,
            allowed=self._audit.allowed,
            denied=self._audit.denials(),
            embedding_failures=self._embedder.failures if self._embedder is not None else 0,
            embeddings_off=self._embedder is not None and self._embedder.circuit.state != "closed",
        )


class LocalCaller:
    """Calls methods of a `Sidecar` in this process, as its owner (the command line without a service)."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar

    async def call(self, method: str, params: Mapping[str, object]) -> dict[str, object]:
        """The payload of a method; raises from the error tree."""
        context = CallerContext(
            authority=Operator(scopes=LOCAL_PRINCIPAL.scopes, connection_id="command-line"),
            assert_current=_always_current,
            identity=LOCAL_PRINCIPAL.name,
            token_name=LOCAL_PRINCIPAL.name,
        )
        asked: Params = params
        return await self._sidecar.dispatcher.call(
            method, Call(params=asked, bearer=LOCAL_BEARER, context=context)
        )


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _always_current() -> None:
    """The owner at the command line is not revoked while the command runs."""

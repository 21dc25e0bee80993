"""An agent whose memory belongs to a provider without an index: nothing to watch, nothing to read by path."""

from __future__ import annotations

import asyncio
import logging

from sidecar.domain.authority import Authority, CallerContext, HostOperation
from sidecar.domain.errors import SettingsError, SidecarError
from sidecar.domain.provider import MemoryProvider
from sidecar.domain.why import WhyRequest
from sidecar.runtime.providers import foreign_provider
from sidecar.service.audit import Audit
from sidecar.service.decisions import Decisions
from sidecar.service.indexing import Progress
from sidecar.settings.load import Loaded
from sidecar.settings.model import AgentSettings

log = logging.getLogger(__name__)

START_SECONDS = 30.0
CLOSE_SECONDS = 5.0


class ForeignAgent:
    """The same face as `AgentRuntime`, over a provider that keeps its memory itself."""

    manager = None
    serves_v1 = False

    def __init__(self, agent_id: str, provider: MemoryProvider, decisions: Decisions) -> None:
        self._agent_id = agent_id
        self.provider = provider
        self.decisions = decisions

    @property
    def gate(self) -> Decisions:
        """Nothing of the provider is asked for a caller that may not read (spec §5.4)."""
        return self.decisions

    @classmethod
    async def open(cls, settings: AgentSettings, loaded: Loaded, audit: Audit) -> ForeignAgent:
        """Build the provider and have it start, where it has something to start."""
        agent = cls(settings.id, foreign_provider(settings, loaded), Decisions.of(settings, audit))
        start = getattr(agent.provider, "start", None)
        if callable(start):
            try:
                async with asyncio.timeout(START_SECONDS):
                    await start()
            except BaseException as error:
                await agent.close()
                if isinstance(error, SidecarError) or not isinstance(error, Exception):
                    raise
                log.debug("a memory provider did not start", exc_info=error)
                raise SettingsError(
                    f'agents.{settings.id}.provider: "{settings.provider}" did not start: '
                    f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                ) from error
        return agent

    def notes(self, after: str, most: int) -> None:
        """It has no files that could be listed."""

    async def why(self, asked: WhyRequest, authority: Authority) -> None:
        """It has no files that could be explained."""

    def start(self) -> None:
        """Nothing is followed: the provider started when this was opened."""

    async def rest(self) -> None:
        """Nothing runs in the background."""

    def readiness(self) -> tuple[bool, dict[str, object]]:
        """Always ready; how the provider is, its health says."""
        return True, {"provider": self.provider.provider_id}

    async def refresh(
        self,
        *,
        rebuild: bool = False,  # noqa: ARG002
        purge: bool = False,  # noqa: ARG002
        progress: Progress | None = None,  # noqa: ARG002
    ) -> dict[str, object]:
        """Ask the provider to refresh, where it offers that. No counts: no index is kept."""
        context = CallerContext(authority=HostOperation(operation="refresh"), assert_current=_current)
        handle = await self.provider.open(self._agent_id, context, "cli")
        try:
            offered = getattr(handle, "refresh", None)
            if callable(offered):
                await offered()
        finally:
            await handle.close()
        return {}

    async def close(self) -> None:
        """Let the provider end, within five seconds."""
        ending = getattr(self.provider, "aclose", None)
        if not callable(ending):
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await ending()
        except Exception:  # it ends either way, and so do we
            log.exception("a memory provider did not close cleanly", extra={"agent": self._agent_id})


def _current() -> None:
    """A refresh that the owner asked for is not revoked while it runs."""

"""From a provider's name to what answers for an agent (spec §5): by files, built in, or an entry point.

`workspace` and `legacy` read the index (`runtime/agent.py`). Every other name is an entry point: one of ours
below, or one that another distribution installed under `memory_sidecar.providers`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import metadata
from typing import Final, cast

from sidecar.domain.errors import SettingsError
from sidecar.domain.provider import MemoryProvider, ProviderFactory, ProviderSetup
from sidecar.settings.load import Loaded
from sidecar.settings.model import FILE_PROVIDERS, PROVIDER_ENTRY_POINTS, PROVIDER_IDS, AgentSettings

log = logging.getLogger(__name__)

BUILT_IN: Final[Mapping[str, str]] = {
    # One line for each provider of ours without an index, its object a `ProviderFactory`:
    "powercontext": "sidecar.adapters.powercontext:make",
}


def foreign_provider(agent: AgentSettings, loaded: Loaded) -> MemoryProvider:
    """The provider of an agent without an index; raises `SettingsError`, one line that names the key."""
    key = f"agents.{agent.id}.provider"
    origin = loaded.origins.get(key)
    where = f"{origin}: {key}" if origin else key
    point = _entry_point(agent.provider, where)
    setup = ProviderSetup(
        agent_id=agent.id,
        options=agent.provider_options,
        workspace=None if agent.workspace is None else str(agent.workspace),
    )
    try:
        provider = cast(ProviderFactory, point.load())(setup)
    except SettingsError:
        raise
    except Exception as error:  # a distribution that is not ours: whatever it throws becomes one line
        log.debug("a memory provider cannot be loaded", exc_info=error)
        raise SettingsError(
            f'{where}: "{agent.provider}"{_from(point)} cannot be loaded: {type(error).__name__}: '
            f"{' '.join(str(error).split())[:200]}; {_installed()}"
        ) from error
    _check_shape(provider, agent.provider, f'{where}: "{agent.provider}"{_from(point)}')
    return provider


def _entry_point(name: str, where: str) -> metadata.EntryPoint:
    if name in BUILT_IN:
        return metadata.EntryPoint(name=name, value=BUILT_IN[name], group=PROVIDER_ENTRY_POINTS)
    if name in PROVIDER_IDS.values():
        raise SettingsError(f'{where}: "{name}" is the id of a built-in provider; {_installed()}')
    found = list(metadata.entry_points(group=PROVIDER_ENTRY_POINTS, name=name))
    if not found:
        raise SettingsError(f'{where}: no provider "{name}" is installed; {_installed()}')
    if len(found) > 1:
        several = ", ".join(sorted(point.dist.name for point in found if point.dist is not None))
        raise SettingsError(f'{where}: "{name}" is installed by several distributions: {several}')
    return found[0]


def _from(point: metadata.EntryPoint) -> str:
    return f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""


def _installed() -> str:
    points = metadata.entry_points(group=PROVIDER_ENTRY_POINTS)
    names = [*FILE_PROVIDERS, *BUILT_IN, *sorted({point.name for point in points})]
    return f"installed: {', '.join(names)}"


def _check_shape(provider: object, name: str, where: str) -> None:
    if not callable(getattr(provider, "open", None)):
        raise SettingsError(f"{where}: memory providerRuntime must implement open")
    own = getattr(provider, "provider_id", None)
    if own != name:
        raise SettingsError(f'{where}: its provider_id has to be "{name}", not {own!r:.80}')

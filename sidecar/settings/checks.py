"""Settings that contradict each other (spec §2, §3): each check raises one line or passes. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from sidecar.domain.agents import normalise_agent_id
from sidecar.domain.errors import SettingsError
from sidecar.settings.model import (
    BUILT_IN_PROVIDERS,
    AgentSettings,
    EmbeddingSettings,
    Settings,
    is_loopback,
)
from sidecar.settings.parse import Entry, Parsed, closest, refuse

Where = Callable[[str], str]

REMOTE_ONLY = (
    "base_url",
    "model",
    "api_key_env",
    "dimensions",
    "query_input_type",
    "document_input_type",
    "timeout_seconds",
)
KNOWN_SCOPES = ("operator.read", "operator.admin")


def check(
    settings: Settings,
    entries: Mapping[str, Entry],
    parsed: Parsed,
    *,
    where: Where,
    installed_providers: Callable[[], Collection[str]],
) -> None:
    """Raise `SettingsError` for the first contradiction; `where` names a key's place for the message."""
    _check_defaults(settings, where)
    for agent in settings.agents.values():
        _check_provider(agent, where, installed_providers)
        _check_provider_tables(agent, parsed.options.get(agent.id, {}))
        _check_agent(agent, entries, where)
    _check_embeddings(settings.embeddings, entries, where)
    if not is_loopback(settings.host) and not settings.tokens:
        refuse(where("host"), "a loopback address unless [[tokens]] are configured", settings.host)


def _check_defaults(settings: Settings, where: Where) -> None:
    chosen = [agent.id for agent in settings.agents.values() if agent.default]
    if len(chosen) > 1:
        raise SettingsError(
            f"{where(f'agents.{chosen[1]}.default')} accepts true for one agent only, "
            f"agents.{chosen[0]} is the default already"
        )


def _check_provider(
    agent: AgentSettings, where: Where, installed_providers: Callable[[], Collection[str]]
) -> None:
    if agent.provider in BUILT_IN_PROVIDERS:
        return
    known = (*BUILT_IN_PROVIDERS, *sorted(installed_providers()))
    if agent.provider in known:
        return
    meant = closest(agent.provider, known)
    hint = f', did you mean "{meant}"?' if meant else ""
    quoted = ", ".join(f'"{name}"' for name in known)
    raise SettingsError(
        f"{where(f'agents.{agent.id}.provider')} accepts {quoted} or an installed entry point, "
        f'not "{agent.provider}"{hint}'
    )


def _check_provider_tables(agent: AgentSettings, tables: Mapping[str, Entry]) -> None:
    for name, entry in tables.items():
        if name != agent.provider:
            raise SettingsError(
                f'{entry.where} needs agents.{agent.id}.provider = "{name}", but it is "{agent.provider}"'
            )


def _check_agent(agent: AgentSettings, entries: Mapping[str, Entry], where: Where) -> None:
    prefix = f"agents.{agent.id}."
    if not agent.reads_files:
        for name in ("extra_paths", "exclude", "sessions.enabled"):
            if f"{prefix}{name}" in entries and entries[f"{prefix}{name}"].value:
                raise SettingsError(
                    f'{where(prefix + name)} needs provider = "workspace" or "legacy", not "{agent.provider}"'
                )
        return
    if "sessions" in agent.search_sources and not agent.sessions.enabled:
        raise SettingsError(
            f'{where(prefix + "search_sources")} accepts "sessions" only with '
            f"[agents.{agent.id}.sessions] enabled = true"
        )


def _check_embeddings(embeddings: EmbeddingSettings, entries: Mapping[str, Entry], where: Where) -> None:
    if embeddings.provider == "openai-compatible":
        for name in ("base_url", "model"):
            if getattr(embeddings, name) is None:
                raise SettingsError(
                    f'{where(f"embeddings.{name}")} is required with provider = "openai-compatible"'
                )
        return
    for name in (*REMOTE_ONLY, "on_failure"):
        key = f"embeddings.{name}"
        if key not in entries or (name == "on_failure" and embeddings.provider == "local"):
            continue
        needed = '"local" or "openai-compatible"' if name == "on_failure" else '"openai-compatible"'
        raise SettingsError(
            f'{where(key)} needs embeddings.provider = {needed}, but it is "{embeddings.provider}"'
        )


def check_token(token: Mapping[str, Entry], names: Collection[str], agents: Collection[str]) -> None:
    """Raise for a token without exactly one secret, with a name in use, or for an unknown agent."""
    name = token["name"]
    here = name.where.removesuffix(".name")
    if name.value in names:
        raise SettingsError(f'{name.where} accepts each name once, "{name.value}" is in use already')
    given = [key for key in ("secret_env", "secret_file") if key in token]
    if len(given) != 1:
        problem = "has both" if given else "has neither"
        raise SettingsError(f"{here} accepts exactly one of secret_env and secret_file, it {problem}")
    if "agents" in token:
        entry = token["agents"]
        for raw in entry.value if isinstance(entry.value, tuple) else ():
            if normalise_agent_id(raw) not in agents:
                refuse(entry.where, f"configured agents ({', '.join(agents)})", raw)

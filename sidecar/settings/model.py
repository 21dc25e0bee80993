"""The effective settings as frozen types, with the defaults of spec §2. Built by `load`."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from sidecar.domain.memory import Source

SandboxedAccess = Literal["deny", "allow"]
Visibility = Literal["self", "tree", "agent"]
EmbeddingProvider = Literal["local", "openai-compatible", "none"]
OnFailure = Literal["lexical", "error"]
WatchMode = Literal["auto", "events", "polling"]
Role = Literal["operator", "host"]

FILE_PROVIDERS = ("workspace", "legacy")
BUILT_IN_PROVIDERS = (*FILE_PROVIDERS, "powercontext")
PROVIDER_IDS: Mapping[str, str] = {"workspace": "memory-sidecar", "legacy": "memory-sidecar-legacy"}
PROVIDER_ENTRY_POINTS = "memory_sidecar.providers"
DEFAULT_AGENT = "main"
DEFAULT_WORKSPACE = "~/.openclaw/workspace"


class ExtraPathSettings(msgspec.Struct, frozen=True):
    """One more file or folder. `path` is as written: absolute, `~/...` or relative to the workspace."""

    path: str
    pattern: str | None = None


class SessionsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Transcripts of one agent (spec §5.5). `directory` is absolute and need not exist yet."""

    directory: Path
    enabled: bool = False
    visibility: Visibility = "self"
    include_reset_archives: bool = False


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One agent. `workspace` is absolute, and None only where a provider that reads no files has none.

    `provider_options` is the raw table `[agents.<id>.<provider>]`; its provider validates it.
    """

    id: str
    workspace: Path | None
    sessions: SessionsSettings
    default: bool = False
    provider: str = "workspace"
    serve_v1: bool = True
    extra_paths: tuple[ExtraPathSettings, ...] = ()
    exclude: tuple[str, ...] = ()
    search_sources: tuple[Source, ...] = ("memory",)
    sandboxed_access: SandboxedAccess = "deny"
    provider_options: Mapping[str, object] = {}

    @property
    def provider_id(self) -> str:
        """The id that scopes this agent's references (spec §2)."""
        return PROVIDER_IDS.get(self.provider, self.provider)

    @property
    def reads_files(self) -> bool:
        """Whether the provider reads the workspace's files."""
        return self.provider in FILE_PROVIDERS


class EmbeddingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where vectors come from (spec §7). The remote fields are set for `openai-compatible` only."""

    provider: EmbeddingProvider = "local"
    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    dimensions: int | None = None
    query_input_type: str | None = None
    document_input_type: str | None = None
    timeout_seconds: float = 10.0
    on_failure: OnFailure = "lexical"


class WatchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How changes are noticed (spec §6). `poll_seconds` is the interval where events are not used."""

    mode: WatchMode = "auto"
    poll_seconds: float = 2.0


class TokenSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One configured token: exactly one of `secret_env` and `secret_file` is set; the secret is not here."""

    name: str
    role: Role
    secret_env: str | None = None
    secret_file: Path | None = None
    scopes: tuple[str, ...] = ("operator.read",)
    agents: tuple[str, ...] | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is configured. `agents` is keyed by normalised id, in configured order, never empty."""

    state_dir: Path
    agents: Mapping[str, AgentSettings]
    default_agent: str | None
    host: str = "127.0.0.1"
    port: int = 8737
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    embeddings: EmbeddingSettings = EmbeddingSettings()
    watch: WatchSettings = WatchSettings()
    tokens: tuple[TokenSettings, ...] = ()


def is_loopback(host: str) -> bool:
    """Whether a host to listen on is reachable from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def expand(path: str, *, home: Path, below: Path) -> Path:
    """An absolute path of a configured one: `~` is `home`, a relative path starts at `below`."""
    if path == "~":
        return home
    if path.startswith("~/"):
        return home / path[2:]
    return below / path


def watched_roots(settings: Settings, *, home: Path) -> tuple[Path, ...]:
    """Every file or folder that is read as memory: workspaces, extra paths, enabled session folders."""
    roots: list[Path] = []
    for agent in settings.agents.values():
        if agent.reads_files and agent.workspace is not None:
            roots.append(agent.workspace)
            roots += [expand(extra.path, home=home, below=agent.workspace) for extra in agent.extra_paths]
        if agent.sessions.enabled:
            roots.append(agent.sessions.directory)
    return tuple(dict.fromkeys(roots))

"""Defaults, file, environment and flags to the effective settings, the later one wins (spec §2)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from sidecar.domain.agents import normalise_agent_id
from sidecar.domain.errors import SettingsError
from sidecar.settings import checks, kinds
from sidecar.settings.keys import AGENT, ENV_PREFIX, ENVIRONMENT, FIELDS, env_name
from sidecar.settings.kinds import REFUSED, Kind
from sidecar.settings.locations import config_file
from sidecar.settings.model import (
    DEFAULT_AGENT,
    DEFAULT_WORKSPACE,
    FILE_PROVIDERS,
    PROVIDER_ENTRY_POINTS,
    AgentSettings,
    EmbeddingSettings,
    SessionsSettings,
    Settings,
    TokenSettings,
    WatchSettings,
    expand,
)
from sidecar.settings.parse import LARGEST_FILE, NOTHING, Entry, Parsed, closest, parse, refuse
from sidecar.settings.state import default_state_dir

LogLevel = Literal["debug", "info", "warning", "error"]
LOG_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "warning", "error")
DEFAULT = "default"
OPERATOR_TOKEN_ENV = f"{ENV_PREFIX}OPERATOR_TOKEN"
HOST_TOKEN_ENV = f"{ENV_PREFIX}HOST_TOKEN"
_FOLDER = "an existing folder"


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The shared command line flags as given; None where one was not."""

    config: str | None = None
    workspace: str | None = None
    agent: str | None = None
    state_dir: str | None = None
    host: str | None = None
    port: str | None = None
    log_level: str | None = None


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The effective settings and where each value came from.

    `origins` has a line for every key that `show.rows` prints: `"default"`, the file's path, an environment
    variable's name or a flag. `agent` is the agent that was asked for by flag or environment, normalised and
    configured, or None; `settings.default_agent` is the one that is meant when a request names none.
    """

    settings: Settings
    origins: Mapping[str, str]
    config_file: Path | None = None
    agent: str | None = None
    log_level: LogLevel | None = None
    warnings: tuple[str, ...] = ()


def load(
    flags: Flags | None = None,
    environ: Mapping[str, str] = os.environ,
    *,
    require_workspace: bool = True,
) -> Loaded:
    """The effective settings; raises `SettingsError` with one line that names place, key and what it accepts.

    `require_workspace=False` leaves a missing workspace folder to the caller.
    """
    return _Loading(flags or Flags(), environ, require_workspace=require_workspace).loaded()


class _Loading:
    """One run of the loader: what is read from outside, and the entries collected so far."""

    def __init__(self, flags: Flags, environ: Mapping[str, str], *, require_workspace: bool) -> None:
        self._flags = flags
        self._environ = {key: value for key, value in environ.items() if value.strip()}
        self._require_workspace = require_workspace
        self._home = Path(environ.get("HOME") or Path.home())
        self._cwd = Path.cwd()
        self._file: Path | None = None
        self._entries: dict[str, Entry] = {}
        self._origins: dict[str, str] = {}
        self._warnings: list[str] = []

    def loaded(self) -> Loaded:
        parsed = self._read_file()
        self._entries.update(parsed.entries)
        self._read_environment()
        self._read_flags()
        asked = self._asked_agent()
        agents = self._agents(parsed, asked)
        if asked is not None and asked.value not in agents:
            refuse(asked.where, f"a configured agent ({', '.join(agents)})", asked.value)
        tokens = self._tokens(parsed, agents)
        settings = Settings(
            state_dir=self._state_dir(parsed, agents),
            agents=agents,
            default_agent=self._default_agent(agents, asked),
            embeddings=EmbeddingSettings(**self._given("embeddings.", EmbeddingSettings)),
            watch=WatchSettings(**self._given("watch.", WatchSettings)),
            tokens=tokens,
            **self._given("", Settings),
        )
        checks.check(
            settings, self._entries, parsed, where=self._where, installed_providers=installed_providers
        )
        self._warn(settings, parsed)
        return Loaded(
            settings=settings,
            origins=self._origins,
            config_file=self._file,
            agent=None if asked is None else str(asked.value),
            log_level=self._log_level(),
            warnings=tuple(self._warnings),
        )

    def _one(self, flag: str, given: str | None, variable: str, kind: Kind) -> Entry | None:
        """The value of a flag, else of its environment variable."""
        for where, text in ((flag, given), (variable, self._environ.get(variable))):
            if text is not None:
                value = kind.from_text(text)
                if value is REFUSED:
                    refuse(where, kind.accepts, text)
                return Entry(value=value, origin=where, where=where)
        return None

    def _read_file(self) -> Parsed:
        chosen = self._one("--config", self._flags.config, f"{ENV_PREFIX}CONFIG", kinds.PATH)
        if chosen is None:
            chosen = self._usual_file()
        if chosen is None:
            return NOTHING
        self._origins["config_file"] = chosen.origin if chosen.origin != str(chosen.value) else "usual place"
        self._file = expand(str(chosen.value), home=self._home, below=self._cwd)
        try:
            with self._file.open("rb") as file:
                content = file.read(LARGEST_FILE + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise SettingsError(
                f"{chosen.where} accepts a readable TOML file, {self._file}: {reason}"
            ) from error
        return parse(content, str(self._file))

    def _usual_file(self) -> Entry | None:
        """The file that `init` writes, unless a workspace is named: that is then the whole configuration."""
        usual = config_file(self._environ, self._home)
        named = self._flags.workspace or self._environ.get(f"{ENV_PREFIX}WORKSPACE")
        if named or not usual.is_file():
            return None
        return Entry(value=str(usual), origin=str(usual), where=str(usual))

    def _read_environment(self) -> None:
        for key, field in FIELDS.items():
            name = env_name(key)
            text = self._environ.get(name) if name is not None else None
            # Container platforms set <SERVICE>_PORT=tcp://... for a service of this name: not meant for us.
            if name is None or text is None or text.startswith("tcp://"):
                continue
            value = field.kind.from_text(text)
            if value is REFUSED:
                refuse(name, field.kind.accepts, text, secret=field.kind.secret)
            self._entries[key] = Entry(value=value, origin=name, where=name)

    def _read_flags(self) -> None:
        for key, text in (("host", self._flags.host), ("port", self._flags.port)):
            if text is not None:
                value = FIELDS[key].kind.from_text(text)
                if value is REFUSED:
                    refuse(f"--{key}", FIELDS[key].kind.accepts, text)
                self._entries[key] = Entry(value=value, origin=f"--{key}", where=f"--{key}")

    def _asked_agent(self) -> Entry | None:
        asked = self._one("--agent", self._flags.agent, f"{ENV_PREFIX}AGENT", kinds.TEXT)
        if asked is None:
            return None
        agent_id = normalise_agent_id(str(asked.value))
        if agent_id is None:
            refuse(asked.where, 'an agent id such as "main"', asked.value)
        return Entry(value=agent_id, origin=asked.origin, where=asked.where)

    def _agents(self, parsed: Parsed, asked: Entry | None) -> dict[str, AgentSettings]:
        named = self._one("--workspace", self._flags.workspace, f"{ENV_PREFIX}WORKSPACE", kinds.PATH)
        if parsed.agents:
            if named is not None:
                raise SettingsError(
                    f"{named.where} is not accepted together with {self._file}, which configures agents: "
                    "use one of them"
                )
            return {agent_id: self._agent(agent_id, parsed) for agent_id in parsed.agents}
        agent_id = str(asked.value) if asked is not None else DEFAULT_AGENT
        if named is not None:
            self._entries[f"agents.{agent_id}.workspace"] = named
        return {agent_id: self._agent(agent_id, parsed)}

    def _agent(self, agent_id: str, parsed: Parsed) -> AgentSettings:
        prefix = f"agents.{agent_id}."
        given = self._given(prefix, AgentSettings, template=AGENT)
        sessions = self._given(f"{prefix}sessions.", SessionsSettings, template=f"{AGENT}sessions.")
        provider = given.get("provider", "workspace")
        given["workspace"] = self._workspace(agent_id, provider, configured=agent_id in parsed.agents)
        sessions["directory"] = self._path(
            f"{prefix}sessions.directory", f"~/.openclaw/agents/{agent_id}/sessions"
        )
        tables = parsed.options.get(agent_id, {})
        if provider in tables:
            self._origins[prefix + provider] = tables[provider].origin
        return AgentSettings(
            id=agent_id,
            sessions=SessionsSettings(**sessions),
            provider_options=cast(Any, tables[provider].value) if provider in tables else {},
            **given,
        )

    def _workspace(self, agent_id: str, provider: str, *, configured: bool) -> Path | None:
        key = f"agents.{agent_id}.workspace"
        if key not in self._entries:
            if provider not in FILE_PROVIDERS:
                return None
            if configured and agent_id != DEFAULT_AGENT:
                raise SettingsError(f"{self._where(key)} is required and accepts {_FOLDER}")
        folder = self._path(key, DEFAULT_WORKSPACE)
        if self._require_workspace:
            refuse_missing_folder(folder, self._where(key), given=key in self._entries)
        return folder

    def _path(self, key: str, default: str) -> Path:
        entry = self._entries.get(key)
        self._origins[key] = entry.origin if entry else DEFAULT
        in_file = entry is not None and self._file is not None and entry.origin == str(self._file)
        below = self._file.parent if in_file and self._file is not None else self._cwd
        return expand(str(entry.value) if entry else default, home=self._home, below=below)

    def _tokens(self, parsed: Parsed, agents: Mapping[str, AgentSettings]) -> tuple[TokenSettings, ...]:
        tokens: list[TokenSettings] = []
        for given in parsed.tokens:
            checks.check_token(given, [token.name for token in tokens], tuple(agents))
            values: dict[str, Any] = {key: entry.value for key, entry in given.items()}
            if "secret_file" in values and self._file is not None:
                values["secret_file"] = expand(
                    values["secret_file"], home=self._home, below=self._file.parent
                )
            if "agents" in values:
                values["agents"] = tuple(normalise_agent_id(raw) for raw in values["agents"])
            tokens.append(TokenSettings(**values))
            self._note_token(tokens[-1], {key: entry.origin for key, entry in given.items()})
        if not tokens:
            for role, variable in (("operator", OPERATOR_TOKEN_ENV), ("host", HOST_TOKEN_ENV)):
                if variable in self._environ:
                    tokens.append(TokenSettings(name=role, role=cast(Any, role), secret_env=variable))
                    self._note_token(tokens[-1], dict.fromkeys(("name", "role", "secret_env"), variable))
        return tuple(tokens)

    def _note_token(self, token: TokenSettings, origins: Mapping[str, str]) -> None:
        for name in TokenSettings.__struct_fields__:
            self._origins[f"tokens.{token.name}.{name}"] = origins.get(name, DEFAULT)

    def _default_agent(self, agents: Mapping[str, AgentSettings], asked: Entry | None) -> str | None:
        if asked is not None:
            return str(asked.value)
        if len(agents) == 1:
            return next(iter(agents))
        return next((agent.id for agent in agents.values() if agent.default), None)

    def _state_dir(self, parsed: Parsed, agents: Mapping[str, AgentSettings]) -> Path:
        chosen = self._one("--state-dir", self._flags.state_dir, f"{ENV_PREFIX}STATE_DIR", kinds.PATH)
        if chosen is not None:
            self._origins["state_dir"] = chosen.origin
            return expand(str(chosen.value), home=self._home, below=self._cwd)
        self._origins["state_dir"] = DEFAULT
        # A file that configures no agents may serve several workspaces: then the workspace tells them apart.
        workspace = next(iter(agents.values())).workspace
        if workspace is None or (parsed.agents and self._file is not None):
            return default_state_dir(cast(Path, self._file))
        return default_state_dir(workspace)

    def _log_level(self) -> LogLevel | None:
        kind = kinds.choice(*LOG_LEVELS)
        chosen = self._one("--log-level", self._flags.log_level, f"{ENV_PREFIX}LOG_LEVEL", kind)
        return None if chosen is None else cast(LogLevel, chosen.value)

    def _given(
        self, prefix: str, struct: type[msgspec.Struct], *, template: str | None = None
    ) -> dict[str, Any]:
        """The given values of a table's plain keys, noting the origin of every one of them."""
        values: dict[str, Any] = {}
        for name in struct.__struct_fields__:
            key = f"{prefix}{name}"
            if f"{prefix if template is None else template}{name}" not in FIELDS:
                continue
            entry = self._entries.get(key)
            self._origins[key] = entry.origin if entry else DEFAULT
            if entry is not None:
                values[name] = entry.value
        return values

    def _where(self, key: str) -> str:
        entry = self._entries.get(key)
        if entry is not None:
            return entry.where
        return f"{self._file}: {key}" if self._file is not None else key

    def _warn(self, settings: Settings, parsed: Parsed) -> None:
        named = {token.secret_env for token in settings.tokens} | {settings.embeddings.api_key_env}
        for name in sorted(self._environ):
            if not name.startswith(ENV_PREFIX) or name in named:
                continue
            if parsed.tokens and name in (OPERATOR_TOKEN_ENV, HOST_TOKEN_ENV):
                self._warnings.append(f"{name} is not used: no entry of [[tokens]] in {self._file} names it")
            elif name not in ENVIRONMENT and (meant := _meant_variable(name)) is not None:
                self._warnings.append(f"{name} is not used, did you mean {meant}?")
        for token in settings.tokens:
            for scope in token.scopes:
                if scope not in checks.KNOWN_SCOPES:
                    self._warnings.append(f'tokens.{token.name}.scopes: no method here asks for "{scope}"')


def refuse_missing_folder(folder: Path, where: str, *, given: bool) -> None:
    """Raise `SettingsError` when a workspace is no folder; `given` unless it is the default one."""
    if folder.is_dir():
        return
    if not given:
        raise SettingsError(
            f"no workspace: {DEFAULT_WORKSPACE} does not exist, pass --workspace DIR or --config FILE"
        )
    problem = "is not a folder" if folder.exists() else "does not exist"
    raise SettingsError(f"{where} accepts {_FOLDER}, {folder} {problem}")


def _meant_variable(name: str) -> str | None:
    """Compared without the shared prefix: foreign variables that have it must not be taken for typos."""
    suffixes = [known.removeprefix(ENV_PREFIX) for known in ENVIRONMENT]
    meant = closest(name.removeprefix(ENV_PREFIX), suffixes, cutoff=0.8)
    return None if meant is None else ENV_PREFIX + meant


def installed_providers() -> tuple[str, ...]:
    """The names of the memory providers that other distributions have installed as entry points."""
    return tuple(sorted(point.name for point in metadata.entry_points(group=PROVIDER_ENTRY_POINTS)))

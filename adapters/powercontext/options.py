"""The table `[agents.<id>.powercontext]`: what it accepts, its defaults, and the token that it names."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from sidecar.domain.errors import SettingsError
from sidecar.settings import kinds
from sidecar.settings.kinds import Kind
from sidecar.settings.model import expand
from sidecar.settings.parse import closest, converted
from sidecar.settings.tokens import read_named_secret

log = logging.getLogger(__name__)

MOST_RESULTS = 100
"""The server gives at most so many records for one search."""

KINDS: Mapping[str, Kind] = {
    "endpoint": kinds.URL,
    "token_env": kinds.ENV_NAME,
    "token_file": kinds.PATH,
    "search_timeout_seconds": kinds.number(0.1, 60),
    "timeout_seconds": kinds.number(0.1, 60),
    "max_results": kinds.integer(1, MOST_RESULTS),
    "min_score": kinds.number(0, 1),
}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one agent's store.

    `search_timeout_seconds` bounds a whole search, retries and fallback included; `timeout_seconds` a read or
    a health check. `max_results` caps what a caller may ask for, `min_score` holds where a caller gives none.
    """

    endpoint: str
    token_env: str | None = None
    token_file: Path | None = None
    search_timeout_seconds: float = 1.2
    timeout_seconds: float = 5.0
    max_results: int = 50
    min_score: float = 0.0


def read_options(agent_id: str, table: Mapping[str, object]) -> Options:
    """The settings as written; raises `SettingsError` with the key and what it accepts."""
    here = f"agents.{agent_id}.powercontext"
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in KINDS:
            meant = closest(name, KINDS)
            hint = f', did you mean "{meant}"?' if meant else ","
            raise SettingsError(
                f"{here}.{name[:80]} is not a known key{hint} accepted here: {', '.join(KINDS)}"
            )
        values[name] = converted(KINDS[name], value, f"{here}.{name}")
    if "endpoint" not in values:
        raise SettingsError(f'{here}.endpoint is required, for example "http://127.0.0.1:8000"')
    if "token_env" in values and "token_file" in values:
        raise SettingsError(f"{here} accepts one of token_env and token_file, it has both")
    if "token_file" in values:
        values["token_file"] = expand(values["token_file"], home=Path.home(), below=Path.cwd())
    return Options(**values)


class Token:
    """The bearer token of one store, where it needs one. Never part of a repr, a log line or an error."""

    def __init__(self, agent_id: str, options: Options, environ: Mapping[str, str] = os.environ) -> None:
        """Raises `SettingsError` for a token that is named but cannot be had."""
        self._key = f"agents.{agent_id}.powercontext"
        self._options = options
        self._environ = environ
        self._secret = self._read()

    def header(self) -> dict[str, str]:
        """The Authorization header, empty where no token is configured."""
        return {} if self._secret is None else {"Authorization": f"Bearer {self._secret}"}

    def reload(self) -> None:
        """Read the token again, as after a refusal: it may have been rotated. Blocks."""
        try:
            self._secret = self._read()
        except SettingsError as error:
            log.warning("the token of the store cannot be read again: %s", error.message)

    def _read(self) -> str | None:
        options = self._options
        if options.token_env is None and options.token_file is None:
            return None
        return read_named_secret(
            self._key,
            secret_env=options.token_env,
            secret_file=options.token_file,
            environ=self._environ,
            shortest=1,
        )

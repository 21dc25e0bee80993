"""The effective settings as rows for `config show`: key, masked value, origin, purpose (spec §2)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from sidecar.settings.keys import FIELDS
from sidecar.settings.load import DEFAULT, Loaded
from sidecar.settings.model import ExtraPathSettings, TokenSettings

MASK = "********"
_SECRET = re.compile(r"token|secret|password|passphrase|credential|api_?key|authorization", re.IGNORECASE)
_NAMES_A_SECRET = re.compile(r"_(env|file)\Z", re.IGNORECASE)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One effective value. `value` is plain JSON data, None where nothing is set."""

    key: str
    value: object
    origin: str
    purpose: str


def rows(loaded: Loaded, environ: Mapping[str, str] = os.environ) -> tuple[Row, ...]:
    """Every effective value in the order of the documentation; no row holds a secret."""
    settings = loaded.settings
    file = None if loaded.config_file is None else str(loaded.config_file)
    found = [_row(loaded, "config_file", file, "the file that was read; the usual one where none was named")]
    found += [_row(loaded, "state_dir", str(settings.state_dir), "derived state; may be deleted at any time")]
    for key in FIELDS:
        if not key.startswith(("agents.", "tokens.")):
            table, _, name = key.rpartition(".")
            owner = getattr(settings, table) if table else settings
            found.append(_row(loaded, key, getattr(owner, name), FIELDS[key].purpose))
    for agent in settings.agents.values():
        for key in FIELDS:
            if key.startswith("agents."):
                name = key.removeprefix("agents.<id>.")
                owner = agent.sessions if name.startswith("sessions.") else agent
                value = getattr(owner, name.removeprefix("sessions."))
                found.append(_row(loaded, f"agents.{agent.id}.{name}", value, FIELDS[key].purpose))
        if agent.provider_options:
            key = f"agents.{agent.id}.{agent.provider}"
            found.append(_row(loaded, key, masked(agent.provider_options), "settings of the provider"))
    for token in settings.tokens:
        found += _token_rows(loaded, token, environ)
    return tuple(found)


def _token_rows(loaded: Loaded, token: TokenSettings, environ: Mapping[str, str]) -> list[Row]:
    found = []
    for name in TokenSettings.__struct_fields__:
        value = getattr(token, name)
        if name == "secret_env" and value is not None:
            value = f"{value} ({'set' if environ.get(value) else 'not set'})"
        purpose = FIELDS[f"tokens.{name}"].purpose
        found.append(_row(loaded, f"tokens.{token.name}.{name}", value, purpose))
    return found


def _row(loaded: Loaded, key: str, value: object, purpose: str) -> Row:
    origin = loaded.origins.get(key, DEFAULT)
    return Row(key=key, value=_plain(value), origin=origin, purpose=purpose)


def _plain(value: object) -> object:
    if isinstance(value, ExtraPathSettings):
        return value.path if value.pattern is None else {"path": value.path, "pattern": value.pattern}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def masked(value: object, key: str = "") -> object:
    """Provider settings with everything masked that is named like a secret, except its place."""
    if isinstance(value, Mapping):
        return {str(name): masked(item, str(name)) for name, item in value.items()}
    if isinstance(value, list):
        return [masked(item, key) for item in value]
    if _SECRET.search(key) and not _NAMES_A_SECRET.search(key):
        return MASK
    return value if isinstance(value, str | int | float | bool) else str(value)

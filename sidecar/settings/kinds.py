"""What a value may be: each kind says what it accepts and turns a TOML value into ours, or refuses it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from sidecar.domain.memory import SOURCES
from sidecar.settings.model import ExtraPathSettings

REFUSED = object()
Form = Literal["text", "integer", "number", "boolean", "list"]

_INTEGER = re.compile(r"[+-]?\d{1,18}\Z")
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_SCOPE = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)+\Z")
_LISTEN = re.compile(r"[A-Za-z0-9._:-]{1,255}\Z")
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}\Z")


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of value. `read` gives our value or `REFUSED`; `secret` values are never shown."""

    accepts: str
    read: Callable[[object], object]
    form: Form = "text"
    secret: bool = False

    def from_text(self, text: str) -> object:
        """The value of an environment variable or flag, or `REFUSED`; lists are separated by commas."""
        return self.read(_from_text(self.form, text.strip()))


def _from_text(form: Form, text: str) -> object:
    match form:
        case "text":
            return text
        case "integer":
            return int(text) if _INTEGER.match(text) else text
        case "number":
            try:
                return float(text)
            except ValueError:
                return text
        case "boolean":
            return {"true": True, "false": False}.get(text.lower(), text)
        case "list":
            return [item.strip() for item in text.split(",") if item.strip()]


def shown(value: object) -> str:
    """A short, one-line form of a refused value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        text = f"[{', '.join(shown(item) for item in value)}]"
    elif isinstance(value, str):
        text = msgspec.json.encode(value.encode("utf-8", "replace").decode()).decode()
    else:
        text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def integer(least: int, most: int) -> Kind:
    """A whole number within bounds, both included."""

    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int):
            return REFUSED
        return value if least <= value <= most else REFUSED

    return Kind(accepts=f"an integer from {least} to {most}", read=read, form="integer")


def number(least: float, most: float) -> Kind:
    """A number within bounds, both included."""

    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return REFUSED
        return float(value) if math.isfinite(value) and least <= value <= most else REFUSED

    return Kind(accepts=f"a number from {least:g} to {most:g}", read=read, form="number")


def choice(*names: str) -> Kind:
    """One of the given words."""
    return Kind(
        accepts=_either(names),
        read=lambda value: value if isinstance(value, str) and value in names else REFUSED,
    )


def _either(names: tuple[str, ...]) -> str:
    quoted = [f'"{name}"' for name in names]
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def matching(pattern: re.Pattern[str], accepts: str, *, secret: bool = False) -> Kind:
    """Text that a pattern matches."""
    return Kind(
        accepts=accepts,
        read=lambda value: value if isinstance(value, str) and pattern.match(value) else REFUSED,
        secret=secret,
    )


def listing(item: Callable[[object], object], accepts: str, *, empty: bool = True) -> Kind:
    """A list whose members all pass; equal members count once."""

    def read(value: object) -> object:
        if not isinstance(value, list) or (not value and not empty):
            return REFUSED
        items = [item(member) for member in value]
        return REFUSED if REFUSED in items else tuple(dict.fromkeys(items))

    return Kind(accepts=accepts, read=read, form="list")


def _text(value: object) -> object:
    return value if isinstance(value, str) and value.strip() and "\0" not in value else REFUSED


def _url(value: object) -> object:
    if not isinstance(value, str):
        return REFUSED
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return REFUSED
    # Credentials in an address end up in logs; a query or fragment cannot be a prefix of routes.
    if not usable or "@" in parts.netloc or parts.query or parts.fragment:
        return REFUSED
    return value.rstrip("/")


def _origin(value: object) -> object:
    url = _url(value)
    return url if isinstance(url, str) and not urlsplit(url).path else REFUSED


def _host_name(value: object) -> object:
    return value if isinstance(value, str) and _HOST.match(value) else REFUSED


def _extra_path(value: object) -> object:
    if isinstance(value, dict):
        path, pattern = _text(value.get("path")), value.get("pattern")
        if path is REFUSED or set(value) - {"path", "pattern"}:
            return REFUSED
        if pattern is not None and (_text(pattern) is REFUSED or str(pattern).startswith("/")):
            return REFUSED
        return ExtraPathSettings(str(path).strip(), pattern)
    path = _text(value)
    return REFUSED if path is REFUSED else ExtraPathSettings(str(path).strip())


BOOLEAN = Kind(
    accepts="true or false",
    read=lambda value: value if isinstance(value, bool) else REFUSED,
    form="boolean",
)
TEXT = Kind(accepts="a non-empty string", read=_text)
PATH = Kind(accepts="a path", read=_text)
# A refused address may be one with a password in it.
URL = Kind(accepts="an http:// or https:// address without user, query or fragment", read=_url, secret=True)
HOST = matching(_LISTEN, "a host name or IP address")
NAME = matching(_NAME, "a name of letters, digits, '.', '_' and '-', at most 64")
PROVIDER = NAME
ENV_NAME = matching(_ENV_NAME, "the name of an environment variable", secret=True)
TEXTS = listing(_text, "a list of non-empty strings")
HOSTS = listing(_host_name, "a list of host names without scheme or path")
ORIGINS = listing(_origin, 'a list of origins such as "https://notes.example" (scheme and host, no path)')
SCOPES = listing(
    lambda value: value if isinstance(value, str) and _SCOPE.match(value) else REFUSED,
    'a list of scopes such as "operator.read"',
)
AGENT_IDS = listing(_text, "a list of configured agent ids, or leave it out for all of them", empty=False)
SEARCH_SOURCES = listing(
    lambda value: value if value in SOURCES else REFUSED,
    'a list of "memory" and "sessions", at least one',
    empty=False,
)
EXTRA_PATHS = listing(_extra_path, 'a list of paths or of tables { path = "...", pattern = "..." }')

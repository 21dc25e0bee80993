"""A configuration file to flat entries: every key known, every value of its kind, or one line that says so.

Nothing here looks at the disk, the environment or other keys; `checks` holds entries against each other.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from typing import NoReturn, cast

import msgspec

from sidecar.domain.agents import normalise_agent_id
from sidecar.domain.errors import SettingsError
from sidecar.settings.keys import AGENT, CREDENTIAL, FIELDS, children
from sidecar.settings.kinds import REFUSED, Kind, shown
from sidecar.settings.model import FILE_PROVIDERS

LARGEST_FILE = 1 << 20
_AGENT_ID = 'an agent id such as "main": letters, digits, "_" and "-", at most 64'


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One given value: `origin` is where it came from, `where` how an error names it."""

    value: object
    origin: str
    where: str


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A file's entries. `entries` is keyed as `keys.FIELDS` with real agent ids; `tokens` by their own keys.

    `agents` maps a normalised id to the id as written; `options` an agent's id to its provider tables.
    """

    entries: Mapping[str, Entry] = {}
    agents: Mapping[str, str] = {}
    options: Mapping[str, Mapping[str, Entry]] = {}
    tokens: tuple[Mapping[str, Entry], ...] = ()


NOTHING = Parsed()


def refuse(where: str, accepts: str, value: object, *, secret: bool = False) -> NoReturn:
    """Raise the one line: the place, what it accepts, and what it was given unless that may be a secret."""
    given = "" if secret else f", not {shown(value)}"
    raise SettingsError(f"{where} accepts {accepts}{given}")


def converted(kind: Kind, value: object, where: str) -> object:
    """Our value of a TOML value; raises `SettingsError`."""
    result = kind.read(value)
    if result is REFUSED:
        refuse(where, kind.accepts, value, secret=kind.secret)
    return result


def closest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name that a misspelt one most likely means."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return matches[0] if matches else None


def parse(content: bytes, file: str) -> Parsed:
    """The entries of a file's content; raises `SettingsError` with a line that names the file."""
    if len(content) > LARGEST_FILE:
        raise SettingsError(f"{file}: accepts at most {LARGEST_FILE} bytes of TOML")
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file}: accepts UTF-8 text only, byte {error.start} is not") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise SettingsError(f"{file}: is not valid TOML: {reason}") from error
    return _File(file).parsed(table)


class _File:
    """Collects the entries of one file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._entries: dict[str, Entry] = {}
        self._agents: dict[str, str] = {}
        self._options: dict[str, dict[str, Entry]] = {}
        self._tokens: list[dict[str, Entry]] = []

    def parsed(self, table: Mapping[str, object]) -> Parsed:
        for name, value in table.items():
            if name == "agents":
                self._read_agents(value)
            elif name == "tokens":
                self._read_tokens(value)
            else:
                self._read_key(self._entries, name, value, template="", prefix="", shown_prefix="")
        return Parsed(
            entries=self._entries, agents=self._agents, options=self._options, tokens=tuple(self._tokens)
        )

    def _read_agents(self, value: object) -> None:
        for raw, table in self._table(value, "agents", "tables [agents.<id>]").items():
            agent_id = normalise_agent_id(raw)
            if agent_id is None:
                refuse(f"{self._file}: agents", _AGENT_ID, raw)
            if agent_id in self._agents:
                raise SettingsError(
                    f"{self._file}: agents accepts each agent once, {shown(self._agents[agent_id])} and "
                    f'{shown(raw)} are both "{agent_id}"'
                )
            self._agents[agent_id] = raw
            self._read_agent(agent_id, raw, self._table(table, f"agents.{raw}", "a table of agent settings"))

    def _read_agent(self, agent_id: str, raw: str, table: Mapping[str, object]) -> None:
        for name, value in table.items():
            own = name == "powercontext" or (name == table.get("provider") and name not in FILE_PROVIDERS)
            if own and name not in children(AGENT):
                where = f"{self._file}: agents.{raw}.{name}"
                options = self._table(value, f"agents.{raw}.{name}", "a table of the provider's settings")
                entry = Entry(value=dict(options), origin=self._file, where=where)
                self._options.setdefault(agent_id, {})[name] = entry
                continue
            self._read_key(
                self._entries,
                name,
                value,
                template=AGENT,
                prefix=f"agents.{agent_id}.",
                shown_prefix=f"agents.{raw}.",
            )

    def _read_tokens(self, value: object) -> None:
        where = f"{self._file}: tokens"
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            refuse(where, "an array of tables [[tokens]]", value, secret=True)
        for index, table in enumerate(cast(list[dict[str, object]], value)):
            token: dict[str, Entry] = {}
            for name, item in table.items():
                self._read_key(
                    token, name, item, template=CREDENTIAL, prefix="", shown_prefix=f"tokens[{index}]."
                )
            for name in ("name", "role"):
                if name not in token:
                    accepts = FIELDS[f"{CREDENTIAL}{name}"].kind.accepts
                    raise SettingsError(f"{where}[{index}].{name} is required and accepts {accepts}")
            self._tokens.append(token)

    def _read_key(
        self,
        into: dict[str, Entry],
        name: str,
        value: object,
        *,
        template: str,
        prefix: str,
        shown_prefix: str,
    ) -> None:
        known = children(template)
        if name not in known:
            self._refuse_unknown(f"{shown_prefix}{name}", name, known)
        key = f"{template}{name}"
        if key in FIELDS:
            where = f"{self._file}: {shown_prefix}{name}"
            result = converted(FIELDS[key].kind, value, where)
            into[f"{prefix}{name}"] = Entry(value=result, origin=self._file, where=where)
            return
        for inner, item in self._table(value, f"{shown_prefix}{name}", "a table").items():
            self._read_key(
                into,
                inner,
                item,
                template=f"{key}.",
                prefix=f"{prefix}{name}.",
                shown_prefix=f"{shown_prefix}{name}.",
            )

    def _table(self, value: object, key: str, accepts: str) -> Mapping[str, object]:
        if not isinstance(value, dict):
            refuse(f"{self._file}: {key}", accepts, value)
        return value

    def _refuse_unknown(self, full: str, name: str, known: tuple[str, ...]) -> NoReturn:
        meant = closest(name, known)
        hint = f', did you mean "{meant}"?' if meant else ","
        raise SettingsError(
            f"{self._file}: {_one_line(full)} is not a known key{hint} accepted here: {', '.join(known)}"
        )


def _one_line(text: str) -> str:
    return " ".join(text.split())[:120]

"""What an existing gateway configuration says of agents, for `init`: ids, workspaces, extra paths (spec §2).

The gateway's file is JSON5. Only these keys are read; nothing of it is ever written. Paths stay as written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from sidecar.domain.agents import normalise_agent_id
from sidecar.domain.errors import SettingsError
from sidecar.settings.model import DEFAULT_AGENT, ExtraPathSettings

_LARGEST_FILE = 4 << 20


class GatewayAgent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent of the gateway; `workspace` None where the gateway's own default holds."""

    id: str
    workspace: str | None = None
    default: bool = False
    extra_paths: tuple[ExtraPathSettings, ...] = ()


def gateway_file(environ: Mapping[str, str], home: Path) -> Path:
    """Where a gateway of this user keeps its configuration."""
    named = environ.get("OPENCLAW_CONFIG_PATH", "").strip()
    if named:
        return Path(named).expanduser()
    folder = environ.get("OPENCLAW_STATE_DIR", "").strip()
    return (Path(folder).expanduser() if folder else home / ".openclaw") / "openclaw.json"


class Gateway(msgspec.Struct, frozen=True, kw_only=True):
    """The agents of a gateway, and a sentence about each entry that is not among them."""

    agents: tuple[GatewayAgent, ...]
    passed_over: tuple[str, ...] = ()


def read_gateway(file: Path) -> Gateway:
    """What a gateway's configuration says; raises `SettingsError` when it cannot be understood."""
    import json5

    try:
        text = file.read_text(encoding="utf-8")
        if len(text) > _LARGEST_FILE:
            raise SettingsError(f"{file} is too large to be a gateway configuration")
        value = json5.loads(text)
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{file} is no gateway configuration: {str(error)[:200]}") from error
    return gateway_of(value)


def gateway_of(value: object) -> Gateway:
    """The agents of a decoded configuration; one `main` where it names none. What is odd is passed over."""
    agents = _table(_table(value).get("agents"))
    defaults = _table(agents.get("defaults"))
    common = (*_extra_paths(_table(value).get("memory")), *_extra_paths(defaults))
    found: dict[str, GatewayAgent] = {}
    passed_over: list[str] = []
    names: dict[str, str] = {}
    listed = list(_entries(agents))
    chosen = next((name for name, entry in listed if entry.get("default") is True), None)
    first = chosen if chosen is not None else next((name for name, _ in listed), None)
    for name, entry in listed:
        agent_id = normalise_agent_id(name)
        if agent_id is None:
            passed_over.append(f'agent "{name:.80}" has no id that can be used')
            continue
        if agent_id in found:
            passed_over.append(
                f'agent "{name:.80}" is "{agent_id}" like "{names[agent_id]:.80}", which was taken'
            )
            continue
        names[agent_id] = name
        given = entry.get("workspace", defaults.get("workspace") if name == first else None)
        found[agent_id] = GatewayAgent(
            id=agent_id,
            workspace=given if isinstance(given, str) and given.strip() else None,
            default=name == first,
            extra_paths=tuple(dict.fromkeys((*common, *_extra_paths(entry)))),
        )
    if found:
        return Gateway(agents=tuple(found.values()), passed_over=tuple(passed_over))
    usual = defaults.get("workspace")
    workspace = usual if isinstance(usual, str) and usual.strip() else None
    main = GatewayAgent(id=DEFAULT_AGENT, workspace=workspace, default=True, extra_paths=tuple(common))
    return Gateway(agents=(main,), passed_over=tuple(passed_over))


def _entries(agents: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Both forms of a roster: a table by id, and the older list."""
    for name, entry in _table(agents.get("entries")).items():
        yield str(name), _table(entry)
    listed = agents.get("list")
    for entry in listed if isinstance(listed, list) else []:
        given = _table(entry).get("id")
        if isinstance(given, str):
            yield given, _table(entry)


def _extra_paths(owner: object) -> tuple[ExtraPathSettings, ...]:
    """The extra paths of a table, by whichever name its release has for the search settings."""
    found: list[ExtraPathSettings] = []
    table = _table(owner)
    for search in (table.get("memorySearch"), table.get("search"), _table(table.get("memory")).get("search")):
        listed = _table(search).get("extraPaths")
        for item in listed if isinstance(listed, list) else []:
            path, pattern = (_table(item).get("path"), _table(item).get("pattern"))
            if isinstance(item, str) and item.strip():
                found.append(ExtraPathSettings(item.strip()))
            elif isinstance(path, str) and path.strip():
                found.append(
                    ExtraPathSettings(path.strip(), pattern if isinstance(pattern, str) and pattern else None)
                )
    return tuple(found)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

"""The tables of the README that are made from the code.

    python tests/structure/readme_tables.py

writes them anew. Each stands between `<!-- table: NAME -->` and `<!-- end -->`; `test_readme.py` holds them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from sidecar import client as client_package
from sidecar.api.counters import Counters
from sidecar.api.metrics import Exposition, Figures
from sidecar.cli import cli
from sidecar.domain import memory
from sidecar.domain import provider as contract
from sidecar.service.advice import REMEDIES
from sidecar.settings.keys import ENVIRONMENT, FIELDS, env_name

README = Path(__file__).parents[2] / "README.md"
_BLOCK = re.compile(r"(<!-- table: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def settings() -> Iterator[str]:
    """Every key of the configuration file."""
    yield "| key | default | accepts | is |"
    yield "|---|---|---|---|"
    for key, field in FIELDS.items():
        default = (
            ""
            if field.default is None
            else f"`{field.default}`"
            if " " not in field.default
            else field.default
        )
        shown = f"tokens[].{key.removeprefix('tokens.')}" if key.startswith("tokens.") else key
        yield f"| `{shown}` | {_cell(default)} | {_cell(field.kind.accepts)} | {_cell(field.purpose)} |"


def variables() -> Iterator[str]:
    """Environment variables that stand for no key of the file; the others are named by a rule."""
    keyed = {name for key in FIELDS if (name := env_name(key)) is not None}
    yield "| variable | is |"
    yield "|---|---|"
    for name, purpose in ENVIRONMENT.items():
        if name not in keyed:
            yield f"| `{name}` | {_cell(purpose)} |"


def flags() -> Iterator[str]:
    """Every flag of every command; those that all commands share once."""
    yield "| command | flag | does |"
    yield "|---|---|---|"
    shared = {param.name for param in cli.params}
    for param in cli.params:
        if isinstance(param, click.Option) and param.name != "version":
            yield _flag("every one", param)
    for name, command in walked(cli, ""):
        for param in command.params:
            if isinstance(param, click.Option) and param.name not in shared:
                yield _flag(f"`{name}`", param)


def walked(group: click.Group, prefix: str) -> Iterator[tuple[str, click.Command]]:
    """The commands in order, those below a command after it."""
    for name, command in group.commands.items():
        yield f"{prefix}{name}", command
        if isinstance(command, click.Group):
            yield from walked(command, f"{prefix}{name} ")


def metrics() -> Iterator[str]:
    """Every family that `/metrics` can show of ours."""
    figures = Figures(agents={}, in_work=0, stalls=0, longest_stall=0.0)
    page = Exposition(Counters()).render(figures).decode()
    helps = dict(re.findall(r"^# HELP (memory_sidecar_\S+) (.+)$", page, re.MULTILINE))
    kinds = dict(re.findall(r"^# TYPE (memory_sidecar_\S+) (\S+)$", page, re.MULTILINE))
    yield "| metric | kind | is |"
    yield "|---|---|---|"
    for name, text in helps.items():
        yield f"| `{name}` | {kinds[name]} | {_cell(text)} |"


def reasons() -> Iterator[str]:
    """Why a file is left out or cut short, and the one thing to do."""
    yield "| reason | what to do |"
    yield "|---|---|"
    for reason, remedy in REMEDIES.items():
        yield f"| `{reason}` | {_cell(remedy or 'nothing')} |"


def client() -> Iterator[str]:
    """The public surface of the Python client, with its types."""
    yield from _surface((client_package.SidecarClient,), functions=(client_package.discover,))


def provider() -> Iterator[str]:
    """The contract of a memory provider, with its types."""
    kinds = (
        contract.MemoryProvider, contract.ProviderHandle, contract.CandidateHandle, contract.RefreshHandle,
        contract.ProviderSetup, contract.Capabilities, contract.CandidateRequest, contract.Health,
        memory.SearchRequest, memory.Page, memory.Hit, memory.Reference, memory.Citation,
        memory.GetRequest, memory.Found, memory.NotFound,
    )  # fmt: skip
    yield from _surface(kinds)


def _surface(kinds: tuple[type, ...], functions: tuple[Any, ...] = ()) -> Iterator[str]:
    yield "| name | type | is |"
    yield "|---|---|---|"
    for function in functions:
        yield f"| `{function.__name__}` | {_typed(function)} | {_said(function)} |"
    for kind in kinds:
        fields = getattr(kind, "__struct_fields__", None)
        if fields is not None:
            shown = ", ".join(f"{name}: {kind.__annotations__[name]}" for name in fields)
            typed = f"`{_cell(shown)}`" if shown else ""
            yield f"| `{kind.__name__}` | {typed} | {_said(kind)} |"
            continue
        yield f"| `{kind.__name__}` | | {_said(kind)} |"
        for name, member in vars(kind).items():
            if name.startswith("_"):
                continue
            value = member.fget if isinstance(member, property) else getattr(kind, name)
            typed = _typed(value, property=isinstance(member, property))
            yield f"| `{kind.__name__}.{name}` | {typed} | {_said(value)} |"


def _typed(function: Any, *, property: bool = False) -> str:
    signature = inspect.signature(function)
    if property:
        return f"`{_cell(str(signature.return_annotation))}`"
    plain = [item for name, item in signature.parameters.items() if name != "self"]
    text = str(signature.replace(parameters=plain)).replace("'", "")
    return f"`{_cell(text)}`" + (", awaited" if inspect.iscoroutinefunction(function) else "")


def _said(thing: Any) -> str:
    return _cell((inspect.getdoc(thing) or "").split("\n\n")[0])


TABLES = {
    "client": client,
    "provider": provider,
    "settings": settings,
    "variables": variables,
    "flags": flags,
    "metrics": metrics,
    "reasons": reasons,
}


def _flag(command: str, option: click.Option) -> str:
    value = "" if option.is_flag else f" {_cell(option.metavar or _choices(option))}"
    return f"| {command} | `{option.opts[0]}{value}` | {_cell(option.help or '')} |"


def _choices(option: click.Option) -> str:
    kind = option.type
    return "|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else kind.name.upper()


def _cell(text: str) -> str:
    return (
        " ".join(text.split())
        .replace("|", "\\|")
        .replace("<id>", "&lt;id&gt;" if "`" not in text else "<id>")
    )


def rewritten(text: str) -> str:
    """The README with every table made anew."""

    def made(found: re.Match[str]) -> str:
        lines = "\n".join(TABLES[found[2]]())
        return f"{found[1]}{lines}\n{found[4]}"

    return _BLOCK.sub(made, text)


def shown(text: str) -> list[str]:
    """The names of the tables that a text has."""
    return [found[2] for found in _BLOCK.finditer(text)]


if __name__ == "__main__":
    README.write_text(rewritten(README.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{', '.join(shown(README.read_text(encoding='utf-8')))}\n")

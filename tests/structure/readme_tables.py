"""The tables of the README that are made from the code.

    python tests/structure/readme_tables.py

writes them anew. Each stands between `<!-- table: NAME -->` and `<!-- end -->`; `test_readme.py` holds them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from sidecar.api.counters import Counters
from sidecar.api.metrics import Exposition, Figures
from sidecar.cli import cli
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


TABLES = {
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

"""`config show` and `config check`: what is in force and whence; whether a file is sound (spec §2)."""

from __future__ import annotations

import os

import click
import msgspec

from sidecar.cli.options import flags_of, loaded_of, shared
from sidecar.cli.output import note, print_json, printable
from sidecar.domain.errors import SettingsError
from sidecar.settings.keys import ENV_PREFIX
from sidecar.settings.load import load, refuse_missing_folder
from sidecar.settings.show import rows


@click.group()
def config() -> None:
    """Show the effective configuration, or check a file."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print a list of rows as JSON.")
@shared
@click.pass_context
def show(ctx: click.Context, as_json: bool) -> int:
    """Print every effective value with its origin."""
    found = rows(loaded_of(ctx, require_workspace=False))
    if as_json:
        print_json(found)
        return 0
    pairs = [(f"{row.key} = {_toml(row.value)}", f"# {row.origin}: {row.purpose}") for row in found]
    width = min(52, max(len(left) for left, _ in pairs))
    for left, right in pairs:
        click.echo(printable(f"{left:<{width}}  {right}"))
    return 0


def _toml(value: object) -> str:
    return "(none)" if value is None else msgspec.json.encode(value).decode()


@config.command()
@click.argument("file", required=False)
@shared
@click.pass_context
def check(ctx: click.Context, file: str | None) -> int:
    """Check FILE, or --config.

    Judges the file by itself, without the environment, and exits 2 where `serve` would refuse it. A workspace
    that is not on this machine is a warning.
    """
    flags = flags_of(ctx)
    chosen = file or flags.config or os.environ.get(f"{ENV_PREFIX}CONFIG")
    if not chosen:
        raise click.UsageError("config check needs a FILE")
    # A file is judged by itself: neither environment nor other flags may mend or break it.
    environ = {key: value for key, value in os.environ.items() if not key.startswith(ENV_PREFIX)}
    loaded = load(msgspec.structs.replace(flags, config=chosen), environ, require_workspace=False)
    for agent in loaded.settings.agents.values():
        key = f"agents.{agent.id}.workspace"
        if agent.workspace is not None and loaded.origins.get(key) == str(loaded.config_file):
            # The file is sound all the same: the folder may be that of another machine.
            try:
                refuse_missing_folder(agent.workspace, f"{loaded.config_file}: {key}", given=True)
            except SettingsError as refusal:
                note(f"warning: {refusal.message}")
    for warning in loaded.warnings:
        note(f"warning: {warning}")
    if loaded.config_file is None:
        raise SettingsError("config check needs a FILE")
    click.echo(printable(f"{loaded.config_file}: ok ({', '.join(loaded.settings.agents)})"))
    return 0

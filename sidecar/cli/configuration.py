"""`config show` and `config check`: what is in force and whence; whether a file is sound (spec §2)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click
import msgspec

from sidecar.cli.options import flags_of, loaded_of, shared
from sidecar.cli.output import note, print_json, printable
from sidecar.domain.errors import SettingsError
from sidecar.settings.keys import ENV_PREFIX
from sidecar.settings.load import Loaded, load, refuse_missing_folder
from sidecar.settings.show import rows
from sidecar.settings.tokens import token_faults


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
    """Check FILE, or --config, or the file in the usual place.

    Exits 2 where `serve` would refuse it here: keys, values, workspaces and the secrets of tokens. Variables
    that are not set are warnings, since the service may have them.
    """
    flags = flags_of(ctx)
    chosen = file or flags.config or os.environ.get(f"{ENV_PREFIX}CONFIG")
    # A file is judged by itself: neither environment nor other flags may mend or break its values.
    environ = {key: value for key, value in os.environ.items() if not key.startswith(ENV_PREFIX)}
    loaded = load(msgspec.structs.replace(flags, config=chosen), environ, require_workspace=False)
    if loaded.config_file is None:
        raise click.UsageError("config check needs a FILE, there is none in the usual place")
    for warning in (*loaded.warnings, *_judged(loaded)):
        note(f"warning: {warning}")
    click.echo(printable(f"{loaded.config_file}: ok ({', '.join(loaded.settings.agents)})"))
    return 0


def _judged(loaded: Loaded) -> Iterator[str]:
    """Warnings about what a start looks at beside the file; raises `SettingsError` where it would refuse."""
    for agent in loaded.settings.agents.values():
        key = f"agents.{agent.id}.workspace"
        if agent.workspace is None:
            continue
        named = loaded.origins.get(key) == str(loaded.config_file)
        try:
            refuse_missing_folder(
                agent.workspace, f"{loaded.config_file}: {key}" if named else key, given=named
            )
        except SettingsError as refusal:
            # Another may be given to `serve`, where the file names none.
            if named:
                raise
            yield refusal.message
    faults = token_faults(loaded.settings.tokens, os.environ)
    for token in loaded.settings.tokens:
        if token.name in faults:
            if token.secret_env is None or os.environ.get(token.secret_env, "").strip():
                raise faults[token.name]
            yield faults[token.name].message
    variable = loaded.settings.embeddings.api_key_env
    if variable is not None and not os.environ.get(variable, "").strip():
        yield f"embeddings.api_key_env: environment variable {variable} is not set"

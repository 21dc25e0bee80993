"""`doctor`: every check, its findings, and the one thing to do about each (spec §2)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click

from sidecar.cli.check_files import check_state, check_transcripts, check_workspaces
from sidecar.cli.check_system import (
    check_embeddings,
    check_limits,
    check_port,
    check_service,
    check_tokens,
    check_watch,
)
from sidecar.cli.finding import Finding, error, fine, worst
from sidecar.cli.options import listening, loaded_of, shared
from sidecar.cli.output import action_line, print_json, printable
from sidecar.domain.errors import SettingsError
from sidecar.settings.load import Loaded

EXIT_CODES = {"ok": 0, "warning": 1, "error": 2}
_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@listening
@shared
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> int:
    """Check the installation.

    Says the one thing to do about each finding. Exits 0 when nothing is wrong, 1 for warnings, 2 for errors.
    """
    try:
        loaded = loaded_of(ctx, require_workspace=False)
    except SettingsError as refusal:
        findings = [error("configuration", refusal.message, "correct what the line names, and ask again")]
    else:
        findings = list(examine(loaded))
    level = worst(findings)
    if as_json:
        print_json({"status": level, "findings": findings})
        return EXIT_CODES[level]
    for finding in findings:
        word = click.style(f"{finding.level:<8}", fg=_COLOURS[finding.level])
        click.echo(f"{word}{printable(f'{finding.check}: {finding.message}')}")
        if finding.action is not None:
            click.echo(f"      {action_line(finding.action)}")
    return EXIT_CODES[level]


def examine(loaded: Loaded) -> Iterator[Finding]:
    """The findings of every check, in the order in which a user would mend them."""
    home = Path(os.environ.get("HOME") or Path.home())
    source = f"{loaded.config_file} is sound" if loaded.config_file else "no file, defaults and flags only"
    yield fine("configuration", source)
    yield from check_workspaces(loaded, home=home)
    yield from check_transcripts(loaded)
    yield from check_state(loaded, home=home)
    yield from check_service(loaded)
    yield from check_limits()
    yield from check_watch(loaded)
    yield from check_embeddings(loaded, os.environ)
    yield from check_tokens(loaded, os.environ)
    yield from check_port(loaded.settings)

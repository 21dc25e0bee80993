"""`export`: a workspace into the store that owns the agent's memory from now on."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import click

from sidecar.cli.caller import chosen_agent
from sidecar.cli.options import loaded_of, shared
from sidecar.cli.output import note, print_json
from sidecar.cli.service import progress_bar

LEFT_OUT = 1


@click.command()
@click.option("--to", "target", type=click.Choice(["powercontext"]), required=True, help="The store.")
@click.option("--dry-run", is_flag=True, help="Count the facts and name what is left out; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@shared
@click.pass_context
def export(ctx: click.Context, target: str, dry_run: bool, as_json: bool) -> int:
    """Bring the workspace's facts into a store, each once.

    May be broken off and begun again. The agent's provider must be the store already. Exits 1 when something
    of the workspace was left out.
    """
    loaded = loaded_of(ctx)
    runtime: Any = importlib.import_module("sidecar.runtime")
    with progress_bar("exporting") as progress:
        done = asyncio.run(runtime.export(loaded, chosen_agent(loaded), only_look=dry_run, progress=progress))
    if as_json:
        print_json(
            {
                "agentId": done.agent_id,
                "facts": done.facts,
                "written": done.written,
                "present": done.present,
                "leftOut": [{"place": item.place, "reason": item.reason} for item in done.left_out],
            }
        )
    elif dry_run:
        click.echo(f"{done.agent_id}: {done.facts} facts would be looked for in {target}")
    else:
        click.echo(f"{done.agent_id}: {done.written} facts written to {target}, {done.present} were there")
    for item in done.left_out:
        note(f"left out: {item.place}: {item.reason}")
    return LEFT_OUT if done.left_out else 0

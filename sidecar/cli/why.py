"""`why`: why a line of a note is found by a query, or is not, and what to do about it (spec §2)."""

from __future__ import annotations

import re

import click

from sidecar.cli.asking import ask
from sidecar.cli.caller import Payload, chosen_agent
from sidecar.cli.options import loaded_of, shared
from sidecar.cli.output import action_line, print_json, printable
from sidecar.text.naming import split_name

NOT_FOUND = 1
_FRAGMENT = re.compile(r"L(\d+)")


@click.command()
@click.argument("place", metavar="PATH[:LINE]")
@click.argument("query", nargs=-1, required=True)
@click.option("--project", "projects", multiple=True, metavar="KEY", help="An active project; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print the payload as JSON.")
@shared
@click.pass_context
def why(
    ctx: click.Context, place: str, query: tuple[str, ...], projects: tuple[str, ...], as_json: bool
) -> int:
    """Say why a note or line is found, or not.

    PATH, or one LINE of it, is looked for among the results of QUERY.

    Exits 0 when it is found, 1 when it is not.
    """
    loaded = loaded_of(ctx)
    path, fragment = split_name(place)
    params: Payload = {"agentId": chosen_agent(loaded).id, "path": path, "query": " ".join(query)}
    line = _FRAGMENT.match(fragment or "")
    if line is not None:
        params["line"] = int(line[1])
    if projects:
        params["activeProjectKeys"] = list(projects)
    found = ask(loaded, "sidecar.why", params)
    if as_json:
        print_json(found)
    else:
        click.echo(printable(f"{place}: {found['verdict']}: {found['reason']}"))
        if "action" in found:
            click.echo(action_line(str(found["action"])))
    return 0 if found["verdict"] == "found" else NOT_FOUND

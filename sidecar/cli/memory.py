"""`search` and `get`: one method call, printed (spec §2)."""

from __future__ import annotations

import click

from sidecar.cli.asking import ask
from sidecar.cli.caller import Payload, chosen_agent
from sidecar.cli.options import loaded_of, shared
from sidecar.cli.output import note, print_hits, print_json, print_text
from sidecar.text.naming import split_name

NOT_FOUND = 1
_FLAGS = {"path": "--path", "since": "--since", "until": "--until", "maxChars": "--max-chars"}


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print the payload as JSON.")
@click.option("--max-results", type=click.IntRange(1), metavar="N", help="At most this many results (1-50).")
@click.option("--min-score", type=float, metavar="X", help="Only results that score higher.")
@click.option(
    "--source",
    "sources",
    type=click.Choice(["memory", "sessions"]),
    multiple=True,
    help="Only this source; may be given twice.",
)
@click.option(
    "--path", metavar="GLOB", help="Only notes whose path fits: '*.md', 'memory/topics/', 'memory/**/2026-*'."
)
@click.option("--since", metavar="DATE", help="Only notes of this day (YYYY-MM-DD) or later, by file name.")
@click.option("--until", metavar="DATE", help="Only notes of this day or earlier.")
@click.option(
    "--max-chars", type=click.IntRange(1), metavar="N", help="At most so much text; the best hit always."
)
@click.option("--v1", is_flag=True, help="Ask the file-shaped contract.")
@click.option("--explain", is_flag=True, help="Say what each leg and adjustment gave to the score.")
@shared
@click.pass_context
def search(
    ctx: click.Context,
    query: tuple[str, ...],
    as_json: bool,
    max_results: int | None,
    min_score: float | None,
    sources: tuple[str, ...],
    path: str | None,
    since: str | None,
    until: str | None,
    max_chars: int | None,
    v1: bool,
    explain: bool,
) -> int:
    """Search the memory for QUERY."""
    filters = {"path": path, "since": since, "until": until, "maxChars": max_chars}
    asked = {name: value for name, value in filters.items() if value is not None}
    if v1 and (sources or explain or asked):
        flag = "--source" if sources else "--explain" if explain else _FLAGS[next(iter(asked))]
        raise click.UsageError(f"--v1 has no {flag}")
    if explain and max_chars is not None:
        raise click.UsageError("--explain has no --max-chars")
    loaded = loaded_of(ctx)
    params: Payload = {"query": " ".join(query), "agentId": chosen_agent(loaded).id}
    if not v1:
        params["version"] = 2
    if max_results is not None:
        params["maxResults"] = max_results
    if min_score is not None:
        params["minScore"] = min_score
    if sources:
        params["sources"] = list(dict.fromkeys(sources))
    params |= asked
    method = "sidecar.explain" if explain else "sidecar.search" if asked else "memory.search"
    payload = ask(loaded, method, params)
    if as_json:
        print_json(payload)
    else:
        print_hits(payload, workspace=chosen_agent(loaded).workspace, explain=explain)
    return 0


@click.command()
@click.argument("identifier", metavar="ID")
@click.option("--from", "from_line", type=click.IntRange(1), metavar="N", help="First line.")
@click.option("--lines", "line_count", type=click.IntRange(1), metavar="N", help="How many lines.")
@click.option("--revision", metavar="R", help="The text as it was named, or nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the payload as JSON.")
@shared
@click.pass_context
def get(
    ctx: click.Context,
    identifier: str,
    from_line: int | None,
    line_count: int | None,
    revision: str | None,
    as_json: bool,
) -> int:
    """Print what ID names.

    ID is a path or a path with lines: memory/notes.md, memory/notes.md#L3-L7, memory/notes.md:3. Exits 1 when
    there is no such text, also past a note's end.
    """
    loaded = loaded_of(ctx)
    agent = chosen_agent(loaded)
    reference: Payload = {"providerId": agent.provider_id, **reference_of(identifier)}
    if revision is not None:
        reference["revision"] = revision
    params: Payload = {"agentId": agent.id, "reference": reference}
    if from_line is not None:
        params["from"] = from_line
    if line_count is not None:
        params["lines"] = line_count
    payload = ask(loaded, "memory.get", params)
    first = payload.get("from")
    ended = payload.get("lines") == 0 and isinstance(first, int) and first > 1
    found = payload.get("status") == "ok" and not ended
    if as_json:
        print_json(payload)
    elif found:
        print_text(payload, str(payload["text"]))
    elif ended:
        note(f"not found: {identifier} ends before line {first}")
    else:
        note(f"not found: {identifier}")
    return 0 if found else NOT_FOUND


def reference_of(identifier: str) -> dict[str, object]:
    """`id` and, if lines are named, `fragment`, as `text/naming.py` splits them."""
    path, fragment = split_name(identifier)
    return {"id": path} if fragment is None else {"id": path, "fragment": fragment}

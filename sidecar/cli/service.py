"""`serve`, `index` and `token`: the service itself, its index, its secrets (spec §2, §3)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import click

from sidecar.cli.caller import Caller, Payload, Progress, chosen_agents, running_service, runtime
from sidecar.cli.options import listening, loaded_of, shared
from sidecar.cli.output import print_counts
from sidecar.domain.errors import SidecarError
from sidecar.settings.load import Loaded
from sidecar.settings.model import Role, watched_roots
from sidecar.settings.state import StateDirectory
from sidecar.settings.tokens import ROLES, client_secret, create_tokens

ASK_SECONDS = 0.3
"""How often a service that does the work is asked how far it is."""


@click.command()
@listening
@shared
@click.pass_context
def serve(ctx: click.Context) -> int:
    """Run the service until SIGTERM or SIGINT."""
    loaded = loaded_of(ctx, service=True)
    return runtime().serve(loaded)


@click.command()
@click.option("--rebuild", is_flag=True, help="Throw the index away and build it anew.")
@click.option("--purge", is_flag=True, help="Wipe text that left the corpus from the state at once.")
@shared
@click.pass_context
def index(ctx: click.Context, rebuild: bool, purge: bool) -> int:
    """Scan once to completion.

    Beside a running service that service does it.
    """
    loaded = loaded_of(ctx)
    for counts in asyncio.run(_index(loaded, rebuild=rebuild, purge=purge)):
        print_counts(counts)
    return 0


async def _index(loaded: Loaded, *, rebuild: bool, purge: bool) -> Sequence[Mapping[str, object]]:
    with progress_bar("indexing") as progress:
        async with running_service(loaded) as service:
            if service is not None:
                wanted = {"rebuild": rebuild, "purge": purge}
                agents = chosen_agents(loaded)
                counts = []
                for done, agent_id in enumerate(agents):
                    progress(done, len(agents))
                    # A scan takes as long as it takes, and the user can interrupt it.
                    asked = {"agentId": agent_id, **wanted}
                    call = service.call("sidecar.refresh", asked, timeout_seconds=None)
                    counts.append(await watched(service, agent_id, call, progress))
                return counts
        return await runtime().index(loaded, rebuild=rebuild, purge=purge, progress=progress)


async def watched(
    service: Caller, agent_id: str, call: Awaitable[Payload], progress: Progress
) -> Mapping[str, object]:
    """What a call gives; while it runs, its service is asked how far it is, where somebody watches."""
    task = asyncio.ensure_future(call)
    while progress is not _silent and not task.done():
        with suppress(SidecarError):
            details: Any = (await service.call("memory.status", {"agentId": agent_id})).get("details")
            if isinstance(details, Mapping) and isinstance(details.get("files"), Mapping):
                files = details["files"]
                progress(files["indexed"] - files["pending"], files["onDisk"] or 0)
        await asyncio.wait({task}, timeout=ASK_SECONDS)
    return await task


@contextmanager
def progress_bar(doing: str) -> Iterator[Progress]:
    """A callback `(done, total)` that draws a bar named `doing` on a terminal and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield _silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _silent(_done: int, _total: int) -> None:
    """Progress that nobody watches."""


@click.command()
@click.option(
    "--role", type=click.Choice(ROLES), default="operator", show_default=True, help="Whose token to print."
)
@shared
@click.pass_context
def token(ctx: click.Context, role: str) -> int:
    """Print the token of a role.

    Where none is configured, the generated ones are created if they do not exist yet.
    """
    loaded = loaded_of(ctx)
    settings = loaded.settings
    if not settings.tokens:
        roots = watched_roots(settings, home=Path.home())
        create_tokens(StateDirectory.open(settings.state_dir, roots=roots, agents=settings.agents).path)
    click.echo(client_secret(settings, role=cast(Role, role), agent=loaded.agent))
    return 0

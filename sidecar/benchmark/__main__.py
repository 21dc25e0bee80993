"""`python -m sidecar.benchmark`: the command line of the benchmarks."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec

from sidecar.benchmark.ablation import ablate
from sidecar.benchmark.chaos import Broken, Chaos, Plan
from sidecar.benchmark.fuzz import Report, Target, bombard
from sidecar.benchmark.hostile import HostileResult, ask_hostile
from sidecar.benchmark.questions import Question, read_questions
from sidecar.benchmark.retrieval import Asking, measure
from sidecar.benchmark.scoring import Score, Summary, summarise
from sidecar.benchmark.serving import own_process, own_service
from sidecar.benchmark.speed import SEED, Amount, measure_speed
from sidecar.benchmark.speed_agents import measure_agents
from sidecar.benchmark.speed_readme import readme_table
from sidecar.benchmark.speed_rows import Row, medians
from sidecar.benchmark.speed_rows import table as speed_table
from sidecar.client import SidecarClient
from sidecar.domain.errors import SettingsError, SidecarError

FAILED = 2
PROGRESS_SECONDS = 60.0
AGENT_NOTES = 200
Pair = tuple[Path, tuple[Question, ...]]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def benchmark() -> None:
    """Measure a memory-sidecar service from outside."""


@benchmark.command()
@click.argument("pairs", nargs=-1, required=True, metavar="WORKSPACE QUERIES [WORKSPACE QUERIES]...")
@click.option("--url", help="ask this running service instead of one started for the purpose")
@click.option("--token-env", metavar="NAME", help="environment variable with its operator token")
@click.option("--max-results", type=click.IntRange(1, 50), default=50, show_default=True)
@click.option("--no-min-score", is_flag=True, help="leave the cut to the service (else minScore is 0)")
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
def retrieval(
    pairs: tuple[str, ...],
    url: str | None,
    token_env: str | None,
    max_results: int,
    no_min_score: bool,
    as_json: bool,
) -> None:
    """How much of the evidence for questions is found. Several pairs are pooled into one result."""
    if (url is None) != (token_env is None):
        raise click.UsageError("--url and --token-env go together")
    if url is not None and len(pairs) > 2:
        raise click.UsageError("with --url there is one workspace, the one of that service")
    asking = Asking(max_results=max_results, default_cut=no_min_score)
    sets = _sets(pairs)
    if url is not None and token_env is not None:
        scored = asyncio.run(_asked_at(url, _secret(token_env), sets[0][1], asking))
    else:
        scored = asyncio.run(_asked_of_own(sets, asking))
    summary = summarise(scored)
    click.echo(msgspec.json.encode(summary).decode() if as_json else table(summary))


@benchmark.command()
@click.argument("pairs", nargs=-1, required=True, metavar="WORKSPACE QUERIES [WORKSPACE QUERIES]...")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object a row instead of a table")
def ablation(pairs: tuple[str, ...], as_json: bool) -> None:
    """How far each idea of the ranking takes us: the same questions with one left out at a time.

    In this process and without a service; `as it is` gives the figures of `retrieval`. Local embeddings.
    """
    asyncio.run(_ablated(_sets(pairs), as_json))


async def _ablated(sets: list[Pair], as_json: bool) -> None:
    if not as_json:
        click.echo(f"{'any@1':>6}{'any@6':>7}{'frac@6':>8}{'@4000c':>8}{'hits':>6}  variant")
    async for row in ablate(sets):
        found = row.found
        if as_json:
            click.echo(msgspec.json.encode(row).decode())
        else:
            click.echo(
                f"{found.any_1!s:>6}{found.any_6!s:>7}{found.part_6!s:>8}{found.part_budget!s:>8}"
                f"{found.hits!s:>6}  {row.name}"
            )


@benchmark.command()
@click.argument("workspace", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--requests", type=click.IntRange(1), default=30_000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="the same seed gives the same requests")
def fuzz(workspace: Path, requests: int, seed: int) -> None:
    """Send hostile requests to a fresh service over WORKSPACE; exit 1 if an answer is not as declared.

    SIGINT and SIGTERM end it early, with the outcome of what was sent.
    """
    report, alive = asyncio.run(_fuzzed(workspace.resolve(), requests, seed))
    counts = " ".join(f"{status}:{count}" for status, count in sorted(report.statuses.items()))
    click.echo(
        f"{report.requests} requests, seed {seed}, by status {counts}, broken off {report.unanswered}, "
        f"wrong {len(report.findings)}, the same process {'lives' if alive else 'IS GONE'}"
    )
    for finding in report.findings:
        click.echo(finding)
    if report.findings or not alive:
        sys.exit(1)


async def _fuzzed(workspace: Path, requests: int, seed: int) -> tuple[Report, bool]:
    async with own_process(workspace) as own:
        address = urlsplit(own.url)
        target = Target(
            host=address.hostname or "",
            port=address.port or 0,
            token=own.secret,
            secrets=(str(own.state.parent).encode(), str(workspace).encode(), b"root:x:0"),
        )
        async with SidecarClient.over_tcp(own.url, own.secret) as client:
            # Until the first scan is indexed, `/readyz` answers 503 with counts, which is no fault.
            await client.call("sidecar.refresh", {}, timeout_seconds=None)
        report = Report()

        def end_early() -> None:
            report.over = True

        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, end_early)
        progress = asyncio.create_task(_progress_of(report, requests))
        try:
            await bombard(target, requests=requests, seed=seed, report=report)
        finally:
            progress.cancel()
        return report, own.process.returncode is None


async def _progress_of(report: Report, requests: int) -> None:
    while True:
        await asyncio.sleep(PROGRESS_SECONDS)
        click.echo(f"{report.requests} of {requests}, wrong {len(report.findings)}", err=True)


@benchmark.command()
@click.argument("workspace", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--count", type=click.IntRange(1), default=5000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
def hostile(workspace: Path, count: int, seed: int, as_json: bool) -> None:
    """Random and hostile query strings over a workspace: errors, and latencies by length class."""
    words = sorted({word for path in workspace.rglob("*.md") for word in path.read_text("utf-8").split()})
    if not words:
        raise click.UsageError("the workspace has no words")
    result = asyncio.run(_hostile(workspace, count, seed, words))
    if as_json:
        click.echo(msgspec.json.encode(result).decode())
    else:
        click.echo(f"{'up to':>8}{'queries':>9}{'p50 ms':>9}{'p99 ms':>9}{'worst':>9}{'p99/p50':>9}")
        for row in result.classes:
            click.echo(
                f"{row.longest:>8}{row.queries:>9}{row.p50:>9}{row.p99:>9}{row.worst:>9}{row.spread:>9}"
            )
        click.echo(f"{result.failed} failed" + "".join(f"\n  {error}" for error in result.errors))
    if result.failed:
        sys.exit(1)


@benchmark.command()
@click.option("--notes", type=click.IntRange(1), multiple=True, default=(1000,), show_default=True)
@click.option("--runs", type=click.IntRange(1), default=1, show_default=True, help="show medians of so many")
@click.option("--searches", type=click.IntRange(1), default=300, show_default=True, help="of each kind")
@click.option("--edits", type=click.IntRange(1), default=120, show_default=True)
@click.option("--seed", type=int, default=SEED, show_default=True, help="the same seed gives the same notes")
@click.option("--agents", type=click.IntRange(0), default=0, help="also so many agents of 200 notes each")
@click.option("--json", "as_json", is_flag=True, help="print JSON instead of a table")
@click.option("--readme", is_flag=True, help="print the README's table instead")
def speed(
    notes: tuple[int, ...],
    runs: int,
    searches: int,
    edits: int,
    seed: int,
    agents: int,
    as_json: bool,
    readme: bool,
) -> None:
    """Index, search, edit and restart over generated notes; repeat --notes for more sizes.

    Every figure stands beside its floor: the same notes through the bare libraries, in the same run. The CPU
    column is what the service spent on one such step, in the unit of the figure.

    \b
    The README's table:   python -m sidecar.benchmark speed --notes 1000 --notes 10000 --readme
    Everything, an hour:  python -m sidecar.benchmark speed --notes 1000 --notes 10000 --notes 50000 \\
                          --agents 50 --readme
    """
    amount = Amount(searches=searches, edits=edits)
    rows: list[Row] = []
    for count in notes:
        rows += medians([asyncio.run(measure_speed(count, amount, seed)) for _ in range(runs)])
    if agents:
        rows += medians([asyncio.run(measure_agents(agents, AGENT_NOTES, seed)) for _ in range(runs)])
    if readme:
        click.echo(readme_table(rows, runs))
    else:
        click.echo(msgspec.json.encode(rows).decode() if as_json else speed_table(rows))


async def _hostile(workspace: Path, count: int, seed: int, words: list[str]) -> HostileResult:
    async with own_service(workspace) as client:
        await client.call("sidecar.refresh", {}, timeout_seconds=None)
        return await ask_hostile(client, count=count, seed=seed, words=words)


@benchmark.command()
@click.option("--minutes", type=click.FloatRange(min=0.05), default=3.0, show_default=True)
@click.option("--kills", type=click.IntRange(0), default=0, help="go on until it was killed so many times")
@click.option("--damage", is_flag=True, help="also damage a file of the state before every other restart")
@click.option("--seed", type=int, default=1, show_default=True, help="the same seed makes the same choices")
def chaos(minutes: float, kills: int, damage: bool, seed: int) -> None:
    """Change, break, kill and read at once, and check the promises of the service against a model.

    \b
    A writer saves, moves and deletes notes as editors and sync tools do; a fault injector puts times back,
    swaps folders, cuts files, plants links, pipes and odd names; a killer sends kill -9 and starts the
    service again over the state that is left (in the first half; the second half shows whether memory and
    descriptors stay flat, which is judged in runs of 4 minutes or more); readers search and get meanwhile.
    \b
    Must hold: no text is served that had left the disk before the question; every line is found within 30 s
    of quiet; a reference gives the text that was shown or nothing; no answer but declared ones; every kill
    is survived without help. The first thing that does not hold is printed with what came before it, and
    the exit status is 1. Timing is the machine's, so a seed repeats the choices, not each moment. SIGINT and
    SIGTERM end it early, with the outcome of what was done.

    \b
    About 3 minutes:       python -m sidecar.benchmark chaos
    Half an hour:          python -m sidecar.benchmark chaos --minutes 30 --seed 7
    500 kills:             python -m sidecar.benchmark chaos --kills 500
    Damaged state as well: python -m sidecar.benchmark chaos --kills 100 --damage
    """
    with tempfile.TemporaryDirectory(prefix="memory-sidecar-chaos-") as directory:
        plan = Plan(seconds=minutes * 60, kills=kills, damage=damage, seed=seed)
        under_way = Chaos(Path(directory), plan, say=partial(click.echo, err=True))
        broken: Broken | None = None
        try:
            asyncio.run(under_way.run())
        except Broken as found:
            broken = found
        outcome = under_way.outcome
        click.echo(", ".join(f"{count} {kind}" for kind, count in sorted(outcome.done.items())))
        click.echo(f"seed {seed}, all found within {outcome.slowest:.1f} s of quiet")
        if outcome.usage:
            first, last = outcome.usage[0], outcome.usage[-1]
            click.echo(
                f"memory {first.megabytes} to {last.megabytes} MB, "
                f"descriptors {first.descriptors} to {last.descriptors}, after warm-up"
            )
        if broken is not None:
            click.echo(f"BROKEN: {broken}")
            click.echo(
                "again: python -m sidecar.benchmark chaos "
                f"--minutes {minutes:g} --kills {kills} --seed {seed}{' --damage' if damage else ''}"
            )
            click.echo("before it:\n  " + "\n  ".join(under_way.events))
            click.echo("the service said:\n" + under_way.service.log())
            sys.exit(1)
        click.echo("every invariant held")


def _sets(pairs: tuple[str, ...]) -> list[Pair]:
    """Each workspace with the questions about it."""
    if len(pairs) % 2:
        raise click.UsageError("every WORKSPACE needs its QUERIES file")
    return [
        (Path(workspace), read_questions(Path(workspace), Path(queries)))
        for workspace, queries in zip(pairs[::2], pairs[1::2], strict=True)
    ]


def table(summary: Summary) -> str:
    """Two lines, names over figures; `-` where there is none."""
    columns = msgspec.to_builtins(summary)
    cells = {name: "-" if value is None else str(value) for name, value in columns.items()}
    widths = {name: max(len(name), len(cell)) for name, cell in cells.items()}
    head = "  ".join(name.rjust(widths[name]) for name in cells)
    return head + "\n" + "  ".join(cell.rjust(widths[name]) for name, cell in cells.items())


async def _asked_at(
    url: str, secret: str, questions: tuple[Question, ...], asking: Asking
) -> list[tuple[Question, Score]]:
    async with SidecarClient.over_tcp(url, secret) as client:
        return await measure(client, questions, asking)


async def _asked_of_own(sets: list[Pair], asking: Asking) -> list[tuple[Question, Score]]:
    scored: list[tuple[Question, Score]] = []
    for workspace, questions in sets:
        async with own_service(workspace) as client:
            scored += await measure(client, questions, asking)
    return scored


def _secret(name: str) -> str:
    secret = os.environ.get(name, "")
    if not secret:
        raise SettingsError(f"--token-env: the environment variable {name} is not set")
    return secret


def main() -> None:
    """Run the command line; a failure is one line on stderr and exit status 2."""
    try:
        benchmark(prog_name="python -m sidecar.benchmark")
    except SidecarError as error:
        click.echo(f"memory-sidecar benchmark: {error.message}", err=True)
        sys.exit(FAILED)


if __name__ == "__main__":
    main()

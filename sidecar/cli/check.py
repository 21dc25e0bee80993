"""`check`: the user's own questions, whether the right notes answer them, and what changed (spec §2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import click
import msgspec

from sidecar.cli.caller import Payload, chosen_agent, open_caller
from sidecar.cli.options import loaded_of, shared
from sidecar.cli.output import action_line, hits, note, print_json, printable
from sidecar.cli.questions import Question, keep_ranks, last_ranks, rank_of, read_questions, record_file
from sidecar.settings.load import Loaded

MISSED = 1
Change = Literal["new", "same", "better", "worse", "fixed", "broken"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One question's answer: `rank` None where no expected note is within reach; `before` is the last run."""

    ask: str
    found: bool
    rank: int | None
    before: int | None
    change: Change
    first: str | None
    expect: tuple[str, ...]


@click.command()
@click.argument("file", metavar="QUERIES.toml", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--no-record", is_flag=True, help="Do not remember this run for the next one.")
@shared
@click.pass_context
def check(ctx: click.Context, file: Path, as_json: bool, no_record: bool) -> int:
    """Ask your own questions, and say what changed.

    Holds the answers against the notes you expect, and against those of the last time. Exits 0 when every
    question finds its note, 1 when one does not.
    """
    loaded = loaded_of(ctx)
    questions = read_questions(file)
    record = record_file(loaded.settings.state_dir, file)
    before = last_ranks(record)
    outcomes, partial = _outcomes(loaded, questions, before)
    if not no_record:
        keep_ranks(record, {q.digest: o.rank for q, o in zip(questions, outcomes, strict=True)})
    found = sum(outcome.found for outcome in outcomes)
    if as_json:
        print_json({"found": found, "asked": len(outcomes), "questions": outcomes})
    else:
        for outcome in outcomes:
            _print(outcome)
        click.echo(f"{found} of {len(outcomes)} found{_changes(outcomes)}")
    for warning in partial:
        note(f"warning: {warning}")
    return 0 if found == len(outcomes) else MISSED


def _outcomes(
    loaded: Loaded, questions: tuple[Question, ...], before: dict[str, int | None]
) -> tuple[list[Outcome], list[str]]:
    payloads = asyncio.run(_asked(loaded, questions))
    outcomes = []
    for question, payload in zip(questions, payloads, strict=True):
        rank = rank_of(question, payload)
        shown = hits(payload)
        known = question.digest in before
        earlier = before.get(question.digest)
        outcomes.append(
            Outcome(
                ask=question.ask,
                found=rank is not None,
                rank=rank,
                before=earlier,
                change=_change(rank, earlier) if known else "new",
                first=shown[0][0] if shown else None,
                expect=question.expect,
            )
        )
    warnings = [str(p["warning"]) for p in payloads if p.get("coverage") == "partial" and "warning" in p]
    return outcomes, list(dict.fromkeys(warnings))


async def _asked(loaded: Loaded, questions: tuple[Question, ...]) -> list[Payload]:
    agent_id = chosen_agent(loaded).id
    async with open_caller(loaded) as caller:
        return [
            await caller.call(
                "memory.search",
                {"version": 2, "agentId": agent_id, "query": q.ask, "maxResults": q.within},
            )
            for q in questions
        ]


def _change(rank: int | None, before: int | None) -> Change:
    if rank == before:
        return "same"
    if rank is None:
        return "broken"
    if before is None:
        return "fixed"
    return "better" if rank < before else "worse"


def _print(outcome: Outcome) -> None:
    word = click.style("found ", fg="green") if outcome.found else click.style("missed", fg="red")
    rank = "-" if outcome.rank is None else str(outcome.rank)
    was = "nothing" if outcome.before is None else str(outcome.before)
    changed = "" if outcome.change in ("new", "same") else f"  ({outcome.change}, was {was})"
    click.echo(f"{word} {rank:>2}  {printable(outcome.ask)}{changed}")
    if not outcome.found:
        first = outcome.first or "nothing"
        click.echo(printable(f"            first came {first}, expected {', '.join(outcome.expect)}"))
        click.echo(f"          {action_line(f'memory-sidecar why {outcome.expect[0]} {outcome.ask!r}')}")


def _changes(outcomes: list[Outcome]) -> str:
    counts = {
        change: sum(outcome.change == change for outcome in outcomes)
        for change in ("broken", "worse", "fixed", "better")
    }
    told = ", ".join(f"{count} {change}" for change, count in counts.items() if count)
    return f"; since last time: {told}" if told else ""

"""What commands print: readable on a terminal, plain and quiet in a pipe, one JSON value with `--json`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

_STEERING = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(f"[{_STEERING}]")
_BREAKING = re.compile(f"[\t\n{_STEERING}]")
_LINE = re.compile(r":\d+\Z")
_FRAGMENT = re.compile(r"L(\d+)-L(\d+)(?:@c\d+-\d+)?\Z")


def note(line: str) -> None:
    """One line on stderr, whatever the text holds."""
    click.echo(printable(" ".join(line.split())), err=True)


def printable(value: str) -> str:
    """A value on one line, without what ends the line, steers the terminal or turns the reading order.

    So no file name can look like another hit.
    """
    return _BREAKING.sub("\ufffd", value).encode("utf-8", "replace").decode()


def printable_text(text: str) -> str:
    """Text of a note with its line ends and tabs, harmless for the reader's terminal."""
    return _CONTROL.sub("\ufffd", text).encode("utf-8", "replace").decode()


def print_json(value: object) -> None:
    """A payload as indented JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_hits(
    payload: Mapping[str, object], *, workspace: Path | None = None, explain: bool = False
) -> None:
    """The hits of `memory.search` of either version, best first; warnings go to stderr.

    On a terminal each place is a link to its file below `workspace`.
    """
    found = hits(payload)
    terminal = sys.stdout.isatty()
    for place, score, excerpt, hit in found:
        file = None if workspace is None else workspace / _LINE.sub("", place)
        _print_heading(place, "" if score is None else f"{score:.3f}", terminal=terminal, file=file)
        for line in excerpt.splitlines():
            click.echo(f"    {printable_text(line)}")
        if explain:
            for line in _explanation(hit):
                click.echo(f"    {printable(line)}")
        click.echo()
    if not found:
        note("no results; `memory-sidecar why PATH[:LINE] QUERY` says why a note is not found")
    if payload.get("truncated") is True:
        note("more was found than --max-chars allows")
    if isinstance(payload.get("warning"), str):
        note(f"warning: {payload['warning']}")
    if isinstance(payload.get("action"), str):
        note(str(payload["action"]))


def hits(payload: Mapping[str, object]) -> list[tuple[str, float | None, str, Mapping[str, Any]]]:
    """Place (`path:line`), score, excerpt and the raw hit of every result, of either version.

    The score is None where the provider gives none.
    """
    found = []
    raw = payload.get("hits", payload.get("results", []))
    for hit in raw if isinstance(raw, list) else []:
        score = hit.get("score")
        if "reference" in hit:
            reference = hit["reference"]
            lines = _FRAGMENT.match(reference.get("fragment") or "")
            where = f":{lines[1]}" if lines else ""
            found.append((f"{reference['id']}{where}", score, str(hit["excerpt"]), hit))
        else:
            where = f"{hit['path']}:{hit['startLine']}"
            found.append((where, score, str(hit["snippet"]), hit))
    return found


def _print_heading(place: str, score: str, *, terminal: bool, file: Path | None) -> None:
    if not terminal:
        click.echo(f"{printable(place)}  {score}".rstrip())
        return
    from rich.console import Console
    from rich.style import Style
    from rich.text import Text

    style = Style(bold=True, color="cyan", link=file.as_uri() if file and file.is_absolute() else None)
    Console(highlight=False, soft_wrap=True).print(
        Text.assemble((printable(place), style), "  ", (score, "dim"))
    )


def _explanation(hit: Mapping[str, Any]) -> Iterator[str]:
    """Everything that an explained hit says beyond a plain one, one dotted line each."""
    plain = {"reference", "excerpt", "score", "source", "citations", "automaticRecall"}
    for name, value in hit.items():
        if name not in plain:
            yield from (f"{key}: {item}" for key, item in flat(value, name))


def print_text(payload: Mapping[str, object], text: str) -> None:
    """The text of a read: exact in a pipe, harmless on a terminal."""
    shown = printable_text(text) if sys.stdout.isatty() else text
    # `color` keeps escape sequences of the note, which would be stripped from what goes into a pipe.
    click.echo(shown, nl=not shown.endswith("\n"), color=True)
    if payload.get("truncated"):
        following = payload.get("nextFrom")
        note(f"truncated: continue with --from {following}" if following else "truncated")


def action_line(action: str) -> str:
    """The one thing to do, under what it is about."""
    return f"  {click.style('->', fg='cyan')} {printable(action)}"


def print_counts(payload: Mapping[str, object]) -> None:
    """What a finished scan of one agent counted, on one line."""
    counts = ", ".join(f"{key} {value}" for key, value in flat(payload) if key != "agentId")
    click.echo(
        printable(f"{payload.get('agentId')}: {counts}" if counts else f"{payload.get('agentId')}: done")
    )


def flat(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    """The leaves of plain JSON data with their dotted keys."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from flat(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if all(not isinstance(item, Mapping | list) for item in value):
            yield key, ", ".join(str(item) for item in value) or "none"
        else:
            for index, item in enumerate(value, 1):
                yield from flat(item, f"{key}.{index}")
    elif value is not None:
        yield key, value

"""A status as a reader takes it in at a glance: one line a part, and the one thing to do about each fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from sidecar.cli.output import action_line, flat, printable
from sidecar.service.advice import remedy
from sidecar.text.counting import counted

_COLOURS = {"ready": "green", "degraded": "yellow", "unavailable": "red"}
_MOST_NAMED = 5


def print_status(payload: Mapping[str, object]) -> None:
    """One agent's health: the word, why, and what its parts do. Details of a foreign provider are listed."""
    message = payload.get("message")
    word = str(payload.get("status"))
    shown = click.style(word, fg=_COLOURS.get(word), bold=True)
    tail = f" ({payload.get('providerId')})" + (f": {message}" if message else "")
    click.echo(f"{printable(str(payload.get('agentId')))}: {shown}{printable(tail)}")
    details = payload.get("details")
    if not isinstance(details, Mapping):
        return
    if not isinstance(details.get("files"), Mapping):
        action = details.get("action")
        if isinstance(action, str):
            click.echo(action_line(action))
        for key, value in flat({key: item for key, item in details.items() if key != "action"}):
            click.echo(printable(f"  {key}: {value}"))
        return
    for name, text in _lines(details):
        click.echo(f"  {name:<12}{printable(text)}")
    for line, action in _faults(details):
        click.echo(f"  {printable(line)}")
        if action is not None:
            click.echo(f"  {action_line(action)}")


def _lines(details: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "notes", f"{_files(details['files'])}, {counted(details['index']['units'], 'passage')}"
    if "sessions" in details:
        yield "transcripts", _files(details["sessions"]["files"])
    yield "meaning", _meaning(details["embeddings"])
    watch = details["watch"]
    why = f" ({watch['reason']})" if "reason" in watch else ""
    how = "by events" if watch["mode"] == "events" else f"by polling{why}"
    folders = watch.get("folders", 0)
    yield "changes", f"noticed {how}, {counted(folders, 'folder')}" if folders else "not followed now"
    phase = details["index"]["phase"]
    if phase != "idle":
        yield "now", str(phase)
    if details["index"]["repairs"]:
        yield "repaired", ", ".join(details["index"]["repairs"])


def _files(files: Mapping[str, Any]) -> str:
    if files["onDisk"] is None:
        return f"{files['indexed']} indexed, the first scan is running"
    waiting = f", {files['pending']} waiting" if files["pending"] else ""
    return f"{files['indexed']} of {files['onDisk']} indexed{waiting}"


def _meaning(found: Mapping[str, Any]) -> str:
    if found["provider"] == "none":
        return "off: search is by words only"
    model = f"{found.get('model', 'model not known yet')}, {found.get('dimensions', '?')} dimensions"
    waiting = f", {counted(found['pending'], 'passage')} waiting" if found.get("pending") else ""
    return f"{found['provider']} ({model}){waiting}"


def _faults(details: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """What is not as it should be, gravest first, each with the one thing to do."""
    for item in details["unreadable"]:
        yield f"unreadable  {item['path']} ({item['reason']})", remedy(item["reason"], item.get("hint"))
    embeddings = details["embeddings"]
    if "reason" in embeddings:
        retry = f", asked again in {embeddings.get('retryInSeconds', 0):g} s"
        yield (
            f"embeddings  {embeddings['reason']}{retry}",
            "memory-sidecar doctor asks the endpoint and says what is wrong",
        )
    if embeddings.get("refused"):
        yield (
            f"embeddings  refused of {counted(embeddings['refused'], 'text')}: {embeddings.get('refusal')}",
            "nothing: they are found by words, and tried again every 10 minutes",
        )
    yield from _named("skipped", details["skipped"], int(details["skippedCount"]))
    if "sessions" in details:
        sessions = details["sessions"]
        yield from _named("skipped", sessions["skipped"], int(sessions["skippedCount"]))
    yield from _named("cut short", details["partlyIndexed"], len(details["partlyIndexed"]))


def _named(word: str, items: list[Mapping[str, Any]], count: int) -> Iterator[tuple[str, str | None]]:
    """Files by name, those with something to do first."""
    advised = [(item, remedy(item["reason"], item.get("hint"))) for item in items]
    advised.sort(key=lambda pair: pair[1] is None)
    for item, action in advised[:_MOST_NAMED]:
        yield f"{word:<12}{item['path']} ({item['reason']})", action
    if count > _MOST_NAMED:
        yield f"{word:<12}and {count - _MOST_NAMED} more (status --json)", None

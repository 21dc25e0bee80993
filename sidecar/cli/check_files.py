"""Checks of `doctor` on folders: the workspace of each agent, and the state directory. They only look."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from sidecar.cli.finding import Finding, error, fine, warning
from sidecar.corpus import rules
from sidecar.corpus.rules import ExtraPath
from sidecar.corpus.scan import Corpus
from sidecar.domain.errors import StateError
from sidecar.service.advice import remedy
from sidecar.settings.load import Loaded
from sidecar.settings.model import AgentSettings, expand, watched_roots
from sidecar.settings.state import refuse_inside
from sidecar.text.counting import counted

LEAST_FREE_BYTES = 200 * 1024 * 1024
_MOST_NAMED = 3


def check_workspaces(loaded: Loaded, *, home: Path) -> Iterator[Finding]:
    """Whether each agent's notes are where they are looked for and can be read."""
    for agent in loaded.settings.agents.values():
        check = f"workspace {agent.id}"
        if not agent.reads_files or agent.workspace is None:
            yield fine(check, f'provider "{agent.provider}" reads no files')
            continue
        place = agent.workspace
        if not place.is_dir():
            yield error(check, f"{place} is not a folder", f"create it or correct {_named_by(loaded, agent)}")
        elif not os.access(place, os.R_OK | os.X_OK):
            yield error(check, f"{place} cannot be read by this user", f"chmod u+rx {place}")
        else:
            yield from _check_notes(check, agent, place, home=home)


def check_transcripts(loaded: Loaded) -> Iterator[Finding]:
    """Whether the transcripts of each agent that has them switched on are where they are looked for."""
    for agent in loaded.settings.agents.values():
        place, check = agent.sessions.directory, f"transcripts {agent.id}"
        if not (agent.sessions.enabled and agent.reads_files):
            continue
        if not place.is_dir():
            action = f"create it or correct agents.{agent.id}.sessions.directory"
            yield warning(check, f"{place} is not a folder, no transcript is found", action)
        elif not os.access(place, os.R_OK | os.X_OK):
            yield error(check, f"{place} cannot be read by this user", f"chmod u+rx {place}")
        else:
            yield fine(check, f"{place} is readable")


def _named_by(loaded: Loaded, agent: AgentSettings) -> str:
    origin = loaded.origins.get(f"agents.{agent.id}.workspace", "default")
    if origin == str(loaded.config_file):
        return f"the workspace in {origin}"
    return "--workspace" if origin == "default" else origin


def _check_notes(check: str, agent: AgentSettings, place: Path, *, home: Path) -> Iterator[Finding]:
    """What a scan passes over, by the scan itself, so that doctor and status cannot disagree."""
    names = {entry.name for entry in os.scandir(place)}
    if "MEMORY.md" not in names and not (place / "memory").is_dir():
        yield warning(
            check, f"{place} holds neither MEMORY.md nor memory/", "check that this is the agent's workspace"
        )
    scan = corpus_of(agent, place).scan()
    for item in scan.unreadable:
        yield error(
            check, f"{item.path} cannot be read ({item.reason})", remedy(item.reason) or "read the log"
        )
    advised: dict[tuple[str, str], list[str]] = {}
    for item in scan.skipped:
        action = remedy(item.reason, item.hint)
        if item.reason == rules.MISSING:
            missing = next(e.path for e in agent.extra_paths if _named(place, e.path, item.path, home))
            yield warning(
                check, f"extra path {missing} does not exist",
                f"create {expand(missing, home=home, below=place)} or remove the entry",
            )  # fmt: skip
        elif action is not None:
            advised.setdefault((item.reason, action), []).append(item.path)
    for (reason, action), paths in advised.items():
        level = error if reason in rules.UNKNOWN_STATE else warning
        yield level(check, f"not indexed ({reason}): {_some(paths)}", action)
    yield fine(check, f"{place} is readable, {counted(len(scan.files), 'note')}")


def corpus_of(agent: AgentSettings, place: Path) -> Corpus:
    """What the service would index of an agent's workspace."""
    return Corpus(place, [ExtraPath(extra.path, extra.pattern) for extra in agent.extra_paths], agent.exclude)


def _named(place: Path, configured: str, shown: str, home: Path) -> bool:
    """Whether a configured extra path is the one that a scan shows by this name."""
    return os.path.normpath(expand(configured, home=home, below=place)) == os.path.normpath(place / shown)


def _some(paths: list[str]) -> str:
    named = ", ".join(paths[:_MOST_NAMED])
    more = len(paths) - _MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named


def check_state(loaded: Loaded, *, home: Path) -> Iterator[Finding]:
    """Whether derived state is outside every watched root, private, writable and has room."""
    check = "state"
    place = loaded.settings.state_dir
    try:
        refuse_inside(place, watched_roots(loaded.settings, home=home))
    except StateError as refusal:
        yield error(check, refusal.message, "pass a --state-dir outside of it")
        return
    parent = next(folder for folder in (place, *place.parents) if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        yield error(check, f"{parent} cannot be written by this user", "pass a --state-dir that can")
        return
    if shutil.disk_usage(parent).free < LEAST_FREE_BYTES:
        yield warning(
            check, f"less than {LEAST_FREE_BYTES >> 20} MiB are free at {parent}", "make room there"
        )
    if parent != place:
        yield fine(check, f"{place} does not exist yet and will be created")
        return
    if place.stat().st_uid != os.geteuid():
        yield error(check, f"{place} belongs to another user", "pass another --state-dir")
        return
    open_to_others = [path for path in (place, *place.rglob("*")) if _is_open(path)]
    if open_to_others:
        yield warning(
            check,
            f"open to others in {place}: {counted(len(open_to_others), 'entry', 'entries')}",
            f"chmod -R go= {place}",
        )
        return
    yield fine(check, f"{place} is private and writable")


def _is_open(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISLNK(mode) and bool(mode & 0o077)

"""`export`: an agent's Markdown workspace into the store that owns its memory from now on, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from sidecar.adapters.powercontext.client import Client
from sidecar.adapters.powercontext.facts import Fact, LeftOut, facts_of
from sidecar.adapters.powercontext.importing import Importer
from sidecar.adapters.powercontext.options import Token, read_options
from sidecar.adapters.powercontext.sent_write import SentWrite
from sidecar.corpus.scan import Corpus
from sidecar.domain.errors import CorpusError, SettingsError, StateError
from sidecar.settings.load import Loaded
from sidecar.settings.model import AgentSettings, watched_roots
from sidecar.settings.state import StateDirectory

POWERCONTEXT = "powercontext"
SENT_WRITE = "export-sent.json"


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What one export did: facts in the workspace, written now, there before, and what was left out."""

    agent_id: str
    facts: int
    written: int
    present: int
    left_out: tuple[LeftOut, ...]


async def export(
    loaded: Loaded, agent: AgentSettings, *, only_look: bool, progress: Callable[[int, int], None]
) -> Exported:
    """Bring every fact of the workspace into the store that is not there yet; `only_look` writes nothing.

    Raises `SettingsError` unless the store owns this agent's memory by the settings: each fact has one owner,
    and files that are still served would be a second one.
    """
    where = f"agents.{agent.id}"
    if agent.provider != POWERCONTEXT:
        raise SettingsError(
            f'{where}.provider: an export needs "{POWERCONTEXT}" here, not "{agent.provider}": '
            "what is exported has one owner, so hand this agent's memory over first"
        )
    if agent.workspace is None:
        raise SettingsError(f"{where}.workspace: the folder to export is needed")
    options = read_options(agent.id, agent.provider_options)
    token = Token(agent.id, options)
    facts, left_out = await asyncio.to_thread(_facts, agent.workspace)
    if only_look:
        return Exported(agent_id=agent.id, facts=len(facts), written=0, present=0, left_out=left_out)
    roots = (*watched_roots(loaded.settings, home=Path.home()), agent.workspace)
    state = StateDirectory.open(loaded.settings.state_dir, roots=roots, agents=loaded.settings.agents)
    # Beside a running service, which writes nothing, but never beside another export of this agent.
    folder = state.agent_directory(agent.id)
    try:
        lock = StateDirectory(folder).lock()
    except StateError as error:
        raise StateError(f"agent {agent.id} is being exported already: {error.message}") from error
    client = Client(endpoint=options.endpoint, token=token)
    with lock:
        try:
            sent = SentWrite(folder / SENT_WRITE)
            imported = await Importer(client=client, agent_id=agent.id, sent=sent).run(facts, progress)
        finally:
            await client.close()
    return Exported(
        agent_id=agent.id,
        facts=imported.written + imported.present,
        written=imported.written,
        present=imported.present,
        left_out=left_out,
    )


def _facts(workspace: Path) -> tuple[tuple[Fact, ...], tuple[LeftOut, ...]]:
    """Every fact of the files that the corpus rules admit, and all that is left out. Blocks."""
    corpus = Corpus(workspace)
    scan = corpus.scan()
    facts: list[Fact] = []
    left_out = [LeftOut(item.path, item.reason) for item in (*scan.unreadable, *scan.skipped)]
    for file in scan.files:
        try:
            read = corpus.read(file)
        except CorpusError as error:
            left_out.append(LeftOut(file.path, error.reason))
            continue
        if read is None:
            left_out.append(LeftOut(file.path, "it vanished"))
            continue
        if read.note is not None:
            left_out.append(LeftOut(file.path, f"only in part: {read.note}"))
        found, unfit = facts_of(file.path, read.data)
        facts += found
        left_out += unfit
    return tuple(facts), tuple(left_out)

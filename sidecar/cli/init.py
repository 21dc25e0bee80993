"""`init`: a commented configuration file from what is there: a gateway's agents, or a workspace (spec §2)."""

from __future__ import annotations

import importlib.resources
import os
import shlex
import sys
from pathlib import Path

import click
import msgspec

from sidecar.cli.options import flags_of, shared
from sidecar.cli.output import note, printable
from sidecar.domain.agents import normalise_agent_id
from sidecar.domain.errors import SettingsError, StateError
from sidecar.settings.gateway import Gateway, GatewayAgent, gateway_file, read_gateway
from sidecar.settings.load import Flags, load, refuse_missing_folder
from sidecar.settings.locations import config_file
from sidecar.settings.model import DEFAULT_AGENT, DEFAULT_WORKSPACE, expand
from sidecar.settings.state import refuse_inside, write_private

_AGENTS_FROM = "# One table for each agent."
_AGENTS_TO = "# Settings of another provider stand"


@click.command()
@click.option("--from", "gateway", metavar="FILE", help="The gateway's configuration; else the usual place.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@shared
@click.pass_context
def init(ctx: click.Context, gateway: str | None, force: bool) -> int:
    """Write a commented configuration file.

    Takes the agents of a gateway on this machine, or the workspace of --workspace, or the usual one. Asks for
    the workspace where none is found and somebody is there to answer. Writes to --config or the usual place.
    """
    flags = flags_of(ctx)
    home = Path(os.environ.get("HOME") or Path.home())
    default = flags.config is None
    target = config_file(os.environ, home) if flags.config is None else Path(flags.config).expanduser()
    target = Path.cwd() / target
    if target.exists() and not force:
        raise SettingsError(f"{target} is there already: pass --force to write over it, or another --config")
    found, source = _found(flags, gateway, home=home)
    agents = found.agents
    roots = _roots(agents, home)
    refuse_inside(target, roots)
    _write(target, _rendered(agents))
    loaded = load(Flags(config=str(target)), {"HOME": str(home)}, require_workspace=False)
    click.echo(printable(f"{target}: {', '.join(loaded.settings.agents)} (from {source})"))
    for sentence in found.passed_over:
        note(f"warning: {sentence}")
    for root in roots:
        if not root.is_dir():
            note(f"warning: {root} does not exist yet; serve starts once it does")
    named = "" if default else f" --config {shlex.quote(str(target))}"
    click.echo(printable(f"next: memory-sidecar serve{named}"))
    return 0


def _found(flags: Flags, gateway: str | None, *, home: Path) -> tuple[Gateway, str]:
    """The agents to write, and where they come from."""
    if flags.workspace is not None:
        if gateway is not None:
            raise click.UsageError("--workspace and --from: one of them")
        return _single(flags, flags.workspace, "--workspace", home=home), "--workspace"
    file = Path(gateway).expanduser() if gateway is not None else gateway_file(os.environ, home)
    if gateway is not None or file.exists():
        return read_gateway(file), str(file)
    if expand(DEFAULT_WORKSPACE, home=home, below=home).is_dir():
        return _single(flags, DEFAULT_WORKSPACE, "", home=home), DEFAULT_WORKSPACE
    if not sys.stdin.isatty():
        raise SettingsError(f"no gateway and no {DEFAULT_WORKSPACE} here: pass --workspace DIR")
    folder = click.prompt("Workspace (the folder with MEMORY.md and memory/)", err=True)
    return _single(flags, folder, "your answer", home=home), "your answer"


def _single(flags: Flags, workspace: str, source: str, *, home: Path) -> Gateway:
    """One agent over a folder, which has to be there: a typo would be found out by `serve` alone."""
    agent_id = normalise_agent_id(flags.agent or DEFAULT_AGENT)
    if agent_id is None:
        raise SettingsError(f'--agent accepts an agent id such as "main", not "{flags.agent}"')
    refuse_missing_folder(expand(workspace, home=home, below=Path.cwd()), source, given=True)
    if not workspace.startswith("~"):
        workspace = str(Path.cwd() / workspace)
    return Gateway(agents=(GatewayAgent(id=agent_id, workspace=workspace, default=True),))


def _roots(agents: tuple[GatewayAgent, ...], home: Path) -> list[Path]:
    return [expand(_workspace(agent), home=home, below=home) for agent in agents]


def _workspace(agent: GatewayAgent) -> str:
    """The gateway's own default where it names none: `workspace` for main, else one beside it."""
    if agent.workspace is not None:
        return agent.workspace
    return DEFAULT_WORKSPACE if agent.id == DEFAULT_AGENT else f"{DEFAULT_WORKSPACE}-{agent.id}"


def _rendered(agents: tuple[GatewayAgent, ...]) -> str:
    """The documented example with these agents in place of its own."""
    example = importlib.resources.files("sidecar.config").joinpath("memory-sidecar.example.toml")
    text = example.read_text(encoding="utf-8")
    head, _, rest = text.partition(_AGENTS_FROM)
    tail = rest[rest.index(_AGENTS_TO) :]
    first = next((agent.id for agent in agents if agent.default), agents[0].id)
    tables = "\n".join(_table(agent, default=agent.id == first) for agent in agents)
    intro = "# The agents. `memory-sidecar config show` lists every key that may stand here."
    return f"{head}{intro}\n{tables}\n{tail}"


def _table(agent: GatewayAgent, *, default: bool) -> str:
    extra = ", ".join(
        _toml(path.path)
        if path.pattern is None
        else f"{{ path = {_toml(path.path)}, pattern = {_toml(path.pattern)} }}"
        for path in agent.extra_paths
    )
    mark = "true" if default else "false"
    return (
        f"[agents.{agent.id}]\n"
        f"workspace = {_toml(_workspace(agent))}   # only ever read\n"
        f"default = {mark}   # the agent that is meant when a request names none\n"
        f"extra_paths = [{extra}]   # more files or folders to index\n"
        "# [agents." + agent.id + ".sessions]\n"
        "# enabled = true   # also index this agent's session transcripts\n"
    )


def _toml(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _write(target: Path, text: str) -> None:
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(f"{target.parent}: {error.strerror}") from error
    write_private(target, text.encode())

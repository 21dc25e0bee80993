"""The shared flags, accepted before and after the command's name, and what they load (spec §2)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

import click

from sidecar import logs
from sidecar.cli.output import note
from sidecar.settings.load import LOG_LEVELS, Flags, Loaded, load

log = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., object])

_SHARED = (
    ("--config", "FILE", "Configuration file (TOML)."),
    ("--workspace", "DIR", "Workspace of a single agent; the default is ~/.openclaw/workspace."),
    ("--agent", "ID", "The agent that is meant; with --workspace its id.  [default: main]"),
    ("--state-dir", "DIR", "Where derived state is kept; the default is a folder in the per-user state."),
    ("--log-level", "LEVEL", f"One of {', '.join(LOG_LEVELS)}."),
)
_LISTEN = (
    ("--host", "ADDRESS", "Address to listen on.  [default: 127.0.0.1]"),
    ("--port", "PORT", "TCP port; 0 picks a free one.  [default: 8737]"),
)


def _remember(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Keep a given flag; one after the command's name overrides the same one before it."""
    given = ctx.ensure_object(dict)
    if value is not None and param.name is not None:
        given[param.name] = value


def shared(function: F) -> F:
    """Add the flags that every command has."""
    return _added(function, _SHARED)


def listening(function: F) -> F:
    """Add `--host` and `--port`."""
    return _added(function, _LISTEN)


def _added(function: F, flags: tuple[tuple[str, str, str], ...]) -> F:
    for name, metavar, text in reversed(flags):
        option = click.option(name, metavar=metavar, help=text, expose_value=False, callback=_remember)
        function = option(function)
    return function


def flags_of(ctx: click.Context) -> Flags:
    """The shared flags as given on this command line."""
    return Flags(**ctx.ensure_object(dict))


def loaded_of(
    ctx: click.Context,
    *,
    service: bool = False,
    require_workspace: bool = True,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """The effective settings of this command line, with logs set up and warnings said on stderr.

    A `service` logs at level info and its warnings are log lines like all others.
    """
    flags = flags_of(ctx)
    loaded = (
        load(flags, require_workspace=require_workspace)
        if environ is None
        else load(flags, environ, require_workspace=require_workspace)
    )
    logs.configure(loaded.log_level or ("info" if service else "warning"))
    for warning in loaded.warnings:
        if service:
            log.warning(warning)
        else:
            note(f"warning: {warning}")
    return loaded

"""`completion`: the script that makes a shell complete commands and flags; click writes it."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

PROGRAM = "memory-sidecar"
_VARIABLE = "_MEMORY_SIDECAR_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print the completion script of a shell.

    Load it where the shell starts: eval "$(memory-sidecar completion bash)".
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, PROGRAM, _VARIABLE).source())
    return 0

"""The command line (spec §2). Commands give their exit code; errors are one line on stderr and exit 2."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError

from sidecar import __version__
from sidecar.cli.check import check
from sidecar.cli.completion import completion
from sidecar.cli.configuration import config
from sidecar.cli.doctor import doctor
from sidecar.cli.export import export
from sidecar.cli.init import init
from sidecar.cli.mcp import mcp
from sidecar.cli.memory import get, search
from sidecar.cli.options import shared
from sidecar.cli.output import note
from sidecar.cli.service import index, serve, token
from sidecar.cli.status import status
from sidecar.cli.why import why
from sidecar.domain.errors import SidecarError

FAILED = 2
INTERRUPTED = 130


class OneLineErrors(click.Group):
    """A group whose failures are one line on stderr: what is wrong and, for a misuse, where help is."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command line and exit with the command's code."""
        run: Callable[..., Any] = super().main
        if not extra.pop("standalone_mode", True):
            return run(*args, standalone_mode=False, **extra)
        try:
            code = run(*args, standalone_mode=False, **extra)
        except NoArgsIsHelpError as error:
            error.show()
            code = FAILED
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx is not None else "memory-sidecar"
            note(f"memory-sidecar: {error.format_message()} (see {command} --help)")
            code = FAILED
        except click.ClickException as error:
            note(f"memory-sidecar: {error.format_message()}")
            code = FAILED
        except SidecarError as error:
            named = error.details.get("requestId")
            logged = "" if named is None else f" (request_id {named} in the log of the service)"
            note(f"memory-sidecar: {error.message}{logged}")
            code = FAILED
        except click.Abort:
            code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="memory-sidecar")
@shared
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Memory search beside an agent, over its Markdown workspace, which is only ever read."""
    if os.environ.get("NO_COLOR"):
        ctx.color = False  # commands inherit it; without it colour goes to terminals alone


for _command in (
    serve, init, index, search, get, why, check, status, doctor, token, config, export, mcp, completion,
):  # fmt: skip
    cli.add_command(_command)


def main() -> None:
    """The console script `memory-sidecar`."""
    # Whatever any library creates in the state directory is for the owner only (spec §2).
    os.umask(0o077)
    # One BLAS thread: more gain nothing at our sizes and make latency jump on shared machines.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    cli.main(prog_name="memory-sidecar")

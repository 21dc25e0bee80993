"""A user and mount namespace of its own for a service: real mounts without being root."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def in_a_namespace(script: str, *, tried: str = "true") -> tuple[str, ...]:
    """What to put before a command so that the script runs in front of it, or a skip where that cannot be."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare command here")
    trial = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", tried], capture_output=True, text=True, check=False
    )
    if trial.returncode:
        pytest.skip(f"such namespaces are not allowed here: {trial.stderr.strip()}")
    return ("unshare", "-Urm", "sh", "-c", f'{script} && exec "$@"', "sh")


def inside(process: int, *command: str) -> None:
    """Run a command in the namespace of a process."""
    subprocess.run(
        ["nsenter", "--preserve-credentials", "-U", "-m", "-t", str(process), *command],
        check=True,
        capture_output=True,
        text=True,
    )

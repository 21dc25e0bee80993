"""Runs the service on a workspace and asks it one question in both contracts, so that one sees it answer.

    python examples/quickstart.py [WORKSPACE] [QUESTION]

The service goes on running in the foreground; Ctrl-C ends it.
"""

from __future__ import annotations

import json
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

DEFAULT_WORKSPACE = Path(__file__).parent / "workspace"
DEFAULT_QUESTION = "who serviced the boiler?"
PORT = 8737


def main() -> int:
    workspace = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_WORKSPACE
    question = sys.argv[2] if len(sys.argv) > 2 else DEFAULT_QUESTION
    command = [sys.executable, "-m", "sidecar"]
    flags = ["--workspace", str(workspace)]
    service = subprocess.Popen(
        [*command, "serve", *flags, "--port", str(free_port(PORT))], stdout=subprocess.PIPE, text=True
    )
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: service.terminate())
    assert service.stdout is not None
    ready = service.stdout.readline().strip()
    if not ready:
        return service.wait()
    print(ready, flush=True)
    url = ready.rsplit(" ", 1)[-1]
    token = subprocess.run(
        [*command, "token", *flags], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    wait_until_indexed(url, token)
    for params in ({"query": question, "maxResults": 1}, {"version": 2, "query": question, "maxResults": 1}):
        print(f"\nPOST {url}/rpc/memory.search {json.dumps(params)}")
        print(json.dumps(ask(url, token, params), indent=2, ensure_ascii=False), flush=True)
    program = Path(sys.executable).with_name("memory-sidecar")
    named = f"--workspace {shlex.quote(str(workspace))}"
    print(f"\nThe service goes on running; Ctrl-C ends it. From another terminal, in this folder:\n"
          f"  {shlex.quote(str(program))} search {named} {shlex.quote(question)}\n"
          f"  {shlex.quote(str(program))} token {named}    # signs you in at {url}/", flush=True)  # fmt: skip
    return service.wait()


def free_port(wanted: int) -> int:
    """The wanted port, or 0 (any) when something else listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError:
            return 0
    return wanted


def wait_until_indexed(url: str, token: str) -> None:
    """Ask `sidecar.refresh` for one scan to completion: it answers when everything is indexed."""
    call(url, token, "sidecar.refresh", {})


def ask(url: str, token: str, params: dict[str, object]) -> object:
    """The payload of one `memory.search`."""
    return call(url, token, "memory.search", params)["payload"]


def call(url: str, token: str, method: str, params: dict[str, object]) -> dict[str, object]:
    """One method call: the params object in, a response frame out."""
    request = urllib.request.Request(  # noqa: S310 - our own loopback service
        f"{url}/rpc/{method}",
        json.dumps(params).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310 - our own loopback service
        frame: dict[str, object] = json.load(response)
    return frame


if __name__ == "__main__":
    sys.exit(main())

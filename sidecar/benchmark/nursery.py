"""Services that live briefly: each is forked from one process that has imported everything already.

A fresh interpreter spends most of a short life on imports, so a killer would seldom meet work. What is forked
runs the same `serve` as the command line, over its own arguments, environment and streams, and dies alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from sidecar.domain.errors import Unavailable

_LARGEST_ORDER = 1024 * 1024
_FIRST_SECONDS = 120.0


class Order(msgspec.Struct, frozen=True):
    """What a new process is to run."""

    arguments: list[str]
    environment: dict[str, str]
    log: str


class Offspring:
    """A forked service: its ready line, its end, its id."""

    def __init__(self, process: int, stdout: int) -> None:
        self.pid = process
        self._stdout = stdout
        self._handle = os.pidfd_open(process)

    @property
    def alive(self) -> bool:
        """Whether it runs still."""
        return self._handle >= 0 and not select.select([self._handle], [], [], 0)[0]

    async def first_line(self) -> bytes:
        """What it says first; empty when it ended without a word. Raises `TimeoutError`."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(self._stdout), "rb", 0)
        )
        try:
            return await asyncio.wait_for(reader.readline(), _FIRST_SECONDS)
        finally:
            transport.close()

    async def kill(self) -> None:
        """kill -9, and wait until it is gone; idempotent."""
        if self._handle < 0:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()
        loop.add_reader(self._handle, gone.set)
        await gone.wait()
        loop.remove_reader(self._handle)
        os.close(self._handle)
        os.close(self._stdout)
        self._handle = -1


class Nursery:
    """The process that has everything imported. Linux only."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-P", "-m", "sidecar.benchmark.nursery", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                # What ends the harness, for example by Ctrl-C, is no kill that it did not make.
                start_new_session=True,
            )

    async def bear(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Offspring:
        """A new `sidecar` process with these arguments; raises `Unavailable`."""
        order = msgspec.json.encode(Order(list(arguments), dict(environment), str(log)))
        reading, writing = os.pipe()
        try:
            socket.send_fds(self._line, [order], [writing])
            answer = await asyncio.to_thread(self._line.recv, 64)
        finally:
            os.close(writing)
        if not answer:
            os.close(reading)
            raise Unavailable("the process that starts services is gone")
        try:
            return Offspring(int(answer), reading)
        except ProcessLookupError:
            os.close(reading)
            raise Unavailable("the service ended at once") from None

    def close(self) -> None:
        """End it; what it bore lives on."""
        self._line.close()
        self._process.wait()


def main() -> None:
    """Fork a service for each order that comes over the socket whose number is the argument."""
    # So that each child has them; they are above this module, which runs them as a shell would.
    for name in ("sidecar.cli", "sidecar.runtime"):
        importlib.import_module(name)
    # The children are nobody's business here: they are waited for by their handles.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as line:
        while True:
            order, descriptors, _, _ = socket.recv_fds(line, _LARGEST_ORDER, 1)
            if not order:
                return
            child = os.fork()
            if child == 0:
                line.close()
                _live(msgspec.json.decode(order, type=Order), descriptors[0])
            os.close(descriptors[0])
            line.send(str(child).encode())


def _live(order: Order, stdout: int) -> NoReturn:
    """Become the service; never returns."""
    code = 70
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.dup2(stdout, 1)
        os.close(stdout)
        log = os.open(order.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(log, 2)
        os.close(log)
        os.environ.clear()
        os.environ.update(order.environment)
        sys.argv = ["memory-sidecar", *order.arguments]
        runpy.run_module("sidecar", run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()

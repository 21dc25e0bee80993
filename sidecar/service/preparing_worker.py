"""A process of `preparing.Preparers`: lots of files in, what they became out, until the input ends."""

from __future__ import annotations

import contextlib
import pickle
import signal
import sys

from sidecar.service.preparing import prepared


def main() -> None:
    """Answer each lot on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            lot = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
            pickle.dump(prepared(lot), sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

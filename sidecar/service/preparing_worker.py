"""A process of `preparing.Preparers`: lots of files in, what they became out, until the input ends."""

from __future__ import annotations

import contextlib
import pickle
import signal
import sys

from sidecar.service.preparing import FRAME, PART_FILES, prepared


def main() -> None:
    """Answer each lot on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            lot = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
            for start in range(0, len(lot), PART_FILES):
                part = pickle.dumps(prepared(lot[start : start + PART_FILES]), pickle.HIGHEST_PROTOCOL)
                sys.stdout.buffer.write(FRAME.pack(len(part)) + part)
                sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

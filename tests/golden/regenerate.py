"""Writes the answers of the golden files anew and prints what changed.

    python tests/golden/regenerate.py

Read the difference before it is committed: it is what a client will see.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]


def main() -> int:
    """Ask every request of every file once more."""
    from conftest import Launcher
    from golden_replay import ask, configuration, files

    with tempfile.TemporaryDirectory() as name, contextlib.closing(Launcher(Path(name))) as launcher:
        service = launcher.serve(None, "--config", str(configuration(Path(name))))
        asyncio.run(service.ready())
        for path in files():
            before = path.read_text(encoding="utf-8")
            content = json.loads(before)
            for exchange in content["exchanges"]:
                exchange["receive"] = ask(service, exchange["send"])
            after = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            path.write_text(after, encoding="utf-8")
            lines = difflib.unified_diff(
                before.splitlines(), after.splitlines(), path.name, path.name, lineterm=""
            )
            sys.stdout.write("".join(f"{line}\n" for line in lines))
        return service.stop()


if __name__ == "__main__":
    sys.exit(main())

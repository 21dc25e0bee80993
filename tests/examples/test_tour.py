"""The five minutes of the README, command by command, with a home of its own."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """Every call of the program in the tour, as words."""
    tour = README.partition("## Five minutes with your own notes")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.+?)\n```", tour, re.DOTALL)
    found = re.findall(r"^(?:TOKEN=\$\()?memory-sidecar ([^)\n]*)\)?$", "\n".join(blocks), re.MULTILINE)
    return [shlex.split(line, comments=True) for line in found]


@pytest.mark.slow
def test_the_tour_of_the_readme_works_as_it_is_written(launcher: Any) -> None:
    asked = commands()
    assert [words[0] for words in asked] == [
        "init", "serve", "search", "get", "why", "status", "doctor", "token",
    ]  # fmt: skip
    workspace = str(REPOSITORY / "examples" / "workspace")
    shown: dict[str, str] = {}
    for words in asked:
        if words == ["init"]:
            words = [*words, "--workspace", workspace]
        if words[0] == "serve":
            process = launcher.popen(*words, "--port", "0")
            assert process.stdout is not None
            assert process.stdout.readline().startswith("memory-sidecar ready on http://127.0.0.1:")
            assert launcher.run("index").returncode == 0
            continue
        done = launcher.run(*words)
        shown[words[0]] = done.stdout
        # Another program of this machine may have the usual port, which doctor then says.
        assert done.returncode == 0 or words[0] == "doctor", (words, done)
        assert "Traceback" not in done.stderr
    assert shown["init"].endswith("next: memory-sidecar serve\n")
    assert shown["search"].startswith("memory/2026-11-28.md:")
    assert "spare key" in shown["get"]
    assert shown["why"].startswith("memory/2026-11-28.md:4: found: it is result 1")
    assert shown["status"].startswith("main: ready (memory-sidecar)\n")
    assert len(shown["token"].strip()) >= 43

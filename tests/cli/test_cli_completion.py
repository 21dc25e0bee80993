"""Shells complete commands, flags and choices (spec §2)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_one_that_it_reads(shell: str, run: Run, tmp_path: Path) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_MEMORY_SIDECAR_COMPLETE" in result.stdout
    if shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(result.stdout)
        subprocess.run([shell, "-n", str(script)], check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("memory-sidecar ", "status"), ("memory-sidecar config ", "check"),
     ("memory-sidecar search --m", "--max-results"), ("memory-sidecar token --role ", "operator")],
)  # fmt: skip
def test_words_are_completed(words: str, expected: str, home: Path) -> None:
    count = len(words.split(" ")) - 1
    done = subprocess.run(
        [sys.executable, "-m", "sidecar"],
        env={"HOME": str(home), "_MEMORY_SIDECAR_COMPLETE": "bash_complete", "COMP_WORDS": words,
             "COMP_CWORD": str(count)},
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert f"plain,{expected}" in done.stdout.splitlines(), done

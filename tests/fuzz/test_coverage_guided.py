"""Each coverage-guided target runs for a while without a fault, where its fuzzer is installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).parent / "coverage_guided.py"
TARGETS = ("request", "parameters", "note", "transcript", "cursor", "fragment", "configuration")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
def test_no_bytes_that_coverage_leads_to_bring_out_a_fault(target: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HARNESS), target, "-runs=3000", "-max_total_time=10", "-seed=1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Traceback" not in done.stderr
    assert "Done " in done.stderr

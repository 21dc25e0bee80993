"""What the OpenAPI document says holds for whatever a schema-driven fuzzer makes of it.

A longer run over a service of your own (`--max-examples` and the seed are the only differences):

    memory-sidecar serve --workspace examples/workspace --port 8737
    schemathesis --config-file tests/fuzz/schemathesis.toml run http://127.0.0.1:8737/openapi.json \
      --header "Authorization: Bearer $(memory-sidecar token --workspace examples/workspace)" \
      --checks not_a_server_error,status_code_conformance,response_schema_conformance \
      --phases examples,coverage,fuzzing --mode all --max-examples 2000
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
SECONDS = 150


@pytest.mark.slow
def test_every_answer_to_generated_requests_is_a_declared_one(example: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli"),
            *("--config-file", str(Path(__file__).parent / "schemathesis.toml")),
            *("run", f"{example.url}/openapi.json"),
            *("--header", f"Authorization: Bearer {example.operator_token}"),
            *("--checks", ",".join(CHECKS)),
            *("--phases", "examples,coverage,fuzzing"),
            *("--mode", "all"),
            *("--max-examples", "30"),
            *("--seed", "1"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert example.process.poll() is None

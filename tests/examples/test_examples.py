"""Every program in `examples/` runs, against a real service over the example workspace."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTED_ELSEWHERE = {
    "provider/memory_sidecar_records.py": "tests/process/test_foreign_providers.py",
    "embeddings/server.py": "tests/embedding/test_published_server.py",
}


@pytest.fixture(scope="module")
def service(shared_launcher: Any) -> Iterator[Any]:
    started = shared_launcher.serve(EXAMPLES / "workspace")
    asyncio.run(started.ready())
    yield started
    assert started.stop() == 0


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(argument) for argument in arguments],
        env={**os.environ, **environment},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_the_python_client_asks_over_the_socket_and_over_tcp(service: Any) -> None:
    program = EXAMPLES / "client" / "ask.py"
    for place in (service.state, service.url):
        done = run(
            sys.executable, program, place, "who serviced the boiler?", SIDECAR_TOKEN=service.operator_token
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "memory/2026-11-28.md#L1-L6" in done.stdout.splitlines()[0]
        assert "Halvorsen & Daughters" in done.stdout
    done = run(sys.executable, program, service.url, "x", SIDECAR_TOKEN="wrong" * 5)
    assert done.returncode == 2
    assert done.stderr.startswith("INVALID_REQUEST: ")
    done = run(sys.executable, program, "http://127.0.0.1:9", "x", SIDECAR_TOKEN="x" * 20)
    assert (done.returncode, done.stderr.startswith("no service: ")) == (2, True)


def test_the_shell_client_asks_both_contracts_and_the_health(service: Any) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    done = run("sh", EXAMPLES / "client" / "ask.sh", service.url, SIDECAR_TOKEN=service.operator_token)
    assert (done.returncode, done.stderr) == (0, "")
    v2, v1, status = (json.loads(line)["payload"] for line in done.stdout.splitlines())
    assert v2["hits"][0]["reference"]["id"] == v1["results"][0]["path"] == "memory/2026-11-28.md"
    assert status["status"] in ("ready", "degraded")


def test_the_host_lets_the_owner_see_and_the_group_not(service: Any) -> None:
    done = run(
        sys.executable, EXAMPLES / "host" / "host.py", service.url, "who serviced the boiler?",
        HOST_TOKEN=service.host_token,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    owner, _, group = done.stdout.partition("the group asks")
    assert "memory/2026-11-28.md#L1-L6" in owner
    assert "memory/2026-11-28.md" not in group
    assert "stored memories were not searched" in group


def test_the_quick_start_shows_both_answers_and_goes_on_until_it_is_ended(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MEMORY_SIDECAR_")}
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / "quickstart.py")],
        env={**environment, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        shown = ""
        for line in process.stdout:
            shown += line
            if "goes on running" in line:
                break
        assert shown.count("memory/2026-11-28.md") >= 2
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_every_program_is_run_by_some_test() -> None:
    programs = {
        str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*") if path.suffix in (".py", ".sh")
    }
    here = {"quickstart.py", "client/ask.py", "client/ask.sh", "host/host.py"}
    assert programs == here | set(TESTED_ELSEWHERE)
    for program, test in TESTED_ELSEWHERE.items():
        text = (EXAMPLES.parent / test).read_text()
        assert program.split("/")[0] in text

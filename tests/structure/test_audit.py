"""The dependency audit fails for a vulnerability, and never takes silence for a clean bill."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "audit.py"


@pytest.fixture(scope="module")
def audit() -> Any:
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CLEAN = {"name": "click", "version": "8.2.0", "vulns": []}
SICK = {"name": "jinja", "version": "1.0", "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["1.1"]}]}
UNKNOWN = {"name": "yarl", "skip_reason": "Dependency not found on PyPI and could not be audited: yarl"}


@pytest.mark.parametrize("output", ["", "Traceback", "{}", json.dumps({"dependencies": [UNKNOWN]})])
@pytest.mark.parametrize("required", [False, True])
def test_where_no_service_answers_it_says_that_nothing_was_audited(
    audit: Any, output: str, required: bool
) -> None:
    status, lines = audit.verdict(audit.answered(output), ["yarl"], required=required)
    assert status == int(required)
    assert lines == ["NOT AUDITED: no advisory service could be reached from here"]


@pytest.mark.parametrize(
    ("found", "status", "said"),
    [
        ([CLEAN], 0, "1 of 2 installed packages audited"),
        ([CLEAN, SICK], 1, "VULNERABLE: jinja 1.0: PYSEC-2026-1, fixed in 1.1"),
        ([CLEAN, UNKNOWN], 0, "NOT AUDITED, the service does not know them: yarl"),
    ],
)
def test_a_vulnerability_fails_and_what_is_not_known_is_named(
    audit: Any, found: list[dict[str, object]], status: int, said: str
) -> None:
    known = audit.answered(json.dumps({"dependencies": found}))
    names = [*(str(each["name"]) for each in found), "memory-sidecar"]
    given, lines = audit.verdict(known, names, required=False)
    assert given == status
    assert said in lines

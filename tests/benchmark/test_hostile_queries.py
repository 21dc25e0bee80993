"""Query strings that nobody types and somebody sends."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from sidecar.benchmark.hostile import LENGTHS, hostile_queries

EXAMPLE = Path(__file__).parents[2] / "examples" / "benchmark" / "workspace"
WORDS = ("deploy", "naïve", "東京", "E1234", "it's")


def test_hostile_queries_are_repeatable_never_blank_and_within_their_length() -> None:
    first = list(islice(hostile_queries(7, WORDS), 500))
    assert first == list(islice(hostile_queries(7, WORDS), 500))
    assert first != list(islice(hostile_queries(8, WORDS), 500))
    assert {longest for longest, _ in first} == set(LENGTHS)
    assert all(query.strip() and len(query) <= max(longest, 3) for longest, query in first)


@pytest.mark.slow
def test_thousands_of_hostile_queries_give_no_error(launcher: Any) -> None:
    done = launcher.run(
        "hostile", str(EXAMPLE), "--count", "5000", "--json", module="sidecar.benchmark", timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert (result["failed"], result["errors"]) == (0, [])
    assert sum(row["queries"] for row in result["classes"]) == 5000

"""`check`: a user's own questions against a real index, and what changed since last time (spec §2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli.questions import read_questions
from sidecar.domain.errors import SettingsError

QUESTIONS = """
[[question]]
ask = "where is the garage opener?"
expect = ["MEMORY.md:3"]

[[question]]
ask = "who serviced the boiler?"
expect = ["memory/nowhere.md", "memory/2026-03-04.md"]
within = 1

[[question]]
ask = "where do the tent poles lie?"
expect = ["memory/tent.md"]
"""


@pytest.mark.slow
def test_questions_are_found_missed_and_compared_with_the_last_run(
    example: Any, launcher: Any, workspace: Path, tmp_path: Path
) -> None:
    file = tmp_path / "queries.toml"
    file.write_text(QUESTIONS)
    flags = ("--workspace", str(workspace), "--state-dir", str(example.state))
    done = launcher.run("check", str(file), *flags)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[:2]) == (
        1, ["found   1  where is the garage opener?", "found   1  who serviced the boiler?"],
    )  # fmt: skip
    assert lines[2] == "missed  -  where do the tent poles lie?"
    assert lines[-1] == "2 of 3 found"
    assert "-> memory-sidecar why memory/tent.md 'where do the tent poles lie?'" in done.stdout

    (workspace / "memory" / "tent.md").write_text("The tent poles lie in the cellar.\n")
    (workspace / "memory" / "2026-03-04.md").unlink()
    assert launcher.run("index", *flags).returncode == 0
    report = json.loads(launcher.run("check", str(file), "--json", "--no-record", *flags).stdout)
    assert (report["found"], report["asked"]) == (2, 3)
    assert [item["change"] for item in report["questions"]] == ["same", "broken", "fixed"]
    assert [item["rank"] for item in report["questions"]] == [1, None, 1]
    done = launcher.run("check", str(file), *flags)
    assert done.stdout.splitlines()[-1] == "2 of 3 found; since last time: 1 broken, 1 fixed"
    done = launcher.run("check", str(file), *flags)
    assert done.stdout.splitlines()[-1] == "2 of 3 found"

    # What is remembered holds neither questions nor notes.
    records = list(example.state.glob("check.*.json"))
    assert len(records) == 1
    assert "garage" not in records[0].read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question = []", "Expected `array` of length >= 1"),
        ('[[question]]\nask = "x"', "missing required field `expect`"),
        ('[[question]]\nask = "x"\nexpect = ["a"]\nwithn = 3', "unknown field `withn`"),
        ('[[question]]\nask = " "\nexpect = ["a"]', "regex"),
        ("[[", "Invalid initial character"),
    ],
)
def test_a_broken_file_is_refused_with_one_line_that_names_it(
    text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "queries.toml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=message) as refusal:
        read_questions(file)
    assert str(file) in refusal.value.message
    assert "\n" not in refusal.value.message

"""The speed benchmark: the same notes for the same seed, and every figure that the README speaks of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.benchmark import speed as speed_module
from sidecar.benchmark import speed_agents as agents_module
from sidecar.benchmark.speed_notes import queries, write_notes
from sidecar.benchmark.speed_readme import SHOWN, readme_table
from sidecar.benchmark.speed_rows import Row, Rows, medians

FIGURES = """
first index
search v2, p50
search v2, p99
search v1, p50
search v2, 8 clients, p50
throughput, 8 clients
next page of 5, p50
get, p50
saved line found, p95
one edit with its scan
resident after start
resident after index
graph and merges after it
resident at rest
resident after edits
search during a rebuild, p50
longest stall of the event loop so far
state on disk
warm start: ready line
warm start: index verified
""".strip().split("\n")
WITH_FLOOR = ("first index", "search v2, p50", "search v1, p50", "get, p50", "throughput, 8 clients")


def texts(directory: Path, count: int, seed: int) -> dict[str, str]:
    paths = write_notes(directory, count, seed)
    return {str(path.relative_to(directory)): path.read_text("utf-8") for path in paths}


def test_a_seed_names_one_corpus_of_notes_of_two_kilobytes_in_several_scripts(tmp_path: Path) -> None:
    first = texts(tmp_path / "a", 60, 1)
    assert texts(tmp_path / "b", 60, 1) == first
    assert texts(tmp_path / "c", 60, 2) != first
    assert len(first) == 60
    assert all(1500 < len(text.encode()) < 4000 for text in first.values())
    assert all(any(sign in text for text in first.values()) for sign in "пß会회ا")


def test_queries_ask_for_what_the_notes_say(tmp_path: Path) -> None:
    said = {word for text in texts(tmp_path, 200, 1).values() for word in text.lower().split()}
    asked = [word for query in queries(1, 50) for word in query.split()]
    assert asked == [word for query in queries(1, 50) for word in query.split()]
    assert sum(word in said for word in asked) > 0.8 * len(asked)


def test_several_runs_give_the_median_of_each_figure_and_of_its_ratio() -> None:
    def row(value: float, ratio: float) -> Row:
        return Row(notes=1, name="a", value=value, unit="ms", floor=value / ratio, ratio=ratio)

    assert medians([[row(4, 2)], [row(9, 1)], [row(5, 7)]])[0].value == 5
    assert medians([[row(4, 2)], [row(9, 1)], [row(5, 7)]])[0].ratio == 2
    assert medians([[row(4, 2)], [row(9, 1)], [row(5, 7)]])[0].cpu is None


def test_the_readmes_table_has_a_column_a_corpus_and_every_ratio() -> None:
    rows = Rows(1000)
    rows.seconds("first index", 1.234, floor=0.5)
    rows.amount("resident at rest", 1234.5, "MB")
    many = Rows(400, label="2 agents of 200 notes")
    many.seconds("first index of all agents", 3.0, floor=2.0)
    lines = readme_table([*rows.found, *many.found], 5).split("\n")
    assert "medians of 5 runs" in lines[0]
    assert "| | 1,000 notes | 2 agents of 200 notes |" in lines
    assert "| first index, from the start of the process | 1.23 s (2.47x) |  |" in lines
    assert "| resident at rest | 1,234 MB |  |" in lines
    assert lines[-1].endswith("|  | 3.00 s (1.50x) |")


def test_the_readmes_table_names_only_figures_that_are_measured() -> None:
    source = Path(speed_module.__file__).read_text("utf-8")
    source += Path(agents_module.__file__).read_text("utf-8")
    plain = {name.removesuffix(", p50").removesuffix(", p99").removesuffix(", p95") for name in SHOWN}
    named = {name.replace("8 clients", "{CLIENTS} clients") for name in plain}
    assert all(f'"{name}' in source for name in named), [name for name in named if f'"{name}' not in source]


@pytest.mark.slow
def test_many_agents_are_measured_against_one(launcher: Any) -> None:
    arguments = ("speed", "--notes", "30", "--searches", "3", "--edits", "1", "--agents", "2", "--readme")
    done = launcher.run(*arguments, module="sidecar.benchmark", timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| | 30 notes | 2 agents of 200 notes |" in done.stdout


@pytest.mark.slow
def test_every_figure_is_measured_and_printed(launcher: Any) -> None:
    arguments = ("speed", "--notes", "100", "--searches", "20", "--edits", "5", "--json")
    done = launcher.run(*arguments, module="sidecar.benchmark", timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert set(FIGURES) <= rows.keys()
    assert all(rows[name]["value"] > 0 for name in FIGURES)
    assert all(rows[name]["ratio"] > 0 for name in WITH_FLOOR)

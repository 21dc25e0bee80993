"""Everything at once: changes, faults, kills, damage and readers, and the promises hold (spec §1, §7).

Longer: `python -m sidecar.benchmark chaos --minutes 30`, `... --kills 500`, `... --kills 100 --damage`.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from sidecar.benchmark.chaos import Broken, Chaos, Plan
from sidecar.benchmark.chaos_world import WORD, World


def run(launcher: Any, *arguments: str) -> str:
    done = launcher.run("chaos", *arguments, module="sidecar.benchmark", timeout=600)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "every invariant held" in done.stdout
    return str(done.stdout)


@pytest.mark.slow
def test_changes_faults_and_kills_lose_nothing_and_serve_nothing_stale(launcher: Any) -> None:
    assert " kills" in run(launcher, "--minutes", "0.1", "--kills", "10", "--seed", "5")


@pytest.mark.slow
def test_a_state_that_is_damaged_between_kills_is_mended_by_the_next_start(launcher: Any) -> None:
    assert " damages" in run(launcher, "--minutes", "0.1", "--kills", "6", "--damage", "--seed", "4")


@pytest.fixture
def chaos(tmp_path: Path) -> Chaos:
    return Chaos(tmp_path, Plan(seconds=1, kills=0, damage=False, seed=1))


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "w").mkdir()
    return World(tmp_path / "w", tmp_path, Random(2))  # noqa: S311


@pytest.mark.slow
def test_the_model_knows_what_is_on_the_disk_whatever_happens(world: World) -> None:
    for _ in range(400):
        world.act()
        world.harm()
    on_disk = {
        str(path.relative_to(world.root)): path.read_bytes()
        for path in world.root.rglob("*.md")
        if path.is_file() and not path.is_symlink()
    }
    assert on_disk.keys() == world.notes.keys()
    for path, data in on_disk.items():
        text = data.decode("utf-8", "replace")
        assert WORD.findall(text) == WORD.findall(world.notes[path])
    assert not world.living & world.gone.keys()


def page(excerpt: str) -> list[dict[str, object]]:
    return [{"excerpt": excerpt, "reference": {"id": "memory/a.md"}}]


@pytest.mark.parametrize(
    ("excerpt", "says"),
    [
        ("- zk000000000001 amber", "gone for 1"),
        ("- zk000000000009 amber", "never was in the workspace"),
        ("- zk000000000002 other", "never was"),
        ("- zk000000000002 amber", None),
    ],
)
def test_a_stale_foreign_or_garbled_answer_is_found_out(chaos: Chaos, excerpt: str, says: str | None) -> None:
    known = chaos._world
    known.lines |= {
        "zk000000000001": {"- zk000000000001 amber"},
        "zk000000000002": {"- zk000000000002 amber"},
    }
    known.gone["zk000000000001"] = 10.0
    if says is None:
        chaos._check_page("amber", page(excerpt), 11.0)
        return
    with pytest.raises(Broken, match=says):
        chaos._check_page("amber", page(excerpt), 11.0)

"""Agents in this process, one index for the many cases of a property."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def make_world() -> Iterator[Callable[..., Any]]:
    from paging_world import World

    worlds: list[World] = []
    with tempfile.TemporaryDirectory() as name:

        def make(**parts: Any) -> World:
            directory = Path(name) / str(len(worlds))
            directory.mkdir()
            worlds.append(World(directory, **parts))
            return worlds[-1]

        yield make
        for world in worlds:
            world.close()


@pytest.fixture(scope="module")
def world(make_world: Callable[..., Any]) -> Any:
    return make_world()

"""Makes `index_builders` importable for the tests of this folder and their child processes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
async def _no_index_stays_open() -> AsyncIterator[None]:
    from index_builders import close_all

    yield
    await close_all()

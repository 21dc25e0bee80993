"""A real embedding endpoint on loopback for the tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "index"))

if TYPE_CHECKING:
    from embedding_endpoint import Endpoint


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    """An endpoint that works, until a test gives it a fault."""
    from embedding_endpoint import Endpoint

    started = Endpoint()
    await started.start()
    yield started
    await started.stop()


@pytest.fixture(autouse=True)
async def _no_index_stays_open() -> AsyncIterator[None]:
    from index_builders import close_all

    yield
    await close_all()

"""A stage and a way to hold provider code still."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from lease_stage import Stage, staged


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with staged() as running:
        yield running


@pytest.fixture
async def held() -> AsyncIterator[asyncio.Event]:
    """Provider code that waits for it goes on once it is set."""
    event = asyncio.Event()
    yield event
    event.set()

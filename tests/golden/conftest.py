"""Makes `golden_replay` importable, and serves what the golden files ask."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def golden_service(shared_launcher: Any) -> Iterator[Any]:
    """The service that the golden files were made with."""
    from golden_replay import configuration

    service = shared_launcher.serve(None, "--config", str(configuration(shared_launcher.directory)))
    yield service
    assert service.stop() == 0

"""A real browser for the page's tests. `CHROMIUM` names its program, else `chromium` is looked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One browser with an empty profile for the tests of a file."""
    from page_visit import Browser

    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    """Opens pages that must end without an error in the console or a request to anybody else."""
    visits: list[Any] = []

    def opened(service: Any, **options: Any) -> Any:
        visits.append(browser.visit(service, **options))
        return visits[-1]

    yield opened
    for made in visits:
        made.close()
    for made in visits:
        made.was_clean()

"""A query that is a file's name (U§11)."""

from __future__ import annotations

import pytest

from sidecar.ranking.names import name_of, name_tier


@pytest.mark.parametrize(
    ("query", "tier"),
    [
        ("memory/House.md", 3),
        (" ./memory/house.md ", 3),
        ("memory\\\\house.md".replace("\\\\", "\\"), 3),
        ("HOUSE.md", 2),
        ("house", 1),
        ("hous", 0),
        ("the house", 0),
        (".", 0),
        ("", 0),
        ("memory", 0),
    ],
)
def test_path_name_and_stem_are_told_apart(query: str, tier: int) -> None:
    assert name_tier(name_of(query), "memory/House.md") == tier


def test_both_unicode_forms_name_the_same_file() -> None:
    assert name_tier(name_of("re\u0301sume\u0301"), "memory/r\u00e9sum\u00e9.md") == 1

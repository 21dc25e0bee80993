"""Recorded origins: an untrusted text stays known as one for as long as the process lives."""

from __future__ import annotations

import pytest

from sidecar.domain.errors import Overloaded
from sidecar.host.origins import Origins


def test_an_origin_is_of_exactly_one_text() -> None:
    origins = Origins()
    origins.put("memory/a.md", "r1", "untrusted")
    assert origins.of("memory/a.md", "r1") == "untrusted"
    assert origins.of("memory/a.md", "r2") is None
    assert origins.of("memory/b.md", "r1") is None


@pytest.mark.parametrize("spelled", ["./MEMORY.md", "memory/../MEMORY.md", ".//MEMORY.md"])
def test_an_untrusted_text_is_known_however_its_path_is_spelled(spelled: str) -> None:
    origins = Origins()
    origins.put(spelled, "r1", "untrusted")
    assert origins.of("MEMORY.md", "r1") == "untrusted"
    origins.put("memory/e\u0301t\u00e9.md", "r1", "untrusted")
    assert origins.of("memory/\u00e9te\u0301.md", "r1") == "untrusted"


def test_the_last_word_on_a_text_counts() -> None:
    origins = Origins()
    for origin in ("untrusted", "owner", "system", "untrusted", "agent"):
        origins.put("a", "r", origin)  # type: ignore[arg-type]
        assert origins.of("a", "r") == origin


def test_room_is_made_of_trusted_texts_and_never_of_untrusted_ones() -> None:
    origins = Origins(most=3)
    origins.put("bad", "r", "untrusted")
    for number in range(10):
        origins.put(f"good-{number}", "r", "agent")
    assert origins.of("bad", "r") == "untrusted"
    assert origins.of("good-0", "r") is None
    assert origins.of("good-9", "r") == "agent"
    for number in range(2):
        origins.put(f"bad-{number}", "r", "untrusted")
    with pytest.raises(Overloaded):
        origins.put("bad-3", "r", "untrusted")
    origins.put("bad", "r", "untrusted")
    assert origins.of("bad-1", "r") == "untrusted"

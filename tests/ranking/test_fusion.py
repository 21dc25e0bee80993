"""Scores stay on their scale, whatever is repeated (spec §7)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sidecar.ranking.fusion import FULL, MOST, bounded


@given(st.lists(st.floats(0, 50, width=32), min_size=2, max_size=30))
def test_scores_keep_their_order_and_never_leave_the_scale(scores: list[float]) -> None:
    shown = bounded(np.array(sorted(scores), np.float32))
    assert (np.diff(shown) >= 0).all()
    assert shown.max() <= MOST + np.float32(1e-6)


@given(st.floats(0, float(FULL), width=32))
def test_what_a_unit_can_say_by_itself_is_left_as_it_is(score: float) -> None:
    assert bounded(np.array([score], np.float32))[0] == np.float32(score)

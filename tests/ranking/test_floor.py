"""Where an answer ends (spec §5.1: strict minimum, our own rule without one)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.ranking.floor import DefaultFloor, FileShapedFloor, Floor, StrictFloor

scores_ = st.lists(st.floats(0, 1.5), min_size=1, max_size=60).map(lambda s: sorted(s, reverse=True))


def kept(floor: Floor, scores: list[float], text: float = 0.1) -> list[float]:
    """What stays of a ranked list, as a search walks it."""
    out: list[float] = []
    for score in scores:
        if floor.keeps(len(out), score, text, scores[0]):
            out.append(score)
        elif floor.final:
            break
    return out


@given(scores_)
def test_without_a_minimum_what_stays_is_the_start_of_the_list(scores: list[float]) -> None:
    stays = kept(DefaultFloor(), scores)
    assert stays == scores[: len(stays)]


@given(scores_.filter(lambda scores: scores[0] > 0))
def test_the_best_hit_that_shares_a_word_always_stays(scores: list[float]) -> None:
    assert kept(DefaultFloor(), scores)[:1] == scores[:1]


def test_equal_hits_stay_together_however_many_they_are() -> None:
    for best in (0.1, 0.35, 0.7, 1.2):
        assert len(kept(DefaultFloor(), [best] * 50)) == 50


def test_a_weak_best_hit_has_few_beside_it_and_a_strong_one_many() -> None:
    lengths = [len(kept(DefaultFloor(), [best] + [0.6 * best] * 49)) for best in (0.06, 0.2, 0.35, 0.7, 1.0)]
    assert lengths == sorted(lengths)
    assert lengths[0] == 1
    assert lengths[-1] == 20


def test_by_meaning_alone_nothing_very_weak_is_shown() -> None:
    assert kept(DefaultFloor(), [0.19, 0.1], text=0.0) == []


@given(scores_, st.floats(-1, 2))
def test_a_given_minimum_is_strict(scores: list[float], minimum: float) -> None:
    assert kept(StrictFloor(minimum), scores) == [score for score in scores if round(score, 6) >= minimum]


def test_in_v1_hits_with_words_survive_a_minimum_and_hits_by_meaning_do_not() -> None:
    floor = FileShapedFloor(0.5)
    assert kept(floor, [0.9, 0.4, 0.1], text=0.1) == [0.9, 0.4, 0.1]
    assert kept(floor, [0.9, 0.4, 0.1], text=0.0) == [0.9]

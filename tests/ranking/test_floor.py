"""Where an answer ends (spec §5.1: strict minimum, our own rule without one)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.ranking.floor import DefaultFloor, FileShapedFloor, Floor, Strength, StrictFloor

scores_ = st.lists(st.floats(0, 1.5), min_size=1, max_size=60).map(lambda s: sorted(s, reverse=True))


def kept(floor: Floor, scores: list[float], text: float = 1.0) -> list[float]:
    """What stays of a ranked list, as a search walks it; `text` is the words' share of every score."""
    out: list[float] = []
    for score in scores:
        if floor.keeps(len(out), Strength(score, text * score), Strength(scores[0], text * scores[0])):
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
    lengths = [len(kept(DefaultFloor(), [best] + [0.6 * best] * 49)) for best in (0.09, 0.2, 0.28, 0.7, 1.0)]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[2], lengths[-1]) == (1, 6, 20)


@given(st.floats(0, 0.12))
def test_a_little_likeness_makes_no_list_longer(likeness: float) -> None:
    """What any text has in common with any query says nothing of it."""
    words = [0.2] + [0.15] * 30
    alike = [score + likeness for score in words]
    floor, best = DefaultFloor(), Strength(alike[0], words[0])
    more = [
        place
        for place, (score, text) in enumerate(zip(alike, words, strict=True))
        if floor.keeps(place, Strength(score, text), best) and score < floor.near * alike[0]
    ]
    assert len(more) < len(kept(floor, words)) == 5


@given(scores_.filter(lambda scores: scores[0] > 0))
def test_one_common_word_of_several_makes_no_list_longer_and_a_middling_one_shorter(
    scores: list[float],
) -> None:
    """The notes that hold it may be about anything."""

    def length(ranked: list[float], *, lone: bool) -> int:
        best = Strength(ranked[0], ranked[0], lone)
        stays = [
            DefaultFloor().keeps(place, Strength(score, score), best) for place, score in enumerate(ranked)
        ]
        return [*stays, False].index(False)

    assert length(scores, lone=True) <= length(scores, lone=False)
    assert (length([0.25] + [0.2] * 9, lone=True), length([0.25] + [0.2] * 9, lone=False)) == (1, 6)


def test_by_meaning_alone_nothing_very_weak_is_shown() -> None:
    assert kept(DefaultFloor(), [0.19, 0.1], text=0.0) == []


@given(scores_, st.floats(-1, 2))
def test_a_given_minimum_is_strict(scores: list[float], minimum: float) -> None:
    assert kept(StrictFloor(minimum), scores) == [score for score in scores if round(score, 6) >= minimum]


def test_in_v1_hits_with_words_survive_a_minimum_and_hits_by_meaning_do_not() -> None:
    floor = FileShapedFloor(0.5)
    assert kept(floor, [0.9, 0.4, 0.1], text=0.1) == [0.9, 0.4, 0.1]
    assert kept(floor, [0.9, 0.4, 0.1], text=0.0) == [0.9]

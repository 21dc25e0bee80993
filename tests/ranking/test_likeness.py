"""Near-equal text is known as such, and short facts that differ in a word are not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.ranking.likeness import Likeness, said

WORDS = st.lists(st.sampled_from([f"w{number}" for number in range(40)]), min_size=5, max_size=60)


def having_shown(excerpt: str) -> Likeness:
    """One excerpt was shown."""
    shown = Likeness()
    shown.show(said(excerpt))
    return shown


@given(WORDS, WORDS)
def test_two_excerpts_are_near_equal_exactly_when_they_share_four_words_in_five(
    first: list[str], second: list[str]
) -> None:
    shown = having_shown(" ".join(first))
    one, other = set(first), set(second)
    near = len(one) >= 5 and len(other) >= 5 and len(one & other) / len(one | other) >= 0.8
    assert shown.repeats(said(" ".join(second))) is near


def test_a_short_line_with_one_other_word_is_another_fact() -> None:
    shown = having_shown("- Anna's birthday: May")
    assert not shown.repeats(said("- Anna's birthday: June"))


def test_case_and_white_space_make_no_difference() -> None:
    shown = having_shown("- The backup runs every night at two")
    assert shown.repeats(said("-  the BACKUP runs every night\n  at two"))

"""Days of daily notes, and how they are spoken."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.text.dates import note_day, numeric_dates, spoken, worded_dates


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("memory/2026-05-18.md", date(2026, 5, 18)),
        ("memory/2026-05-18-trip to sea.md", date(2026, 5, 18)),
        ("memory/a/b/2024-02-29.md", date(2024, 2, 29)),
        ("memory/2023-02-29.md", None),
        ("memory/2026-05-18-.md", None),
        ("memory/2026-05-18x.md", None),
        ("memory/x2026-05-18.md", None),
        ("memory/2026-05-18/notes.md", None),
        ("memory/2026-05-18.MD", None),
        ("memory/0000-01-01.md", None),
        ("memory/２０２６-05-18.md", None),
        ("../shared/2026-05-18.md", None),
        ("2026-05-18.md", None),
    ],
)
def test_only_daily_names_under_memory_with_real_days_have_a_day(path: str, day: date | None) -> None:
    """U§8: everything else is evergreen."""
    assert note_day(path) == day


@given(st.dates(date(1900, 1, 1), date(2199, 12, 31)))
@settings(max_examples=100, deadline=None)
def test_a_spoken_day_names_the_same_day_as_its_figures(day: date) -> None:
    """What a daily note is indexed under is what both ways of asking give."""
    term = f"d{day.isoformat()}"
    assert [written.term for written in worded_dates(spoken(day))] == [term]
    assert [written.term for written in numeric_dates(day.isoformat())] == [term]


def test_a_day_is_spoken_with_month_year_and_weekday() -> None:
    """The words that people use."""
    assert spoken(date(2023, 5, 8)) == "8 May 2023 Monday"


@pytest.mark.parametrize(
    "text", ["you may 8", "mayo", "in May", "version 2023.05", "12345-06-07", "99 June", "May 2"]
)
def test_words_and_numbers_that_are_no_full_dates_are_not_taken_for_them(text: str) -> None:
    """Neither a day nor a month of a year comes out."""
    written = (*worded_dates(text), *numeric_dates(text))
    assert {date.kind for date in written} <= {"anniversary"}

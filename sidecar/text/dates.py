"""Dates: of daily notes (U§8), and in text, however they are written.

Dates in text become canonical terms beside their words, so that "May 8th, 2023", "8 May 2023" and
"2023-05-08" find each other: `d2023-05-08` for a day, `d2023-05` for its month, `m05-08` for the day in any
year.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Literal

import msgspec

_DAILY = re.compile(r"memory/(?:.*/)?([0-9]{4})-([0-9]{2})-([0-9]{2})(?:-[^/]+)?\.md\Z", re.DOTALL)
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTH_NAMES = (
    ("january", "jan", "januar", "janvier", "enero"),
    ("february", "feb", "februar", "février", "febrero"),
    ("march", "mar", "märz", "mars", "marzo"),
    ("april", "apr", "avril", "abril"),
    ("may", "mai", "mayo"),
    ("june", "jun", "juni", "juin", "junio"),
    ("july", "jul", "juli", "juillet", "julio"),
    ("august", "aug", "août", "agosto"),
    ("september", "sept", "sep", "septembre", "septiembre"),
    ("october", "oct", "oktober", "okt", "octobre", "octubre"),
    ("november", "nov", "novembre", "noviembre"),
    ("december", "dec", "dezember", "dez", "décembre", "diciembre"),
)
_MONTH_NUMBER = {name: number for number, names in enumerate(_MONTH_NAMES, start=1) for name in names}
_MONTH = "(" + "|".join(sorted(_MONTH_NUMBER, key=len, reverse=True)) + r")\b\.?"
_YEAR = r"((?:19|20|21)[0-9]{2})\b"
_DAY = r"([0-9]{1,2})(?:st|nd|rd|th)?\b"

_ANY_MONTH = re.compile(rf"\b{_MONTH}", re.IGNORECASE)
_DAY_MONTH = re.compile(
    rf"\b{_DAY}\.?\s{{1,3}}(?:(?:of|de)\s{{1,3}})?{_MONTH}(?:,?\s{{1,3}}(?:de\s{{1,3}})?{_YEAR})?",
    re.IGNORECASE,
)
_MONTH_DAY = re.compile(rf"\b{_MONTH}\s{{1,3}}(?:the\s{{1,3}})?{_DAY}(?:,?\s{{1,3}}{_YEAR})?", re.IGNORECASE)
_MONTH_YEAR = re.compile(rf"\b{_MONTH},?\s{{1,3}}(?:of\s{{1,3}}|de\s{{1,3}})?{_YEAR}", re.IGNORECASE)
_EAST_ASIAN = re.compile(
    r"([0-9]{4})\s?[年년]\s?([0-9]{1,2})\s?[月월](?:\s?([0-9]{1,2})\s?[日일])?",
)
_NUMERIC = re.compile(
    r"(?<![0-9])((?:19|20|21)[0-9]{2})([-/.])(1[0-2]|0?[1-9])(?:\2(3[01]|[12][0-9]|0?[1-9]))?(?![0-9])"
)
_ANY_DIGIT = re.compile(r"[0-9]")


class WrittenDate(msgspec.Struct, frozen=True):
    """A date as a text names it: `day` (with its year), `month` (of a year) or `anniversary` (no year)."""

    kind: Literal["day", "month", "anniversary"]
    term: str

    def wider_terms(self) -> tuple[str, ...]:
        """Terms of a day that less exact mentions share: its month, and the same day of any year."""
        if self.kind != "day":
            return ()
        return (self.term[:8], f"m{self.term[6:]}")


def note_day(path: str) -> date | None:
    """The day of a daily note: `YYYY-MM-DD.md` or `YYYY-MM-DD-<slug>.md` at any depth under `memory/`."""
    found = _DAILY.match(path)
    return _valid(int(found[1]), int(found[2]), int(found[3])) if found else None


def spoken(day: date) -> str:
    """The words by which people ask for a day: `8 May 2023 Monday`."""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year} {_WEEKDAYS[day.weekday()]}"


def numeric_dates(token: str) -> Iterator[WrittenDate]:
    """Dates in figures within a token: `2026-06-07`, `2026/6/7`, `2026.06.07`, and months: `2026-06`."""
    for found in _NUMERIC.finditer(token):
        if found[4]:
            yield from _day(int(found[1]), int(found[3]), int(found[4]))
        elif found[2] != "." and len(found[3]) == 2:
            yield WrittenDate("month", f"d{found[1]}-{found[3]}")


def worded_dates(text: str) -> Iterator[WrittenDate]:
    """Dates with a month's name (English, German, French, Spanish) or East Asian signs, in linear time."""
    if not _ANY_DIGIT.search(text):
        return
    if _ANY_MONTH.search(text):
        days_end: set[int] = set()
        for found in _DAY_MONTH.finditer(text):
            days_end.add(found.end())
            yield from _named(found[3], found[2], found[1])
        for found in _MONTH_DAY.finditer(text):
            yield from _named(found[3], found[1], found[2])
        for found in _MONTH_YEAR.finditer(text):
            # "May 2023" inside "8 May 2023" is no mention of the month.
            if found.end() not in days_end:
                yield from _named(found[2], found[1], None)
    for found in _EAST_ASIAN.finditer(text):
        year, month = int(found[1]), int(found[2])
        if found[3]:
            yield from _day(year, month, int(found[3]))
        elif 1 <= month <= 12:
            yield WrittenDate("month", f"d{year:04}-{month:02}")


def _named(year: str | None, month_name: str, day: str | None) -> Iterator[WrittenDate]:
    month = _MONTH_NUMBER.get(month_name.lower())
    if month is None:
        # Case folding of the pattern is wider than `lower` ("ſept"): not a month that we know.
        return
    if day is None:
        yield WrittenDate("month", f"d{year}-{month:02}")
    elif year is not None:
        yield from _day(int(year), month, int(day))
    elif 1 <= int(day) <= 31:
        yield WrittenDate("anniversary", f"m{month:02}-{int(day):02}")


def _day(year: int, month: int, day: int) -> Iterator[WrittenDate]:
    valid = _valid(year, month, day)
    if valid is not None:
        yield WrittenDate("day", f"d{valid.isoformat()}")


def _valid(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None

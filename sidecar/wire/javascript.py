"""How the gateway's language sees a JSON value, where that decides an answer (U§2, U§3).

Booleans are not numbers, `3.0` is an integer, blank means what `String.prototype.trim` leaves empty.
"""

from __future__ import annotations

import math

_TRIM = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

LARGEST_INTEGER = 2**53 - 1


def trim(text: str) -> str:
    """The text without leading and trailing white space as JavaScript defines it."""
    return text.strip(_TRIM)


def finite_number(value: object) -> float | None:
    """The value as a finite double, or None when it is no number or too large for one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def positive_integer(value: object) -> int | None:
    """The value as an integer of at least 1 (`3.0` counts), or None.

    Beyond `LARGEST_INTEGER` doubles are not exact, and nothing that is counted is that large: it stands for
    all that is larger.
    """
    number = finite_number(value)
    if number is None or number < 1 or not number.is_integer():
        return None
    return min(int(number), LARGEST_INTEGER)


def text(value: object) -> str | None:
    """The value if it is a non-blank string, untrimmed, or None."""
    return value if isinstance(value, str) and trim(value) else None

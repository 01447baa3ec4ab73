"""How large, how small and how long a number that somebody gives may be, and numbers in full.

A decimal of few letters can stand for billions of digits (``1E-999999999``): it is refused where
it is read, so that nothing below has to ask.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

MOST_DIGITS = 30
FARTHEST = 20  # the first digit of a number stands at most so many places from the point
LONGEST = timedelta(days=36_525)  # a hundred years
_FARTHEST_READ = 60  # what others say, before it is judged
_MOST_SHOWN = 200


class OutOfRange(ValueError):
    """A number that nobody means: too large, too small or of too many digits."""

    def __init__(self) -> None:
        super().__init__(f"is out of range: at most {MOST_DIGITS} digits, from 1e-20 to 1e20")


def is_within(number: Decimal, farthest: int = FARTHEST) -> bool:
    """Whether *number* is finite and its first digit at most *farthest* places from the point."""
    return number.is_finite() and -farthest <= number.adjusted() <= farthest


def bounded(number: Decimal) -> Decimal:
    """*number* as it is; any nothing as 0. Raises OutOfRange for one that is not finite, of more
    than 30 digits, or whose first digit is more than 20 places from the point."""
    if number.is_zero():
        return Decimal(0)
    if not is_within(number) or len(number.as_tuple().digits) > MOST_DIGITS:
        raise OutOfRange
    return number


def readable(number: Decimal) -> Decimal:
    """*number* as it is; OutOfRange for one that no provider can mean (beyond 60 places)."""
    if not is_within(number, _FARTHEST_READ):
        raise OutOfRange
    return number


def lasting(amount: Decimal, unit: timedelta) -> timedelta:
    """*amount* (0 or more) of *unit*, to the microsecond. Raises OutOfRange beyond 100 years."""
    seconds = int(unit.total_seconds())
    # Divided, so that no product of a wild exponent is ever made.
    if not amount.is_finite() or amount > int(LONGEST.total_seconds()) // seconds:
        raise OutOfRange
    return timedelta(seconds=float(amount) * seconds)


def in_full(number: Decimal) -> str:
    """*number* without trailing zeros and without an exponent; one of more than 200 places, which
    nobody could read, keeps its exponent."""
    if not -_MOST_SHOWN <= number.adjusted() <= _MOST_SHOWN:
        return "0" if number.is_zero() else str(number)
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def shown(text: str) -> str:
    """What somebody typed as a message repeats it: short."""
    told = repr(text)
    return told if len(told) <= 60 else told[:60] + "…"

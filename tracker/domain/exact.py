"""Arithmetic of bills: exact sums and products, quotients rounded up, and checks of figures.

The caller's decimal context plays no part: two processes get the same digits.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

# Wide enough for every product and sum of prices, hours and counts to be exact.
EXACT = Context(prec=200)

# Quotients: 28 digits, the last one upwards, so that a unit price x count is never below the total.
UP = Context(prec=28, rounding=ROUND_CEILING)

HOUR_STEP = Decimal("1e-9")  # 3.6 microseconds, the step of hours in a bill
MICRO_USD = Decimal("1e-6")


class BadFigure(ValueError):
    """A figure that cannot be. The message is one line that says what to change."""


def hours_up(hours: float | Decimal) -> Decimal:
    """*hours* upwards to the billionth.

    A float is first taken to 14 digits, so that the noise in its last bits does not cost a step.
    """
    exact = hours if isinstance(hours, Decimal) else Decimal(f"{hours:.14g}")
    return exact.quantize(HOUR_STEP, ROUND_CEILING, EXACT)


def usd_up(usd: Decimal) -> Decimal:
    """*usd* upwards to a millionth of a dollar."""
    return usd.quantize(MICRO_USD, ROUND_CEILING, EXACT)


def ratio_up(numerator: Decimal, denominator: Decimal) -> Decimal:
    """Their quotient, upwards in the 28th digit. *denominator* must be > 0."""
    return UP.divide(numerator, denominator)


def whole_up(numerator: Decimal, denominator: Decimal) -> int:
    """The smallest whole number that is no less than their quotient. Both exact, the latter > 0."""
    with_rest, rest = EXACT.divmod(numerator, denominator)
    return int(with_rest) + (rest > 0)


def not_negative(name: str, value: Decimal) -> None:
    """Raises BadFigure when *value* is below 0 or no finite number."""
    if not value.is_finite() or value < 0:
        raise BadFigure(f"{name} must be 0 or more, not {value}")


def positive(name: str, value: Decimal) -> None:
    """Raises BadFigure when *value* is not above 0, or no finite number."""
    if not value.is_finite() or value <= 0:
        raise BadFigure(f"{name} must be above 0, not {value}")


def share(name: str, value: Decimal, *, zero: bool = False) -> None:
    """Raises BadFigure when *value* lies outside (0, 1], or with *zero* outside [0, 1]."""
    if not value.is_finite() or not (0 < value <= 1 or (zero and value == 0)):
        allowed = "from 0 to 1" if zero else "above 0 and at most 1"
        raise BadFigure(f"{name} must be {allowed}, not {value}")


def plain(number: Decimal, digits: int = 3) -> str:
    """*number* for a sentence: at most *digits* decimals, no trailing zeros, no exponent."""
    text = format(round(number, digits), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text

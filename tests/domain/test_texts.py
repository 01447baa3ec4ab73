"""Numbers for people: digits that count, thousands apart, no exponents."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.texts import figure
from tracker.report.shapes import texts


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1503.2, "1,500"), (0.0004567, "0.000457"), (17, "17"), (2.50, "2.5"), (0, "0"),
     (Decimal("1230000"), "1,230,000"), (999.96, "1,000")],
)  # fmt: skip
def test_a_figure_has_three_digits(value: float | Decimal, shown: str) -> None:
    assert figure(value) == shown


@given(st.floats(1e-6, 1e15), st.integers(1, 6))
def test_no_figure_has_an_exponent_or_is_off_by_more_than_its_digits(
    value: float, digits: int
) -> None:
    text = figure(value, digits)
    assert "e" not in text.lower()
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.51 * 10 ** (1 - digits))


@pytest.mark.parametrize(
    ("hours", "shown"),
    [("730", "730 h"), ("1203.428", "1,203.43 h"), ("0.00456", "0.0046 h"), ("0", "0 h"),
     ("0.1", "0.1 h"), ("2.5", "2.5 h"), ("-0.5", "-0.5 h")],
)  # fmt: skip
def test_hours_are_never_shown_as_none_of_them(hours: str, shown: str) -> None:
    assert texts.hours(Decimal(hours)) == shown

"""Numbers that people give have an end, in both directions."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.bounds import LONGEST, OutOfRange, bounded, in_full, lasting, readable, shown

# Any decimal that a text can make, without writing it out.
decimals = st.builds(
    lambda digits, exponent, sign: Decimal((sign, tuple(map(int, str(digits))), exponent)),
    st.integers(0, 10**40), st.integers(-(10**9), 10**9) | st.integers(-60, 60),
    st.integers(0, 1),
)  # fmt: skip


@given(decimals)
def test_what_is_let_through_is_short_in_full(number: Decimal) -> None:
    try:
        found = bounded(number)
    except OutOfRange:
        assert number
        assert abs(number.adjusted()) > 20 or len(number.as_tuple().digits) > 30
        return
    assert found == number
    assert len(format(found, "f")) <= 60
    assert readable(found) == found


@given(decimals)
def test_no_number_is_long_in_full(number: Decimal) -> None:
    text = in_full(number)
    assert len(text) <= 300
    with localcontext(prec=400, Emin=-(10**9) - 100, Emax=10**9 + 100):
        assert Decimal(text) == number


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_none(text: str) -> None:
    for read in (bounded, readable):
        with pytest.raises(OutOfRange):
            read(Decimal(text))


@given(decimals.map(Decimal.copy_abs), st.sampled_from([1, 60, 3600, 86_400, 604_800]))
def test_a_length_of_time_is_at_most_a_hundred_years(amount: Decimal, seconds: int) -> None:
    unit = timedelta(seconds=seconds)
    try:
        found = lasting(amount, unit)
    except OutOfRange:
        assert amount > LONGEST // unit
        return
    assert timedelta() <= found <= LONGEST + unit
    assert found.total_seconds() == pytest.approx(float(amount) * seconds, abs=1e-6, rel=1e-12)


@given(st.text(max_size=5000))
def test_what_was_typed_is_repeated_in_short(text: str) -> None:
    assert len(shown(text)) <= 61

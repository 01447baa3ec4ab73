"""The plane of two prices: on the ray both bills are the same."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from tracker.web.pages.plane import HEIGHT, WIDTH, Bound, break_even_price, plane

usd = st.decimals(min_value="0.01", max_value="100", places=4)
hours = st.decimals(min_value="0.1", max_value="1000", places=2)
one = st.just(Decimal(1))
bounds = st.builds(Bound, st.decimals(min_value=0, max_value=50, places=2), hours, one, one)
points = st.lists(st.tuples(usd, usd), min_size=1, max_size=20)


@settings(max_examples=40)
@given(bounds, bounds, usd)
def test_at_the_break_even_price_both_bills_are_the_same(
    left: Bound, right: Bound, price: Decimal
) -> None:
    even = break_even_price(left, right, price)
    assert abs(left.usd(even) - right.usd(price)) < Decimal("1e-15")


@settings(max_examples=40)
@given(bounds, bounds, points)
def test_every_price_lies_within_the_drawing(
    left: Bound, right: Bound, trail: list[tuple[Decimal, Decimal]]
) -> None:
    drawn = plane(left, right, trail, trail[-1])
    assert drawn is not None
    for pair in drawn.trail.split():
        x, y = (float(part) for part in pair.split(","))
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT
    assert drawn.slope == right.gpu_hours / left.gpu_hours
    for ticks in (drawn.x_ticks, drawn.y_ticks):
        assert 2 <= len(ticks) <= 12
        assert len({tick.text for tick in ticks}) == len(ticks)


@settings(max_examples=40)
@given(bounds, bounds, usd, usd)
def test_a_point_lies_below_the_ray_exactly_where_the_left_bill_is_lower(
    left: Bound, right: Bound, x: Decimal, y: Decimal
) -> None:
    assert (y < break_even_price(left, right, x)) == (left.usd(y) < right.usd(x))


def test_whole_months_have_no_ray() -> None:
    month = Bound(Decimal(500), Decimal(0))
    assert plane(month, Bound(Decimal(0), Decimal(4)), [(Decimal(1), Decimal(2))], None) is None
    assert plane(Bound(Decimal(0), Decimal(4)), Bound(Decimal(0), Decimal(4)), [], None) is None

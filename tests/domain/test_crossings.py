"""When the cheaper of two changed: exact ties, gaps, and the recorded prices of a real cloud."""

from __future__ import annotations

import csv
import itertools
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fixtures import SHARED
from tracker.domain.crossings import Side, crossings, ratios, side_of
from tracker.domain.series import Step, mapped, value_at

T0 = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def steps(*parts: tuple[float, float, str]) -> list[Step]:
    """Steps of (start, end, value), in hours."""
    return [Step(T0 + a * HOUR, T0 + b * HOUR, Decimal(value)) for a, b, value in parts]


def hourly(values: list[int | None]) -> list[Step]:
    return [
        Step(T0 + i * HOUR, T0 + (i + 1) * HOUR, Decimal(v))
        for i, v in enumerate(values)
        if v is not None
    ]


def test_a_crossing_has_its_moment_and_prices() -> None:
    found = crossings(steps((0, 9, "2")), steps((0, 3, "3"), (3, 5, "1"), (5, 9, "4")))
    assert (found.initial, found.since) == (Side.LEFT, T0)
    assert [(c.at, c.to, c.right, c.last_seen, c.gap) for c in found.changes] == [
        (T0 + 3 * HOUR, Side.RIGHT, 1, T0 + 3 * HOUR, False),
        (T0 + 5 * HOUR, Side.LEFT, 4, T0 + 5 * HOUR, False),
    ]
    assert (found.left_lower, found.right_lower, found.last) == (7 * HOUR, 2 * HOUR, Side.LEFT)


def test_touching_is_no_crossing_and_a_tie_on_the_way_is_not_the_moment() -> None:
    right = steps((0, 1, "3"), (1, 2, "2"), (2, 3, "3"), (3, 4, "2"), (4, 5, "1"))
    found = crossings(steps((0, 5, "2")), right)
    [crossing] = found.changes
    assert (crossing.at, crossing.last_seen) == (T0 + 4 * HOUR, T0 + 3 * HOUR)
    assert not crossing.gap
    assert found.tied == 2 * HOUR


def test_nothing_is_filled_over_a_gap() -> None:
    # AWS's cut of the p5 is seen months before the next price of the p4d.
    p5, p4d = steps((0, 5, "98.32"), (5, 90, "55.04")), steps((0, 2, "32.77"), (50, 90, "21.95"))
    found = crossings(mapped(p5, lambda v: v * 4), mapped(p4d, lambda v: v * 12))
    assert found.initial is Side.RIGHT
    [crossing] = found.changes
    assert (crossing.at, crossing.last_seen, crossing.gap) == (T0 + 50 * HOUR, T0 + 2 * HOUR, True)
    assert [step.start for step in ratios(p5, p4d)] == [T0, T0 + 50 * HOUR]


def test_exact_ties_are_ties_and_rounding_does_not_flip_them() -> None:
    # Eight GPUs for 98.32 and 32.77: 4 h cost 49.16 a GPU, 12 h 49.155.
    h100, a100 = Decimal("98.32") / 8 * 4, Decimal("32.77") / 8 * 12
    assert side_of(h100, a100) is Side.RIGHT
    assert side_of(h100, a100, Decimal("0.001")) is Side.TIE
    assert side_of(Decimal("0.1") * 3, Decimal("0.3")) is Side.TIE
    # More digits than the caller's context holds.
    assert side_of(Decimal("1" * 30), Decimal("1" * 30 + ".1")) is Side.LEFT


def test_never_both_known_has_no_side() -> None:
    found = crossings(steps((0, 1, "1")), steps((1, 2, "1")))
    assert (found.initial, found.since, found.changes, found.last) == (None, None, [], None)


VALUES = st.lists(st.none() | st.integers(1, 3), min_size=12, max_size=12)


@given(VALUES, VALUES)
def test_crossings_are_those_of_looking_at_every_hour(
    one: list[int | None], other: list[int | None]
) -> None:
    left, right = hourly(one), hourly(other)
    sides = [
        (hour, Side.LEFT if a < b else Side.RIGHT)
        for hour, (a, b) in enumerate(zip(one, other, strict=True))
        if a is not None and b is not None and a != b
    ]
    expected = []
    for (before, side), (hour, now) in itertools.pairwise(sides):
        if side != now:
            between = zip(one[before + 1 : hour], other[before + 1 : hour], strict=True)
            gap = any(a is None or b is None for a, b in between)
            expected.append((T0 + hour * HOUR, now, T0 + (before + 1) * HOUR, gap))
    found = crossings(left, right)
    assert [(c.at, c.to, c.last_seen, c.gap) for c in found.changes] == expected
    assert found.initial == (sides[0][1] if sides else None)
    for hour in range(12):
        a, b = one[hour], other[hour]
        ratio = value_at(ratios(left, right), T0 + hour * HOUR)
        assert ratio == (None if a is None or b is None else Decimal(a) / Decimal(b))


def test_the_recorded_spot_prices_cross_twice() -> None:
    recorded = SHARED / "history" / "series_gcp_spot_us-central1.csv"
    if not recorded.exists():
        pytest.skip("no recorded prices beside the checkout")
    with recorded.open() as file:
        rows = list(csv.DictReader(file))
    times = [datetime.fromisoformat(row["observed_at"]) for row in rows]
    ends = [*times[1:], times[-1] + HOUR]
    a100, h100 = (
        [
            Step(start, end, Decimal(row[column]) * hours)
            for start, end, row in zip(times, ends, rows, strict=True)
            if start < end
        ]
        for column, hours in (("a100_40gb_per_gpu", 12), ("h100_per_gpu", 4))
    )  # fmt: skip
    found = crossings(a100, h100)
    assert found.initial is Side.LEFT
    assert [(c.at.date(), c.to) for c in found.changes] == [
        (date(2025, 3, 13), Side.RIGHT), (date(2026, 7, 9), Side.LEFT),
    ]  # fmt: skip

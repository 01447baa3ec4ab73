"""Money is exact, and a price per GPU is never one per machine."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.money import (
    PerGpuHour,
    PerMachineHour,
    from_micro_usd,
    parse_decimal,
    to_micro_usd,
)

micro = st.integers(1, 10**12)
counts = st.sampled_from([1, 2, 4, 8, 10, 16, 72])


@given(micro, counts)
def test_a_machine_costs_its_gpus_times_the_price_of_one(per_gpu: int, count: int) -> None:
    machine = PerGpuHour(from_micro_usd(per_gpu)).for_machine(count)
    assert to_micro_usd(machine.usd) == per_gpu * count
    assert machine.per_gpu(count).usd == from_micro_usd(per_gpu)


@given(micro, counts)
def test_dividing_among_gpus_and_back_loses_less_than_a_micro_dollar(total: int, n: int) -> None:
    machine = PerMachineHour(from_micro_usd(total))
    assert to_micro_usd(machine.per_gpu(n).for_machine(n).usd) == total


@given(st.integers(-(10**15), 10**15))
def test_micro_usd_round_trip(value: int) -> None:
    assert to_micro_usd(from_micro_usd(value)) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [("21.9576420000", "21.957642"), ("9.0E-4", "0.0009"), (3, "3"), (" 1.5 ", "1.5")],
)
def test_numbers_as_providers_write_them(value: Any, expected: str) -> None:
    assert parse_decimal(value) == Decimal(expected)


@pytest.mark.parametrize(
    "value", ["N/A*", "", "1,600", "NaN", "Infinity", "$5", 0.1, True, None, [], "1.2.3"]
)
def test_what_is_not_a_plain_number_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_decimal(value)


def test_the_two_kinds_of_price_do_not_compare() -> None:
    with pytest.raises(TypeError):
        assert PerGpuHour(Decimal(1)) < PerMachineHour(Decimal(1))  # type: ignore[operator]
    assert PerGpuHour(Decimal(1)) != PerMachineHour(Decimal(1))

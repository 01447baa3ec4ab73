"""The price at which one offer's bill equals another's, and where there is none or no telling."""

from __future__ import annotations

import dataclasses
from decimal import Decimal

from tests.domain.test_cost import billed, hours, inputs, job
from tracker.domain.break_even import Bound, break_even, break_even_is_unknown, speed_up

D = Decimal


def test_break_even_of_the_headline_example() -> None:
    a100 = billed(inputs("1.39", billing_increment_seconds=1), job(), hours("12"))
    h100 = billed(inputs("2.69", billing_increment_seconds=1), job(), hours("4"))
    at = break_even(h100, a100)
    assert at is not None
    assert (at.price.usd, at.per_gpu.usd) == (D("4.17"), D("4.17"))
    ratio = speed_up(h100, a100)
    assert ratio.had == 3
    assert round(ratio.needed, 4) == D("1.9353")


def test_break_even_of_a_whole_machine_is_also_given_per_gpu() -> None:
    eight = billed(inputs("55.04", "8", billing_increment_seconds=3600), job(), hours("3.2"))
    one = billed(inputs("2", egress_usd_per_gb=D(1)), job(egress_gb=D(4)), hours("10"))
    at = break_even(eight, one)
    assert at is not None
    assert (at.price.usd, at.per_gpu.usd) == (D(6), D("0.75"))


def test_no_break_even_where_the_extras_alone_cost_more() -> None:
    needs = job(egress_gb=D(100))
    dear = billed(inputs("1", egress_usd_per_gb=D(1)), needs, hours("1"))
    cheap = billed(inputs("1", egress_usd_per_gb=D(0)), needs, hours("1"))
    assert break_even(dear, cheap) is None
    assert not break_even_is_unknown(dear, cheap)
    assert break_even(cheap, dear) is not None


def test_no_break_even_with_an_unknown_part() -> None:
    needs = job(egress_gb=D(100))
    unknown = billed(inputs("1"), needs, hours("1"))
    known = billed(inputs("1", egress_usd_per_gb=D(0)), needs, hours("1"))
    assert break_even(unknown, known) is None
    assert break_even(known, unknown) is None
    assert break_even_is_unknown(unknown, known)
    assert break_even_is_unknown(known, unknown)


def test_lower_bounds_of_hours_make_the_break_even_a_bound() -> None:
    sure, least = hours("4"), dataclasses.replace(hours("4"), lower_bound=True)
    bills = {e.lower_bound: billed(inputs("2"), job(), e) for e in (sure, least)}
    bounds = {
        (left, right): at.bound
        for left in bills
        for right in bills
        if (at := break_even(bills[left], bills[right])) is not None
    }
    assert bounds == {
        (False, False): Bound.EXACT,
        (False, True): Bound.AT_LEAST,
        (True, False): Bound.AT_MOST,
        (True, True): Bound.OPEN,
    }


def test_what_costs_more_than_a_lower_bound_may_yet_cost_the_same() -> None:
    needs = job(egress_gb=D(100))
    dear = billed(inputs("1", egress_usd_per_gb=D(1)), needs, hours("1"))
    least = dataclasses.replace(hours("1"), lower_bound=True)
    cheap = billed(inputs("1", egress_usd_per_gb=D(0)), needs, least)
    assert break_even(dear, cheap) is None
    assert break_even_is_unknown(dear, cheap)

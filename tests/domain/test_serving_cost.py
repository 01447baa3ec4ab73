"""The price of tokens, requests and months, and of the jobs of a batch."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.exact import BadFigure
from tracker.domain.money import PerMachineHour
from tracker.domain.serving_cost import (
    Copy,
    Request,
    fleet,
    machines_for,
    seconds_per_request,
    token_prices,
    usd_per_completed,
)

D = Decimal

PRICE = PerMachineHour(D("3.6"))  # a tenth of a cent a second
COPY = Copy(output_per_second=D(1000), input_per_second=D(10_000))
CHAT = Request(input_tokens=2000, output_tokens=300)


def test_tokens_and_requests_of_a_busy_machine() -> None:
    got = token_prices(PRICE, COPY, CHAT)
    assert got.seconds == D("0.5")
    assert (got.per_million_input, got.per_million_output) == (D("0.1"), D(1))
    assert got.per_request == D("0.0005")
    assert got.notes == ()


def test_idle_time_is_paid_for_by_what_is_sold() -> None:
    got = token_prices(PRICE, COPY, CHAT, D("0.25"))
    assert (got.per_million_input, got.per_million_output) == (D("0.4"), D(4))
    assert got.per_request == D("0.002")


def test_prompts_in_the_output_speed_have_no_price_of_their_own() -> None:
    got = token_prices(PRICE, Copy(D(600)), CHAT)
    assert (got.per_million_input, got.seconds, got.per_request) == (None, D("0.5"), D("0.0005"))
    assert got.notes == ("reading the prompts is paid for with the output",)


def test_requests_without_output_need_an_input_speed() -> None:
    embedding = Request(500, 0)
    got = token_prices(PRICE, Copy(None, D(10_000)), embedding)
    assert (got.per_million_input, got.per_million_output) == (D("0.1"), None)
    assert got.seconds == D("0.05")
    with pytest.raises(BadFigure, match="need the input tokens per second"):
        token_prices(PRICE, Copy(D(1000)), embedding)
    with pytest.raises(BadFigure, match="need the output tokens per second"):
        token_prices(PRICE, Copy(None, D(1000)), CHAT)


def test_a_fleet_is_whole_copies_on_whole_machines() -> None:
    # 7 requests a second keep 3.5 copies busy; at most 80 % of a copy: 4.375, so 5.
    two = COPY._replace(machines=2, gpus_per_machine=8)
    got = fleet(PRICE, two, CHAT, D(7), D("0.8"))
    assert (got.copies, got.machines, got.gpus) == (5, 10, 80)
    assert got.utilisation == D("0.7")
    assert got.usd_per_month == D(26_280)  # 10 x 3.60 x 730
    assert round(got.usd_per_request, 8) == D("0.00142857")


def test_machines_for_a_target_of_tokens() -> None:
    copy = Copy(D(2500), machines=2)
    assert machines_for(copy, D(10_000)) == 8
    assert machines_for(copy, D(10_001)) == 10
    assert machines_for(copy, D(10_000), D("0.8")) == 10
    with pytest.raises(BadFigure, match="output tokens per second"):
        machines_for(Copy(None, D(1)), D(1))


def test_the_jobs_that_failed_are_paid_for_by_the_others() -> None:
    assert usd_per_completed(D(30), 24) == D("1.25")
    third = usd_per_completed(D(1), 3)
    assert third * 3 >= 1
    with pytest.raises(BadFigure, match="0 of them completed"):
        usd_per_completed(D(1), 0)


@pytest.mark.parametrize(
    ("copy", "request_", "utilisation", "message"),
    [
        (COPY, Request(0, 0), D(1), "at least 1 token"),
        (COPY, Request(-1, 5), D(1), "fewer than 0 tokens"),
        (COPY, CHAT, D(0), "utilisation must be above 0"),
        (COPY, CHAT, D("1.01"), "utilisation must be above 0 and at most 1"),
        (Copy(D(0)), CHAT, D(1), "output tokens per second must be above 0"),
        (COPY._replace(machines=0), CHAT, D(1), "1 machine or more"),
    ],
)
def test_figures_that_cannot_be_are_refused(
    copy: Copy, request_: Request, utilisation: Decimal, message: str
) -> None:
    with pytest.raises(BadFigure, match=message):
        token_prices(PRICE, copy, request_, utilisation)


speeds = st.decimals("0.1", "100000", places=1)
usd = st.decimals("0.01", "500", places=2).map(PerMachineHour)
shares = st.decimals("0.01", "1", places=2)
requests = st.builds(Request, st.integers(0, 100_000), st.integers(1, 10_000))
copies = st.builds(Copy, speeds, st.none() | speeds, st.integers(1, 4), st.integers(1, 8))
TINY = D("1e-15")


@given(usd, copies, requests, shares)
def test_a_request_is_the_sum_of_its_tokens(
    price: PerMachineHour, copy: Copy, request_: Request, utilisation: Decimal
) -> None:
    got = token_prices(price, copy, request_, utilisation)
    assert got.per_million_output is not None
    tokens = got.per_million_output * request_.output_tokens
    if got.per_million_input is not None:
        tokens += got.per_million_input * request_.input_tokens
    assert got.per_request == pytest.approx(tokens / 1_000_000, rel=TINY)


@given(usd, copies, requests, st.decimals("0.01", "1000", places=2), shares)
def test_a_fleet_serves_what_is_asked_and_not_a_copy_less_would(
    price: PerMachineHour, copy: Copy, request_: Request, rate: Decimal, utilisation: Decimal
) -> None:
    got = fleet(price, copy, request_, rate, utilisation)
    seconds = request_.output_tokens / Fraction(copy.output_per_second or 1)
    if copy.input_per_second is not None:
        seconds += request_.input_tokens / Fraction(copy.input_per_second)
    busy = Fraction(rate) * seconds
    assert got.copies * Fraction(utilisation) >= busy > (got.copies - 1) * Fraction(utilisation)
    assert (
        seconds <= Fraction(seconds_per_request(copy, request_)) <= seconds * (1 + Fraction(TINY))
    )
    assert got.utilisation <= utilisation * (1 + TINY)
    assert got.usd_per_month == got.machines * price.usd * 730
    # All requests together pay for the month, to the cent.
    paid = Fraction(got.usd_per_request) * Fraction(rate) * 730 * 3600
    assert 0 <= paid - Fraction(got.usd_per_month) <= Fraction(1, 100)
    # Never below the seconds that a request takes at full use.
    assert got.usd_per_request >= token_prices(price, copy, request_).per_request * (1 - TINY)


@given(usd, copies, requests, st.decimals("0.01", "1000", places=2), shares)
def test_more_requests_or_a_dearer_machine_never_cost_less(
    price: PerMachineHour, copy: Copy, request_: Request, rate: Decimal, utilisation: Decimal
) -> None:
    base = fleet(price, copy, request_, rate, utilisation)
    more = fleet(price, copy, request_, rate + 1, utilisation)
    dearer = fleet(PerMachineHour(price.usd + 1), copy, request_, rate, utilisation)
    assert base.usd_per_month <= more.usd_per_month
    assert base.usd_per_month < dearer.usd_per_month
    assert machines_for(copy, rate) <= machines_for(copy, rate + 1)

"""Amounts without lines, against the bills that they are of."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.domain.test_cost import all_estimates, all_inputs, all_jobs, money
from tracker.domain.amount import amount
from tracker.domain.cost import Bill, CostInputs, bill
from tracker.domain.exact import EXACT
from tracker.domain.job import Job, RuntimeEstimate
from tracker.domain.job_download import SetUp
from tracker.domain.spot import Expected, Rate


@given(
    offer=all_inputs,
    job=all_jobs,
    estimate=all_estimates,
    month=st.none() | money,
    limit=st.none() | st.decimals("1", "5000", places=2),
    setup=st.none() | st.sampled_from([None, Decimal(0), Decimal("0.3333333333")]),
    again=st.none() | st.decimals("0", "100", places=3),
    downloads=st.booleans(),
    gpu_count=st.sampled_from([None, None, None, Decimal("0.5")]),
)
def test_an_amount_is_that_of_the_bill(
    offer: CostInputs,
    job: Job,
    estimate: RuntimeEstimate,
    month: Decimal | None,
    limit: Decimal | None,
    setup: Decimal | None,
    again: Decimal | None,
    downloads: bool,
    gpu_count: Decimal | None,
) -> None:
    offer = offer._replace(month_usd=month, max_duration_hours=limit)
    changes: dict[str, Any] = {}
    if gpu_count is not None:
        offer = offer._replace(gpu_count=gpu_count)
    if downloads:
        changes["setup"] = SetUp(setup, "1 GB")
    if again is not None:
        plain = job.setup_hours + estimate.hours
        rate = Rate(0.01, "stated")
        changes["interrupted"] = Expected(plain, EXACT.add(plain, again), plain, 1.0, 1.0, rate)
    estimate = replace(estimate, **changes)
    exact, found = bill(offer, job, estimate), amount(offer, job, estimate)
    assert isinstance(exact, Bill) == (found is not None)
    if isinstance(exact, Bill) and found is not None:
        assert found == (exact.at_least_usd, bool(exact.partial))

"""AWS: savings plans are reserved offers, each for its term, and never anything else."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.aws import parse
from providers.aws.plans import REQUIRED, keep_line
from tests.providers.aws_answers import (
    by_id,
    fixture,
    identity,
    machine,
    payload,
    plans_csv,
    reasons,
    small,
)
from tracker.domain.cost import Bill, CostInputs, bill
from tracker.domain.job import Basis, Job, RuntimeEstimate
from tracker.domain.money import PerMachineHour
from tracker.provider import Market, ParseError, PriceKind

KINDS = {"ComputeSavingsPlans": "compute", "EC2InstanceSavingsPlans": "ec2"}
UPFRONT = {"No Upfront": "no", "Partial Upfront": "partial", "All Upfront": "all"}


def test_a_plan_is_a_reserved_offer_at_the_whole_price_of_an_hour() -> None:
    offers = by_id(parse(fixture("savings_plans")))
    name = "us-east-1/p5.48xlarge/compute-savings-plan-3y-partial-upfront/reserved"
    offer = offers[name]
    assert offer.market is Market.RESERVED
    assert offer.price_kind is PriceKind.FIXED
    assert (offer.price.amount, offer.price.currency) == (Decimal("34.1"), "USD")
    assert offer.terms.commitment_hours == 3 * 365 * 24
    assert offer.gpu_count == 8
    assert offer.extras.interruption_percent_max is None
    on_demand = offers["us-east-1/p5.48xlarge/on_demand"]
    assert on_demand.terms.commitment_hours is None
    assert on_demand.source_id == "p5.48xlarge"


@pytest.mark.parametrize(
    ("plan", "words"),
    [("compute-savings-plan-1y-no-upfront", "1 year, 8,760 h at this price, used or not; nothing"),
     ("compute-savings-plan-1y-partial-upfront", "used or not; half of it or more paid upfront"),
     ("compute-savings-plan-3y-all-upfront", "3 years, 26,280 h at this price, used or not; all")],
)  # fmt: skip
def test_what_is_due_upfront_is_said(plan: str, words: str) -> None:
    offers = by_id(parse(fixture("savings_plans")))
    notes = offers[f"us-east-1/p5.48xlarge/{plan}/reserved"].notes
    assert any(words in note for note in notes), notes
    assert any("any EC2 machine in any region" in note for note in notes)


def test_a_job_of_an_hour_on_a_plan_is_billed_for_the_whole_term() -> None:
    offer = by_id(parse(fixture("savings_plans")))[
        "us-east-1/p5.48xlarge/compute-savings-plan-1y-all-upfront/reserved"
    ]
    inputs = CostInputs(
        PerMachineHour(offer.price.amount), offer.gpu_count, offer.market, offer.terms
    )
    hour = RuntimeEstimate(Decimal(1), Basis.MEASURED, gpus=8)
    billed = bill(inputs, Job(name="short", hours={}, gpus_needed=8), hour)
    assert isinstance(billed, Bill)
    assert billed.at_least_usd == Decimal("45.9") * 8760


def test_the_plans_of_a_machine_differ_in_their_identity() -> None:
    offers = parse(fixture("savings_plans")).offers
    of_p5 = [o for o in offers if o.source_id.startswith("p5.") and o.region == "us-east-1"]
    assert len({identity(offer) for offer in of_p5}) == len(of_p5) == 7


@given(
    st.dictionaries(
        st.tuples(
            st.sampled_from(sorted(KINDS)), st.sampled_from("13"), st.sampled_from(sorted(UPFRONT))
        ),
        st.decimals("0.0001", "500", places=4),
        min_size=1,
    )
)
def test_every_plan_comes_out_at_its_rate_and_term(
    rates: dict[tuple[str, str, str], Decimal],
) -> None:
    rows = [
        {"Product Family": kind, "LeaseContractLength": years, "PurchaseOption": option,
         "DiscountedRate": str(rate)}
        for (kind, years, option), rate in rates.items()
    ]  # fmt: skip
    parsed = parse([payload(plans_csv(*rows))])
    assert parsed.complete
    assert {(o.source_id, o.terms.commitment_hours): o.price.amount for o in parsed.offers} == {
        (f"p5.48xlarge/{KINDS[kind]}-savings-plan-{years}y-{UPFRONT[option]}-upfront",
         int(years) * 8760): rate
        for (kind, years, option), rate in rates.items()
    }  # fmt: skip
    assert {o.market for o in parsed.offers} == {Market.RESERVED}


@pytest.mark.parametrize(
    ("column", "value"),
    [("DiscountedUsageType", usage) for usage in (
        "DedicatedUsage", "UnusedBox", "UnusedDed", "HostBoxUsage", "USE1-HostBoxUsage",
        "SpotUsage",
        "boxusage", "BoxUsage:p5.4xlarge", "ReservedBoxUsage")]
    + [("DiscountedOperation", operation) for operation in (
        "RunInstances:0002", "RunInstances:0010", "RunInstances:000g", "RunInstances:0g00:CB", "")]
    + [("Unit", "Quantity"), ("Currency", "CNY"), ("Currency", ""), ("PurchaseOption", ""),
       ("LeaseContractLength", "2"), ("LeaseContractLengthUnit", "month"),
       ("Product Family", "SageMakerSavingsPlans"), ("DiscountedRate", "0"),
       ("DiscountedRate", "-1"), ("DiscountedRate", ""), ("DiscountedRegionCode", ""),
       ("DiscountedRegionCode", "us-gov-east-1"), ("DiscountedRegionCode", "cn-north-1")],
)  # fmt: skip
def test_what_is_no_hour_of_a_shared_linux_machine_is_no_offer(column: str, value: str) -> None:
    body = plans_csv({column: value}, {"DiscountedInstanceType": "g6.xlarge"})
    parsed = parse([payload(body)])
    assert [o.source_id.partition("/")[0] for o in parsed.offers] == ["g6.xlarge"]
    assert len(parsed.rejected) == 1


@pytest.mark.parametrize("column", REQUIRED)
def test_a_list_without_a_needed_column_names_it(column: str) -> None:
    body = plans_csv({}).replace(f"{column},".encode(), f"{column}2,".encode(), 1)
    body = body if column != "DiscountedInstanceType" else body.replace(b"InstanceType\n", b"It\n")
    with pytest.raises(ParseError, match=r"header"):
        parse([payload(body)])


def test_kept_lines_give_what_the_whole_list_gives() -> None:
    for recorded in fixture("savings_plans")[2:]:
        lines = recorded.body.splitlines(keepends=True)
        kept = b"".join(line for line in lines if keep_line(line.rstrip(b"\n")))
        assert b"m7i" not in kept
        assert b"Lambda" not in kept
        assert parse([payload(kept)]).offers == parse([payload(recorded.body)]).offers


@pytest.mark.parametrize(
    ("rate", "reason"),
    [("60", "savings plan not below on-demand"), ("55.2", "savings plan not below on-demand"),
     ("11", "savings plan far below on-demand")],
)  # fmt: skip
def test_a_plan_that_on_demand_contradicts_is_no_offer(rate: str, reason: str) -> None:
    plan = payload(plans_csv({"DiscountedRate": rate}, {"DiscountedInstanceType": "g6.xlarge"}))
    assert len(parse([plan]).offers) == 2
    parsed = parse([plan, payload(small(machine("p5.48xlarge", "55.2")))])
    assert {o.source_id.partition("/")[0]: o.market for o in parsed.offers} == {
        "p5.48xlarge": Market.ON_DEMAND, "g6.xlarge": Market.RESERVED,
    }  # fmt: skip
    assert reasons(parsed) == {reason: 1}


def test_a_list_without_rows_is_incomplete_and_one_in_json_is_refused_with_the_reason() -> None:
    assert not parse([payload(plans_csv())]).complete
    body = {"version": "1", "products": [], "terms": {"savingsPlan": []}}
    with pytest.raises(ParseError, match="savings plan list in JSON"):
        parse([payload(body)])

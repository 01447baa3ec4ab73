"""The order of offers, and that the lazy search finds the same ones as costing them all."""

from __future__ import annotations

import dataclasses
import itertools
import random
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracker.domain.cost import CostInputs, bill, lower_bound_usd
from tracker.domain.gpu import Gpu
from tracker.domain.job import Basis, Job, RuntimeEstimate
from tracker.domain.money import PerMachineHour
from tracker.domain.offer import (
    Availability,
    Extras,
    ListedOffer,
    Market,
    NativePrice,
    Offer,
    PriceUnit,
    Terms,
)
from tracker.domain.rank import (
    Candidate,
    Ranking,
    candidate,
    cheapest,
    cheapest_bills,
    order,
    rank,
)

D = Decimal
JOB = Job("j", {}, egress_gb=D(10))
FREE_EGRESS = Terms(egress_usd_per_gb=D(0), billing_increment_seconds=1)


def one(
    name: str,
    price: str = "2",
    *,
    market: Market = Market.ON_DEMAND,
    terms: Terms = FREE_EGRESS,
    hours: str = "1",
    lower_bound: bool = False,
    **more: Any,
) -> Candidate[str]:
    facts: dict[str, Any] = {"provider": "p", "source_id": name, "tier": "standard"} | more
    return Candidate(
        item=name,
        inputs=CostInputs(PerMachineHour(D(price)), D(1), market, terms),
        estimate=RuntimeEstimate(D(hours), Basis.STATED, lower_bound=lower_bound),
        key=name.encode(),
        **facts,
    )


def names(ranking: Ranking[str]) -> list[str]:
    return [row.candidate.item for row in ranking.rows]


def test_the_bill_decides_not_the_price() -> None:
    slow, fast = one("slow", "1", hours="12"), one("fast", "2.5", hours="4")
    assert names(rank([slow, fast], JOB)) == ["fast", "slow"]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"market": Market.ON_DEMAND}, {"market": Market.SPOT}),
        ({"availability": Availability.YES}, {"availability": Availability.UNKNOWN}),
        ({"availability": Availability.UNKNOWN}, {"availability": Availability.NO}),
        ({"tier": "secure"}, {"tier": "community"}),
        ({"tier": "verified"}, {"tier": "unverified"}),
        ({"tier": "unverified"}, {"tier": "deverified"}),
        ({"reliability": D("0.99")}, {"reliability": D("0.9")}),
        ({"reliability": D("0.1")}, {"reliability": None}),
        ({"provider": "aws"}, {"provider": "runpod"}),
        ({"region": None}, {"region": "eu"}),
        ({"region": "eu"}, {"region": "us"}),
    ],
)
def test_between_equal_bills_less_risk_goes_first_then_names(
    better: dict[str, Any], worse: dict[str, Any]
) -> None:
    # The names would put the worse one first, if nothing else decided.
    pair = [one("a", **worse), one("b", **better)]
    assert names(rank(pair, JOB)) == ["b", "a"]
    assert names(rank(pair[::-1], JOB)) == ["b", "a"]


def test_more_risk_is_no_matter_while_it_costs_less() -> None:
    spot = one("spot", "1.99", market=Market.SPOT, availability=Availability.NO)
    assert names(rank([one("safe", "2"), spot], JOB)) == ["spot", "safe"]


def test_an_unknown_part_never_beats_a_complete_bill() -> None:
    unknown = one("unknown", "0.01", terms=Terms())
    dear = one("dear", "100")
    ranking = rank([unknown, dear], JOB)
    assert names(ranking) == ["dear", "unknown"]
    assert ranking.rows[1].bill.total_usd is None
    assert names(cheapest([unknown, dear], JOB, 1)) == ["dear"]
    assert names(cheapest([unknown, dear], dataclasses.replace(JOB, egress_gb=D(0)), 1)) == [
        "unknown"
    ]


def test_a_lower_bound_stands_by_its_amount_and_loses_every_tie() -> None:
    yes = Availability.YES
    tied = one("a-least", "2", lower_bound=True, availability=yes, tier="secure")
    below = one("b-least", "1.99", lower_bound=True)
    sure = one("sure", "2", market=Market.SPOT, availability=Availability.NO)
    for world in ([tied, below, sure], [sure, below, tied]):
        assert names(rank(world, JOB)) == ["b-least", "sure", "a-least"]
        assert names(cheapest(world, JOB, 2)) == ["b-least", "sure"]
    assert rank([below], JOB).rows[0].bill.total_usd == D("1.99")


def test_what_cannot_be_priced_is_left_out_with_its_reason() -> None:
    term = one("term", "0.01", market=Market.MONTHLY)
    ranking = rank([term, one("ok")], JOB)
    assert names(ranking) == ["ok"]
    assert [(out.candidate.item, "term" in out.reason) for out in ranking.left_out] == [
        ("term", True)
    ]


def test_an_offer_stands_as_it_is_listed() -> None:
    listed = ListedOffer(
        "id-1", "H100", D(8), NativePrice(D(16), "USD", PriceUnit.MACHINE_HOUR), Market.SPOT,
        "secure", region="eu",
        extras=Extras(availability=Availability.YES, reliability=D("0.9")),
    )  # fmt: skip
    gpu = Gpu("H100-SXM-80GB", "H100", "SXM", 80)
    offer = Offer("p", "seller", gpu, PerMachineHour(D(16)), listed)
    got = candidate(offer, RuntimeEstimate(D(1), Basis.STATED))
    assert got.item is offer
    assert got.inputs == CostInputs.of(offer)
    assert got.standing == (2, 0, 0, False, D("-0.9"), "seller", "eu", "id-1", offer.key)


def test_only_bills_that_can_matter_are_worked_out() -> None:
    asked: list[str] = []

    def cost(c: Candidate[str]) -> Any:
        asked.append(c.item)
        return bill(c.inputs, JOB, c.estimate)

    many = [one(f"{n:03}", str(n)) for n in range(1, 101)]
    many = many[50:] + many[:50][::-1]
    got = cheapest_bills(
        many, cost=cost, lower_bound=lambda c: lower_bound_usd(c.inputs, JOB, c.estimate), top=3
    )
    assert names(got) == ["001", "002", "003"]
    assert len(asked) == 3
    assert got.not_costed == 97


def test_none_wanted_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        cheapest([one("a")], JOB, 0)


# Few distinct values, so that ties, partial bills and unpriceable ones are frequent.
worlds = st.lists(
    st.builds(
        one,
        name=st.integers(0, 10**6).map(str),
        price=st.sampled_from(["0.5", "1", "1.5", "2", "3"]),
        market=st.sampled_from(list(Market)),
        terms=st.builds(
            Terms,
            billing_increment_seconds=st.sampled_from([None, 1, 3600]),
            minimum_seconds=st.sampled_from([None, 10_800]),
            commitment_hours=st.sampled_from([None, None, 5]),
            egress_usd_per_gb=st.sampled_from([None, D(0), D("0.1")]),
        ),
        hours=st.sampled_from(["0.5", "1", "2.5"]),
        lower_bound=st.booleans(),
        availability=st.sampled_from(list(Availability)),
        tier=st.sampled_from(["secure", "community", "deverified"]),
        region=st.sampled_from([None, "eu"]),
    ),
    max_size=30,
    unique_by=lambda c: c.key,
)


@settings(deadline=None)
@given(worlds, st.integers(1, 12))
def test_the_lazy_search_finds_what_costing_them_all_finds(
    world: list[Candidate[str]], top: int
) -> None:
    everything = rank(world, JOB)
    got = cheapest(world, JOB, top)
    assert got.rows == everything.rows[:top]
    assert set(got.left_out) <= set(everything.left_out)
    assert got.not_costed <= len(world) - len(got.rows) - len(got.left_out)


@settings(deadline=None)
@given(worlds, st.randoms(use_true_random=False))
def test_the_order_is_total_and_does_not_depend_on_the_order_given(
    world: list[Candidate[str]], shuffle: random.Random
) -> None:
    ranking = rank(world, JOB)
    keys = [order(row.candidate, row.bill) for row in ranking.rows]
    assert all(left < right for left, right in itertools.pairwise(keys))
    shuffled = list(world)
    shuffle.shuffle(shuffled)
    assert rank(shuffled, JOB) == ranking
    assert cheapest(shuffled, JOB, 3) == cheapest(world, JOB, 3)
    assert len(ranking.rows) + len(ranking.left_out) == len(world)

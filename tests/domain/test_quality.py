"""Wrong-looking prices are held back with a reason, and real ones get through."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.catalogue import catalogue
from tests.support.offers import make_offer, offer
from tracker.domain.gpu import Gpu
from tracker.domain.money import to_micro_usd
from tracker.domain.offer import Market, Offer
from tracker.domain.quality import (
    Assessment,
    Gate,
    Gatekeeper,
    Known,
    Pending,
    Rules,
    assess,
)
from tracker.domain.references import median_without

RULES = Rules()


def judge(
    offers: list[Offer], known: Known | None = None, *, marketplace: bool = False,
    complete: bool = True, rules: Rules = RULES,
) -> Assessment:  # fmt: skip
    return assess(
        offers, known or Known(), catalogue(), rules, marketplace=marketplace, complete=complete
    )


def gates(result: Assessment) -> list[Gate]:
    return [Gate(h.gate) for h in result.held]


@pytest.mark.parametrize(
    ("price", "market", "held"),
    [
        ("0.60", Market.ON_DEMAND, False),
        ("0.59", Market.ON_DEMAND, True),
        ("15", Market.ON_DEMAND, False),
        ("15.01", Market.ON_DEMAND, True),
        ("0.15", Market.SPOT, False),
        ("0.14", Market.SPOT, True),
        ("0.01", Market.ON_DEMAND, True),  # a bid floor, or a placeholder
        ("250", Market.ON_DEMAND, True),  # cents read as dollars
    ],
)
def test_the_band_of_an_h100(price: str, market: Market, held: bool) -> None:
    result = judge([offer(price, market=market)])
    assert gates(result) == ([Gate.BAND] if held else [])


def test_the_band_is_per_gpu() -> None:
    assert not judge([offer("55.04", gpu_count=Decimal(8))]).held
    assert gates(judge([offer("55.04", gpu_count=Decimal(1))])) == [Gate.BAND]


@pytest.mark.parametrize(
    ("price", "count", "held"),
    [
        ("0.05", "0.125", False),  # below the band of a whole card, as a share may be
        ("15", "0.5", False),
        ("15.01", "0.5", True),  # dearer than the dearest whole H100
        ("60", "4", False),
        ("60.01", "4", True),
    ],
)
def test_a_slice_costs_no_more_than_the_whole(price: str, count: str, held: bool) -> None:
    whole = offer(price, gpu_count=Decimal(count))
    gpu = Gpu("H100-SLICE", "H100", None, None, is_slice=True)
    result = judge([replace(whole, gpu=gpu)])
    assert gates(result) == ([Gate.BAND] if held else [])


def test_a_person_can_set_the_band() -> None:
    rules = Rules(bands={"H100": {"on_demand": (Decimal("0.1"), Decimal(5))}})
    assert not judge([offer("0.2")], rules=rules).held


def test_the_same_row_twice_counts_once() -> None:
    result = judge([offer(), offer()])
    assert len(result.accepted) == 1
    assert result.duplicates == 1


def test_two_prices_for_one_offer_are_both_held() -> None:
    assert gates(judge([offer("2.50"), offer("2.60")])) == [Gate.DUPLICATE, Gate.DUPLICATE]


@pytest.mark.parametrize(
    ("spot", "held"), [("4.00", False), ("4.01", True), ("0.2", False), ("0.07", True)]
)
def test_spot_against_its_own_on_demand_price(spot: str, held: bool) -> None:
    rules = Rules(bands={"H100": {"spot": (Decimal("0.001"), Decimal(50))}})
    result = judge([offer("4.00"), offer(spot, market=Market.SPOT)], rules=rules)
    assert gates(result) == ([Gate.SPOT_AGAINST_ON_DEMAND] if held else [])


def test_spot_is_compared_with_the_same_machine_only() -> None:
    other = offer("1.00", source_id="machine-2")
    assert not judge([other, offer("2.00", market=Market.SPOT)]).held


def test_eight_gpus_for_the_price_of_one() -> None:
    result = judge([offer("6.88", source_id="x1"), offer("6.88", source_id="x8",
                                                          gpu_count=Decimal(8))])  # fmt: skip
    assert gates(result) == [Gate.COUNT_SCALING]


def test_a_promotion_is_not_a_unit_error() -> None:
    one, two = (
        offer("0.56", gpu_name="RTX 4090", vram_gb=Decimal(24)),
        offer("0.6158", gpu_name="RTX 4090", vram_gb=Decimal(24), gpu_count=Decimal(2)),
    )
    assert not judge([one, two]).held


def sizes(**usd_by_count: str) -> list[Offer]:
    return [
        offer(usd, source_id=f"size-{name}", gpu_count=Decimal(name.removeprefix("x")))
        for name, usd in usd_by_count.items()
    ]


def test_eight_gpus_cheaper_than_four_are_flagged_and_kept() -> None:
    result = judge(sizes(x1="4.00", x4="16.00", x8="15.50"))
    assert not result.held
    assert [o.flags for o in result.accepted] == [
        (), (), ("costs less than 4 of these GPUs", "a GPU costs 0.48 times as much as one alone"),
    ]  # fmt: skip


def test_plain_scaling_and_hosts_of_a_market_are_not_flagged() -> None:
    assert not any(o.flags for o in judge(sizes(x1="4.00", x2="7.5", x8="30")).accepted)
    odd = judge(sizes(x1="4.00", x4="16.00", x8="15.50"), marketplace=True)
    assert not any(o.flags for o in odd.accepted)


def test_one_region_far_from_the_others() -> None:
    prices = {"eastus": "98.32", "westus": "98.32", "northeurope": "98.32", "ukwest": "9.0"}
    offers = [offer(p, region=r, gpu_count=Decimal(8)) for r, p in prices.items()]
    result = judge(offers)
    assert [(h.offer.listed.region, h.gate) for h in result.held] == [
        ("ukwest", Gate.REGION_OUTLIER)
    ]
    assert not judge(offers[1:]).held, "two others are too few to judge by"


def hosts(*prices: str) -> list[Offer]:
    return [offer(p, source_id=f"host-{i}") for i, p in enumerate(prices)]


def test_one_host_far_below_the_market_is_held_until_confirmed() -> None:
    offers = hosts("2.2", "2.3", "2.4", "2.5", "2.6", "0.65")
    known = Known()
    for confirmations in (1, 2):
        result = judge(offers, known, marketplace=True)
        assert [(h.gate, h.confirmations, h.releasable) for h in result.held] == [
            (Gate.MARKET_OUTLIER, confirmations, True)
        ]
        held = result.held[0]
        pending = Pending(to_micro_usd(held.offer.price.usd), held.confirmations)
        known = Known(pending={(held.offer.key, held.gate): pending})
    result = judge(offers, known, marketplace=True)
    assert not result.held
    assert [r.confirmations for r in result.released] == [3]
    freed = Pending(650_000, 3, released=True)
    known = Known(pending={(offers[5].key, Gate.MARKET_OUTLIER): freed})
    assert not judge(offers, known, marketplace=True).held, "freed once is freed"


def test_another_wrong_price_starts_the_count_again() -> None:
    offers = hosts("2.2", "2.3", "2.4", "2.5", "2.6", "0.65")
    known = Known(pending={(offers[5].key, Gate.MARKET_OUTLIER): Pending(300_000, 2)})
    assert [h.confirmations for h in judge(offers, known, marketplace=True).held] == [1]


def test_a_crash_gets_through_after_three_polls_but_not_before() -> None:
    it = offer("0.80")
    last = {it.key: 3_000_000}
    counts = []
    pending: dict[tuple[bytes, str], Pending] = {}
    for _ in range(3):
        result = judge([it], Known(last_price_micro_usd=last, pending=pending))
        counts.append((len(result.held), len(result.released)))
        for h in result.held:
            pending = {(h.offer.key, h.gate): Pending(800_000, h.confirmations)}
    assert counts == [(1, 0), (1, 0), (0, 1)]


def test_repetition_never_frees_a_unit_error() -> None:
    it = offer("0.01")
    known = Known(pending={(it.key, Gate.BAND): Pending(10_000, 500)})
    assert [h.releasable for h in judge([it], known).held] == [False]


@pytest.mark.parametrize(("price", "held"), [("7.5", False), ("7.51", True), ("0.84", False)])
def test_the_jump_is_bilateral_at_a_factor_of_three(price: str, held: bool) -> None:
    it = offer(price)
    result = judge([it], Known(last_price_micro_usd={it.key: 2_500_000}))
    assert bool(result.held) == held


def test_no_usable_offer_is_an_empty_poll() -> None:
    assert judge([]).verdict == "empty"
    assert judge([offer("0.01")]).verdict == "empty"


@pytest.mark.parametrize("offers", [[], [offer("0.01")]])
def test_an_answer_of_discounts_alone_is_not_empty(offers: list[Offer]) -> None:
    result = assess(offers, Known(), catalogue(), RULES, marketplace=False, complete=True, beside=1)
    assert (result.verdict, len(result.held)) == (None, len(offers))


def many(n: int) -> list[Offer]:
    return [offer("2.50", source_id=f"m{i}") for i in range(n)]


@pytest.mark.parametrize(("n", "verdict"), [(50, None), (49, "shrunk"), (100, None)])
def test_a_poll_that_lost_half_is_no_market(n: int, verdict: str | None) -> None:
    assert judge(many(n), Known(complete_count=100)).verdict == verdict


def test_a_person_may_take_half_of_the_typed_prices_out() -> None:
    typed = [make_offer(f"m{i}", "2.5", source="pricebook", seller="acme") for i in range(5)]
    assert judge(typed, Known(complete_count=100)).verdict is None


def test_a_partial_poll_is_not_judged_by_its_size() -> None:
    assert judge(many(5), Known(complete_count=100), complete=False).verdict is None


def test_a_market_that_stays_small_is_believed_in_the_end() -> None:
    known = Known(complete_count=100, shrunk_counts=(20, 21, 20))
    assert judge(many(20), known).verdict is None
    wild = Known(complete_count=100, shrunk_counts=(20, 45, 20))
    assert judge(many(20), wild).verdict == "shrunk"


def test_explain_names_every_gate() -> None:
    it = offer("0.01")
    keeper = Gatekeeper([it], Known(), catalogue(), RULES, marketplace=False)
    results = keeper.explain(it)
    assert [r.gate for r in results] == list(Gate)
    assert [r.gate for r in results if not r.passed] == [Gate.BAND]
    assert "0.6" in results[0].detail


def test_a_freed_bargain_may_drift_but_not_leap() -> None:
    offers = hosts("2.2", "2.3", "2.4", "2.5", "2.6", "0.60")
    key = offers[5].key
    pending = {(key, "market_outlier"): Pending(680_000, 3, released=True)}
    drifted = Known(last_price_micro_usd={key: 620_000}, pending=pending)
    assert not judge(offers, drifted, marketplace=True).held
    leapt = Known(last_price_micro_usd={key: 680_000}, pending=pending)
    assert [h.confirmations for h in judge(offers, leapt, marketplace=True).held] == [1]


def test_a_freed_jump_is_no_licence_to_jump_again() -> None:
    it = offer("2")
    pending = {(it.key, "jump"): Pending(2_000_000, 3, released=True)}
    result = judge([it], Known(last_price_micro_usd={it.key: 8_000_000}, pending=pending))
    assert [(h.gate, h.confirmations) for h in result.held] == [(Gate.JUMP, 1)]


def test_polls_in_quick_succession_confirm_nothing() -> None:
    it = offer("0.80")
    pending = {(it.key, "jump"): Pending(800_000, 2, due=False)}
    result = judge([it], Known(last_price_micro_usd={it.key: 3_000_000}, pending=pending))
    assert [(h.confirmations, h.counted) for h in result.held] == [(2, False)]


def test_offers_that_wait_are_not_lost() -> None:
    offers = many(4)
    last = {o.key: 9_000_000 for o in offers}
    waiting = judge(offers, Known(last_price_micro_usd=last, complete_count=4))
    assert (waiting.verdict, len(waiting.held)) == ("empty", 4)
    assert waiting.verdict_reason == "all offers are held, 4 of 4 until confirmed"
    del last[offers[0].key]
    assert judge(offers, Known(last_price_micro_usd=last, complete_count=4)).verdict is None
    broken = judge([offers[0], *(offer("90", source_id=f"x{i}") for i in range(3))],
                   Known(complete_count=4))  # fmt: skip
    assert broken.verdict == "shrunk", "what can never be released is lost"


def test_placeholders_do_not_outvote_real_prices() -> None:
    regions = [offer("0.02", region=f"r{i}") for i in range(4)] + [offer("3.0", region="good")]
    assert [o.listed.region for o in judge(regions).accepted] == ["good"]
    market = hosts(*["0.02"] * 7, "2.0", "2.1", "2.2", "2.3", "2.4", "2.5")
    assert len(judge(market, marketplace=True).accepted) == 6


def test_a_machine_listed_often_has_one_vote() -> None:
    often = [offer("9.5", source_id="one", vcpus=Decimal(n)) for n in range(1, 9)]
    market = [*often, *hosts("2.0", "2.1", "2.2", "2.3", "2.4", "2.5")]
    held = judge(market, marketplace=True).held
    assert {h.offer.listed.source_id for h in held} == {"one"}


def test_spot_regions_may_differ_fivefold() -> None:
    spread = [offer("0.9", region=f"r{i}", market=Market.SPOT) for i in range(4)]
    assert not judge([*spread, offer("6", region="busy", market=Market.SPOT)]).held


def test_spot_is_not_measured_against_a_wrong_on_demand_price() -> None:
    regions = [offer("5", region=f"r{i}") for i in range(4)]
    bad = [offer("0.65", region="bad"), offer("1.5", region="bad", market=Market.SPOT)]
    held = judge([*regions, *bad]).held
    assert [(h.gate, h.offer.price.usd) for h in held] == [(Gate.REGION_OUTLIER, Decimal("0.65"))]


@pytest.mark.parametrize(
    ("usd_by_count", "held"),
    [
        ({"x1": "14", "x4": "10"}, []),  # the single one is odd: near the end of its band
        ({"x1": "14", "x2": "5", "x4": "10", "x8": "20"}, []),  # the other sizes agree
        ({"x1": "14", "x4": "14"}, ["x4"]),  # the same number is the wrong field
        ({"x1": "4", "x8": "5"}, []),  # dearer than one: odd, and ranked with a remark
        ({"x1": "6", "x4": "5.5"}, ["x4"]),  # a GPU's price with a discount for size
        ({"x1": "4", "x2": "8", "x4": "3"}, ["x4"]),
    ],
)
def test_which_of_two_contradicting_sizes_is_held(
    usd_by_count: dict[str, str], held: list[str]
) -> None:
    found = judge(sizes(**usd_by_count)).held
    assert [h.offer.listed.source_id.removeprefix("size-") for h in found] == held


def test_a_person_may_correct_a_typed_price() -> None:
    typed = replace(offer("1.10"), source="pricebook")
    known = Known(last_price_micro_usd={typed.key: 11_000_000})
    assert not judge([typed], known).held
    assert gates(judge([replace(offer("110"), source="pricebook")], known)) == [Gate.BAND]


@given(st.lists(st.integers(1, 1000).map(Decimal), min_size=2, max_size=30), st.data())
def test_median_of_the_others_is_the_plain_one(prices: list[Decimal], data: Any) -> None:
    prices.sort()
    index = data.draw(st.integers(0, len(prices) - 1))
    assert median_without(prices, index) == median(prices[:index] + prices[index + 1 :])


@given(st.lists(st.decimals("0.01", "30", places=2), min_size=1, max_size=25))
def test_every_offer_is_accepted_or_held_and_none_lost(prices: list[Decimal]) -> None:
    offers = [offer(str(p), source_id=f"h{i}") for i, p in enumerate(prices)]
    result = judge(offers, marketplace=True)
    seen = {o.key for o in result.accepted} | {h.offer.key for h in result.held}
    assert seen == {o.key for o in offers}
    assert len(result.accepted) + len(result.held) == len(offers)
    assert all(a is not b for a, b in pairwise(result.accepted))

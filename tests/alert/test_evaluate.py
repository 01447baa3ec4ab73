"""What may decide a rule, and everything that may not, each on a real database."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.alert.world import World, at, offer, open_world, rule
from tests.support.catalogue import catalogue
from tracker.alert.evaluate import Evaluation, evaluate
from tracker.alert.rules import Rule
from tracker.domain.offer import Availability, Extras, Market, Offer, Terms
from tracker.domain.rule.machine import Zone, zone_of
from tracker.domain.rule.types import Health
from tracker.report.cheapest import cheapest_report

GOOD, STALE, SUSPECT = Health.GOOD, Health.STALE, Health.SUSPECT
NO_DATA, ERROR = Health.NO_DATA, Health.ERROR

RULE = rule()
MIN = rule(rank="min")


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    with open_world(database_url) as made:
        yield made


def healths(world: World, wanted: Rule, *minutes: float) -> list[Health]:
    return [world.look(wanted, m).sample.health for m in minutes]


def good(found: Evaluation) -> Decimal:
    """The value of a sample that must be good."""
    assert found.sample.health is GOOD, found.sample
    assert found.sample.value is not None
    return found.sample.value


def bad(found: Evaluation, health: Health, *words: str) -> None:
    """The sample is of this health, has no value, and says why in these words."""
    assert (found.sample.health, found.sample.value) == (health, None)
    for word in words:
        assert word in (found.sample.reason or ""), found.sample.reason


# -- the number --------------------------------------------------------------------------------


def test_the_ratio_is_of_the_two_bills(world: World) -> None:
    world.poll(0, {"h": "3", "a": "1.5"})
    found = world.look(RULE, 1)
    assert round(good(found), 12) == round(Decimal(12) / 18, 12)
    assert found.left is not None
    assert found.right is not None
    assert (found.left.usd, found.right.usd) == (12, 18)


def test_the_edges_are_exact_to_the_micro_dollar(world: World) -> None:
    """12 h at $1 against 4 h: equal at $3, and the margins are 2 % either way."""
    edges = [("2.94", Zone.ENTER), ("2.940001", Zone.BETWEEN), ("3.059999", Zone.BETWEEN),
             ("3.06", Zone.EXIT)]  # fmt: skip
    for minutes, (usd, zone) in enumerate(edges):
        world.poll(minutes, {"h": usd, "a": "1"})
        assert zone_of(RULE.policy, good(world.look(RULE, minutes))) is zone, usd


def test_a_side_costs_what_the_command_line_says(world: World) -> None:
    offers = [
        offer("h1", "3"), offer("h8", "20", gpu_count=Decimal(8)),
        offer("h-hourly", "2.9", terms=Terms(minimum_seconds=86_400)),
        offer("a1", "1.5"), offer("p1", "1.2"), offer("a-month", "0.5", market=Market.MONTHLY,
                                                      terms=Terms(commitment_hours=730)),
    ]  # fmt: skip
    world.poll(0, offers)
    snapshot = world.snapshot(1, MIN)
    found = evaluate(MIN, snapshot, at(1))
    assert MIN.job is not None
    for side in (found.left, found.right):
        assert side is not None
        filters = MIN.filters._replace(gpus=(side.selection,))
        report = cheapest_report(
            snapshot.offers, MIN.job, filters, catalogue(), at(1), top=1,
            total_offers=len(snapshot.offers),
        )  # fmt: skip
        assert side.best is not None
        assert side.best.offer.key == report.rows[0].offer.key
        assert side.usd == report.rows[0].bill.total_usd


# -- stale -------------------------------------------------------------------------------------


def test_a_minimum_that_goes_stale_neither_fires_nor_resolves(world: World) -> None:
    world.poll(0, {"h": "2.5"}, "cheap")
    world.poll(0, {"h": "4"}, "dear")
    world.poll(0, {"a": "1"}, "acme")
    assert zone_of(RULE.policy, good(world.look(RULE, 1))) is Zone.ENTER
    for minutes in (10, 20, 30):
        world.poll(minutes, {"h": "4"}, "dear")
        world.poll(minutes, {"a": "1"}, "acme")
    # Without the guard the ratio would be 16 / 12 from minute 15 on, and the rule would resolve.
    assert healths(world, RULE, 14.99, 15, 29) == [GOOD, STALE, STALE]
    bad(world.look(RULE, 29), STALE, "H100", "cheap has not answered since 2026-03-30 22:00 UTC")
    world.poll(31, {"h": "2.6"}, "cheap")
    world.poll(31, {"h": "4"}, "dear")
    world.poll(31, {"a": "1"}, "acme")
    assert good(world.look(RULE, 31)) < RULE.policy.enter


def test_a_stale_minimum_on_the_other_side_does_not_fire(world: World) -> None:
    world.poll(0, {"a": "0.9"}, "cheap")
    world.poll(0, {"a": "2", "h": "3"}, "dear")
    assert zone_of(RULE.policy, good(world.look(RULE, 1))) is Zone.EXIT
    world.poll(14, {"a": "2", "h": "3"}, "dear")
    bad(world.look(RULE, 20), STALE, "A100", "cheap")


def test_stale_prices_that_would_not_count_do_not_matter(world: World) -> None:
    world.poll(0, {"h": "9", "a": "9"}, "dear")
    world.poll(14, {"h": "3", "a": "1.5"})
    assert good(world.look(RULE, 20)) < 1


def test_only_stale_prices_are_stale_and_none_at_all_no_data(world: World) -> None:
    world.poll(0, {"h": "3"})
    bad(world.look(RULE, 1), NO_DATA, "A100: no offer matches")
    world.poll(1, {"h": "3", "a": "1.5"})
    assert healths(world, RULE, 2, 16) == [GOOD, STALE]


def test_failed_polls_change_nothing_until_prices_are_too_old(world: World) -> None:
    world.poll(0, {"h": "3", "a": "1.5"})
    before = good(world.look(RULE, 1))
    for minutes in (5, 10):
        world.fail(minutes)
        assert good(world.look(RULE, minutes)) == before
    world.fail(15)
    bad(world.look(RULE, 15), STALE, "acme has not answered since")


def test_an_empty_poll_is_no_market_without_offers(world: World) -> None:
    world.poll(0, {"h": "3", "a": "1.5"})
    world.poll(5, ())
    assert healths(world, RULE, 6, 16) == [GOOD, STALE]


def test_a_partial_poll_takes_nothing_away(world: World) -> None:
    world.poll(0, {"h1": "2", "h2": "4", "a": "1.5"})
    for minutes in (5, 10, 15):
        world.poll(minutes, {"h2": "4", "a": "1.5"}, status="partial")
    assert zone_of(RULE.policy, good(world.look(RULE, 14))) is Zone.ENTER
    bad(world.look(RULE, 15), STALE, "acme has given no complete answer since")


def test_what_is_gone_in_a_complete_poll_is_gone(world: World) -> None:
    world.poll(0, {"h1": "2", "h2": "4", "a": "1.5"})
    world.poll(5, {"h2": "4", "a": "1.5"})
    found = world.look(RULE, 6)
    assert found.left is not None
    assert (found.sample.health, found.left.usd) == (GOOD, 16)


def test_a_provider_silent_for_a_week_counts_as_gone(world: World) -> None:
    world.poll(0, {"h": "1"}, "cheap")
    week = 7 * 24 * 60
    world.poll(week - 5, {"h": "3", "a": "1.5"})
    world.poll(week + 15, {"h": "3", "a": "1.5"})
    assert healths(world, RULE, week, week + 14.9, week + 15) == [STALE, STALE, GOOD]


def test_older_than_the_rule_allows_is_stale_and_not_just_left_out(world: World) -> None:
    world.poll(0, {"h": "2.5"}, "cheap")
    world.poll(0, {"h": "4", "a": "1"})
    world.poll(4, {"h": "4", "a": "1"})
    strict = rule(max_age="4m")
    assert healths(world, strict, 4, 4.1) == [GOOD, STALE]
    assert healths(world, RULE, 4.1) == [GOOD]


# -- held back by a gate -----------------------------------------------------------------------


def _leader_jumps(world: World, status: str = "complete") -> None:
    """A leader at $2.50 asks a tenth of it, which a gate holds back."""
    world.gated(0, [offer("h1", "2.5"), offer("h2", "4"), offer("a1", "1"), offer("a2", "1.1")])
    jump = [offer("h1", "0.7"), offer("h2", "4"), offer("a1", "1"), offer("a2", "1.1")]
    done = world.gated(5, jump)
    assert done.quarantined == 1, "the scenario needs a gate that holds"


def test_a_leader_in_quarantine_is_suspect_and_no_reason_to_resolve(world: World) -> None:
    _leader_jumps(world)
    bad(world.look(RULE, 6), SUSPECT, "H100", "acme", "held back")


def test_a_held_back_leader_counts_once_it_is_released(world: World) -> None:
    world.gated(0, [offer("h1", "2.5"), offer("h2", "4"), offer("a1", "1")])
    after = [offer("h1", "0.7"), offer("h2", "4"), offer("a1", "1")]
    seen = []
    for poll in range(1, 4):
        world.gated(5 * poll, after)
        seen.append(world.look(RULE, 5 * poll + 1).sample.health)
    assert seen == [SUSPECT, SUSPECT, GOOD]
    found = world.look(RULE, 16)
    assert found.left is not None
    assert found.left.usd == Decimal("2.8")


def test_a_held_back_offer_that_did_not_lead_does_not_matter(world: World) -> None:
    world.gated(0, [offer("h1", "2.5"), offer("h2", "4"), offer("a1", "1")])
    assert world.gated(5, [offer("h1", "2.5"), offer("h2", "1"), offer("a1", "1")]).quarantined
    assert good(world.look(RULE, 6)) < RULE.policy.enter


def test_an_offer_that_was_never_accepted_is_never_seen(world: World) -> None:
    world.gated(0, [offer("h1", "3.5"), offer("a1", "1")])
    bogus = [offer("h1", "3.5"), offer("h9", "0.01"), offer("a1", "1"), offer("a9", "0.01")]
    assert world.gated(5, bogus).quarantined == 2
    assert zone_of(RULE.policy, good(world.look(RULE, 6))) is Zone.EXIT


def test_an_offer_still_open_at_its_old_price_but_held_is_suspect(world: World) -> None:
    from tracker.domain.findings import Quarantined

    world.poll(0, {"h1": "2.5", "h2": "4", "a1": "1"})
    held = Quarantined(offer("h1", "0.7"), "jump", "looks wrong", True, 1)
    others = [offer("h2", "4"), offer("a1", "1")]
    world.poll(5, others, status="partial", quarantined=[held])
    bad(world.look(RULE, 6), SUSPECT, "acme")


def test_a_gate_that_holds_for_ever_is_believed_after_a_week(world: World) -> None:
    from tracker.domain.findings import Quarantined

    week = 7 * 24 * 60
    world.poll(0, {"h1": "2.5", "h2": "4", "a1": "1"})
    for minutes in (5, week - 5, week + 4):
        held = Quarantined(offer("h1", "0.01"), "band", "not plausible", False, 1)
        world.poll(minutes, {"h2": "4", "a1": "1"}, quarantined=[held])
    assert healths(world, RULE, 6, week + 4.9, week + 5) == [SUSPECT, SUSPECT, GOOD]


# -- one ask of many ---------------------------------------------------------------------------


def _hub(world: World, minutes: float, **asks: str) -> None:
    offers = [offer(name.replace("_", "/"), usd, "hub") for name, usd in asks.items()]
    world.poll(minutes, offers, "hub", marketplace=True)


def test_one_bogus_ask_of_a_marketplace_moves_nothing(world: World) -> None:
    world.poll(0, {"a": "1.5"})
    _hub(world, 0, h1_1="4.6", h2_1="4.7", h3_1="4.8")
    before = good(world.look(RULE, 1))
    _hub(world, 5, h1_1="4.6", h2_1="4.7", h3_1="4.8", h9_1="1.6")
    world.poll(5, {"a": "1.5"})
    after = good(world.look(RULE, 6))
    assert zone_of(RULE.policy, before) is zone_of(RULE.policy, after) is Zone.EXIT


def test_parts_of_one_machine_do_not_confirm_each_other(world: World) -> None:
    world.poll(0, {"a": "1.5"})
    _hub(world, 0, h1_1="4.6", h2_1="4.7", h9_1="1.6", h9_2="3.2")
    assert zone_of(RULE.policy, good(world.look(RULE, 1))) is Zone.EXIT
    one_alone = rule(rank="min")
    bad(world.look(one_alone, 1), SUSPECT, "alone on hub")


def test_a_marketplaces_only_ask_counts_when_two_polls_have_seen_it(world: World) -> None:
    for minutes in (0, 2, 5):
        world.poll(minutes, {"a": "1.5", "h": "6"})
        _hub(world, minutes, h1_1="2.2")
        # Two polls within half an interval are one observation.
        expected = {0: SUSPECT, 2: SUSPECT, 5: GOOD}[minutes]
        assert world.look(RULE, minutes).sample.health is expected, minutes


def test_a_marketplaces_only_ask_counts_when_another_price_is_close(world: World) -> None:
    world.poll(0, {"a": "1.5", "h": "2.3"})
    _hub(world, 0, h1_1="2.2")
    found = world.look(RULE, 0)
    assert found.left is not None
    assert (found.sample.health, found.left.usd) == (GOOD, Decimal("8.8"))


def test_a_new_minimum_of_a_marketplace_waits_for_confirmation(world: World) -> None:
    for minutes, ask in ((0, "4"), (5, "4"), (10, "2"), (15, "2")):
        world.poll(minutes, {"a": "1.5"})
        _hub(world, minutes, h1_1=ask, h2_1="5")
        expected = {0: SUSPECT, 5: GOOD, 10: SUSPECT, 15: GOOD}[minutes]
        assert world.look(MIN, minutes).sample.health is expected, minutes


def test_list_prices_need_no_confirmation(world: World) -> None:
    world.poll(0, {"h": "1", "a": "1"})
    assert good(world.look(MIN, 0)) < 1


def test_ranks_pick_their_offer(world: World) -> None:
    world.poll(0, {"h1": "1", "h2": "2", "h3": "3", "h4": "4", "h5": "5", "a": "10"})
    picked = {
        rank: world.look(rule("cost(H100) < 40", rank=rank), 1).left
        for rank in ("auto", "min", "2nd", "3rd", "p10", "median")
    }
    assert {rank: side.usd / 4 for rank, side in picked.items() if side} == {
        "auto": 1, "min": 1, "2nd": 2, "3rd": 3, "p10": 1, "median": 3,
    }  # fmt: skip
    bad(world.look(rule(rank="2nd"), 1), NO_DATA, "A100: rank 2nd needs 2 offers, there is 1")


# -- typed prices ------------------------------------------------------------------------------


def _typed(name: str, usd: str, *, fallback: bool, seller: str = "acme") -> Offer:
    extras = Extras(valid_as_of=at(-24 * 60).date(), expires_at=at(60 * 24 * 60), fallback=fallback)
    return offer(name, usd, "pricebook", seller=seller, extras=extras)


@pytest.mark.parametrize("seller", ["acme", "other"])
def test_a_fallback_price_never_decides(world: World, seller: str) -> None:
    world.poll(0, {"h": "4", "a": "1"})
    world.poll(0, [_typed("h-typed", "0.9", fallback=True, seller=seller)], "pricebook")
    for wanted in (RULE, rule(typed_prices=True)):
        found = world.look(wanted, 1)
        assert zone_of(wanted.policy, good(found)) is Zone.EXIT
        assert found.left is not None
        assert found.left.excluded["typed, not live"] == 1


def test_a_fallback_price_does_not_step_in_when_its_seller_goes_stale(world: World) -> None:
    world.poll(0, {"h": "4", "a": "1"})
    world.poll(0, [_typed("h-typed", "0.9", fallback=True)], "pricebook")
    bad(world.look(RULE, 16), STALE, "acme")


def test_only_fallback_prices_are_no_data(world: World) -> None:
    world.poll(0, [_typed("h-typed", "0.9", fallback=True)], "pricebook")
    world.poll(0, {"a": "1"})
    bad(world.look(RULE, 1), NO_DATA, "typed, not live")


def test_own_typed_prices_take_part_only_where_asked_for(world: World) -> None:
    world.poll(0, {"h": "4", "a": "1"})
    world.poll(0, [_typed("a-contract", "2", fallback=False, seller="me")], "pricebook")
    own = rule(typed_prices=True, providers=["acme", "me"], rank="min")
    world.poll(2, {"h": "4"})
    bad(world.look(RULE, 3), NO_DATA, "A100")
    assert zone_of(own.policy, good(world.look(own, 3))) is Zone.ENTER


# -- both sides the same -----------------------------------------------------------------------

_MATCHING: dict[str, Any] = {
    "region": "eu-west", "country": "DE", "tier": "secure", "vcpus": Decimal(16),
    "ram_gib": Decimal(128), "interconnect": "NVLink", "dedicated": True,
}  # fmt: skip
_ONE_SIDED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"regions": ["eu-*"]}, {"region": "us-east"}),
    ({"regions": ["eu-*"]}, {"region": None}),
    ({"countries": ["de"]}, {"country": "US"}),
    ({"tiers": ["secure"]}, {"tier": "community"}),
    ({"markets": ["on-demand"]}, {"market": Market.SPOT}),
    ({"min_vcpus": 8}, {"vcpus": Decimal(4)}),
    ({"min_vcpus": 8}, {"vcpus": None}),
    ({"min_ram_gib": 64}, {"ram_gib": Decimal(32)}),
    ({"interconnect": "nvlink"}, {"interconnect": "PCIe"}),
    ({"dedicated": True}, {"dedicated": False}),
    ({"available": True}, {"extras": Extras(availability=Availability.UNKNOWN)}),
    ({"min_disk_gb": 100}, {"extras": Extras(disk_gb=Decimal(50))}),
    ({"min_network_mbps": 100}, {"extras": Extras(network_down_mbps=Decimal(50))}),
]


@pytest.mark.parametrize("cheap_side", ["h", "a"])
def test_a_filter_holds_for_both_sides(world: World, cheap_side: str) -> None:
    """On either side the cheapest offer does not fit, and so it counts on neither."""
    extras = Extras(
        availability=Availability.YES, disk_gb=Decimal(500), network_down_mbps=Decimal(900)
    )
    fitting = {**_MATCHING, "extras": extras}
    for number, (keys, other) in enumerate(_ONE_SIDED):
        shop = f"shop{number}"
        world.poll(0, [
            offer("h-fits", "3", shop, **fitting), offer("a-fits", "1.5", shop, **fitting),
            offer(f"{cheap_side}-not", "0.9", shop, **{**fitting, **other}),
        ], shop)  # fmt: skip
        found = world.look(rule(rank="min", providers=[shop], **keys), 1)
        assert found.left is not None
        assert found.right is not None
        assert (found.left.usd, found.right.usd) == (12, 18), keys
        anything = rule(rank="min", providers=[shop], markets=["any"], tiers=["any"])
        without = world.look(anything, 1)
        side = without.left if cheap_side == "h" else without.right
        assert side is not None
        assert side.counts["considered"] == 2, "only the filter can have left it out"


# -- what is not wholly known ------------------------------------------------------------------

UPLOADS = rule(job="uploads", rank="min")  # 100 GB leave the provider
PRICED = Terms(egress_usd_per_gb=Decimal("0.01"))


def test_a_bill_with_an_unknown_part_is_no_reason_to_fire(world: World) -> None:
    world.poll(0, [offer("h", "3", terms=PRICED), offer("a", "2", terms=PRICED)])
    assert zone_of(UPLOADS.policy, good(world.look(UPLOADS, 1))) is Zone.ENTER
    # At least 12 h x $1: perhaps less than the H100's $13, perhaps not.
    world.poll(5, [offer("h", "3", terms=PRICED), offer("a", "2", terms=PRICED), offer("a2", "1")])
    bad(world.look(UPLOADS, 6), NO_DATA, "A100 may cost less", "egress price unknown (acme)")


def test_an_unknown_part_that_cannot_change_the_answer_does_not_matter(world: World) -> None:
    world.poll(0, [
        offer("h", "3", terms=PRICED), offer("a", "2", terms=PRICED), offer("a2", "1.9"),
    ])  # fmt: skip
    assert good(world.look(UPLOADS, 1)) == Decimal(13) / 25


def test_an_unknown_part_neither_fires_nor_resolves_on_the_left(world: World) -> None:
    offers = [offer("h", "9", terms=PRICED), offer("a", "2", terms=PRICED), offer("h2", "1")]
    world.poll(0, offers)
    assert zone_of(UPLOADS.policy, good(world.look(UPLOADS, 1))) is Zone.EXIT
    world.poll(5, [offer("h2", "1"), offer("a", "2", terms=PRICED)])
    bad(world.look(UPLOADS, 6), NO_DATA, "H100: no bill is wholly known: egress price unknown")


def test_an_unknown_part_on_the_right_does_not_resolve(world: World) -> None:
    known = [offer("h", "9", terms=PRICED), offer("a2", "4", terms=PRICED)]
    world.poll(0, known)
    assert zone_of(UPLOADS.policy, good(world.look(UPLOADS, 1))) is Zone.ENTER
    world.poll(5, [*known, offer("a", "1")])
    bad(world.look(UPLOADS, 6), NO_DATA, "A100 may cost less")
    # What resolves it is a bill that is wholly known.
    world.poll(10, [*known, offer("a", "1"), offer("a3", "2", terms=PRICED)])
    assert zone_of(UPLOADS.policy, good(world.look(UPLOADS, 11))) is Zone.EXIT


def test_a_lower_bound_of_hours_cannot_fire_on_the_left(world: World) -> None:
    wanted = rule("cost(RTX4090) < cost(A100)")  # 48 h at least, against 12 h
    world.poll(0, {"r": "0.2", "a": "1"})  # at least $9.60 against $12
    bad(world.look(wanted, 1), NO_DATA, "the hours on RTX4090 are a lower bound")
    world.poll(5, {"r": "0.3", "a": "1"})  # at least $14.40: that is dearer for sure
    assert zone_of(wanted.policy, good(world.look(wanted, 6))) is Zone.EXIT


def test_a_lower_bound_of_hours_on_the_right_is_on_the_safe_side(world: World) -> None:
    wanted = rule("cost(A100) < cost(RTX4090)")
    world.poll(0, {"r": "0.3", "a": "1"})
    assert zone_of(wanted.policy, good(world.look(wanted, 1))) is Zone.ENTER
    world.poll(5, {"r": "0.2", "a": "1"})
    assert zone_of(wanted.policy, good(world.look(wanted, 6))) is Zone.EXIT


def test_a_lower_bound_below_a_number_does_not_fire(world: World) -> None:
    wanted = rule("cost(RTX4090) < $20")
    world.poll(0, {"r": "0.3"})
    bad(world.look(wanted, 1), NO_DATA, "lower bound")


def test_conservative_takes_carried_over_hours_at_their_fast_end_on_the_right(world: World) -> None:
    world.poll(0, {"h": "3", "p": "1"})  # an A100 PCIe 40 GB: 12 h on the reference part, or more
    point, sure = rule(), rule(confidence="conservative")
    assert zone_of(point.policy, good(world.look(point, 1))) is Zone.ENTER
    assert good(world.look(sure, 1)) == 1


# -- the other conditions ----------------------------------------------------------------------


def test_cost_below_a_number(world: World) -> None:
    world.poll(0, {"h": "3"})
    assert good(world.look(rule("cost(H100) < 15"), 1)) == Decimal(12) / 15


def test_price_below_a_number_is_per_gpu_and_of_what_can_be_rented_by_the_hour(
    world: World,
) -> None:
    world.poll(0, [
        offer("h8", "16", gpu_count=Decimal(8)), offer("h1", "3"),
        offer("h-years", "0.9", market=Market.RESERVED, terms=Terms(commitment_hours=17_520)),
        offer("h-spot", "0.9", market=Market.SPOT),
    ])  # fmt: skip
    assert good(world.look(rule("price(H100) < 2.50"), 1)) == Decimal(2) / Decimal("2.5")


DAY = 24 * 60


def _week_ago_and_now(world: World, then: dict[str, str], now: dict[str, str]) -> None:
    world.poll(0, then)
    world.poll(7 * DAY, now)


def test_a_drop_is_against_the_same_moment_days_ago(world: World) -> None:
    wanted = rule("cost(H100) drops 10% in 7d")
    world.poll(0, {"h": "3"})
    world.poll(5, {"h": "3.5"})
    world.poll(7 * DAY + 6, {"h": "2.7"})
    value = good(world.look(wanted, 7 * DAY + 6))
    assert round(value, 6) == round(Decimal("2.7") / Decimal("3.5"), 6)
    assert zone_of(wanted.policy, value) is Zone.ENTER


def test_a_drop_of_a_provider_that_is_new_is_none(world: World) -> None:
    wanted = rule("cost(H100) drops 10% in 7d")
    _week_ago_and_now(world, {"h": "3"}, {"h": "3"})
    world.poll(7 * DAY, {"h": "1"}, "newcomer")
    assert good(world.look(wanted, 7 * DAY)) == 1


def test_a_drop_against_a_moment_when_the_cheapest_was_silent_is_none(world: World) -> None:
    wanted = rule("cost(H100) drops 10% in 7d")
    world.poll(0, {"h": "2"}, "cheap")  # silent from minute 15 on
    world.poll(30, {"h": "3"})
    for source, usd in (("cheap", "2"), ("acme", "3")):
        world.poll(7 * DAY + 30, {"h": usd}, source)
    bad(world.look(wanted, 7 * DAY + 30), STALE, "cheap was not known on 2026-03-30 22:30 UTC")


def test_what_the_cheapest_no_longer_sells_is_no_drop_of_the_others(world: World) -> None:
    wanted = rule("cost(H100) drops 10% in 7d")
    world.poll(0, {"h": "2", "a": "1"}, "cheap")
    world.poll(0, {"h": "4"})
    world.poll(7 * DAY, {"a": "1"}, "cheap")
    world.poll(7 * DAY, {"h": "3.5"})
    assert good(world.look(wanted, 7 * DAY)) == Decimal("3.5") / 2


def test_a_drop_is_none_when_who_was_silent_then_sells_no_more(world: World) -> None:
    wanted = rule("cost(H100) drops 10% in 7d")
    world.poll(0, {"h": "2", "a": "1"}, "cheap")  # silent from minute 15 on
    world.poll(30, {"h": "4"})
    world.poll(7 * DAY + 30, {"a": "1"}, "cheap")
    world.poll(7 * DAY + 30, {"h": "3.5"})
    bad(world.look(wanted, 7 * DAY + 30), STALE, "cheap was not known")


def test_who_never_sold_it_does_not_matter_to_a_drop(world: World) -> None:
    wanted = rule("cost(H100) drops 10% in 7d")
    world.poll(0, {"a": "1"}, "other")  # silent from minute 15 on
    world.poll(30, {"h": "4"})
    world.poll(7 * DAY + 30, {"a": "1"}, "other")
    world.poll(7 * DAY + 30, {"h": "3"})
    assert good(world.look(wanted, 7 * DAY + 30)) == Decimal(3) / 4


def test_a_drop_without_a_past_is_no_data(world: World) -> None:
    world.poll(0, {"h": "3"})
    bad(world.look(rule("cost(H100) drops 10% in 7d"), 1), NO_DATA, "H100 on 2026-03-23")


def test_the_cheapest_gpu_is_a_label(world: World) -> None:
    wanted = rule("cheapest(H100, A100, RTX4090) changes")
    world.poll(0, {"h": "3", "a": "1.5", "r": "0.4"})  # 12, 18, at least 19.2
    assert world.look(wanted, 1).sample.label == "H100"
    world.poll(5, {"h": "5", "a": "1.5", "r": "0.4"})
    assert world.look(wanted, 6).sample.label == "A100"
    world.poll(10, {"h": "5", "a": "1.5", "r": "0.3"})
    bad(world.look(wanted, 11), NO_DATA, "RTX4090 may be the cheapest", "lower bound")


def test_a_rival_that_is_stale_matters_only_if_it_might_be_the_cheapest(world: World) -> None:
    wanted = rule("cheapest(H100, A100) changes")
    world.poll(0, {"h": "3"}, "one")
    world.poll(0, {"a": "1.5"}, "two")
    world.poll(14, {"h": "3"}, "one")
    assert world.look(wanted, 20).sample.label == "H100"
    world.poll(21, {"a": "1.5"}, "two")
    bad(world.look(wanted, 30), STALE, "H100")


def test_new_offers_are_keys_and_silent_sellers_do_not_lose_theirs(world: World) -> None:
    from tracker.domain.rule.machine import step_found
    from tracker.domain.rule.state import State

    wanted = rule("new offer(H100) < 2")
    world.poll(0, {"h1": "1.9", "h2": "2"})
    first = world.look(wanted, 1)
    assert len(first.sample.found) == 1
    state, _ = step_found(wanted.policy, State(), first.sample, at(1))
    world.poll(16, {"h9": "1.5"}, "other")
    later = world.look(wanted, 20)
    assert len(later.sample.found) == 1
    assert first.sample.found < later.sample_for(state).found
    assert later.sample_for(State()).found == later.sample.found, "stale offers are never news"


def test_one_unconfirmed_ask_is_no_new_offer(world: World) -> None:
    wanted = rule("new offer(H100) < 2")
    for minutes, expected in ((0, 0), (5, 1)):
        _hub(world, minutes, h1_1="1.5", h2_1="4")
        assert len(world.look(wanted, minutes).sample.found) == expected


def test_nothing_on_offer_is_an_answer_for_new_offers_but_silence_is_none(world: World) -> None:
    wanted = rule("new offer(H100) < 2")
    bad(world.look(wanted, 0), NO_DATA, "no provider answers")
    world.poll(0, {"a": "1"})
    assert world.look(wanted, 1).sample.health is GOOD
    assert world.look(wanted, 16).sample.health is NO_DATA


@pytest.mark.parametrize(("minutes", "fires"), [(14.999, False), (15, True), (16, True)])
def test_a_provider_is_stale_from_its_time_to_live_on(
    world: World, minutes: float, fires: bool
) -> None:
    wanted = rule("provider(acme) stale")
    world.poll(0, {"h": "3"})
    world.poll(0, {"h": "3"}, "other")
    world.poll(14, {"h": "3"}, "other")
    zone = zone_of(wanted.policy, good(world.look(wanted, minutes)))
    assert (zone is Zone.ENTER) == fires
    anyone = rule("provider(any) stale")
    found = world.look(anyone, minutes)
    assert (zone_of(anyone.policy, good(found)) is Zone.ENTER) == fires
    assert found.provider is not None
    assert found.provider.slug == "acme"


def test_a_provider_that_never_answered_is_no_data(world: World) -> None:
    world.fail(0)
    bad(world.look(rule("provider(acme) stale"), 1), NO_DATA, "acme has never answered")


# -- when nothing can be said ------------------------------------------------------------------


def test_nothing_is_judged_until_every_provider_was_tried(world: World) -> None:
    world.poll(0, {"h": "3", "a": "2"})
    bad(world.look(RULE, 1, sources=["acme", "other"]), NO_DATA, "not polled yet: other")
    only = rule(providers=["acme"])
    assert world.look(only, 1, sources=["acme", "other"]).sample.health is GOOD
    world.fail(2, "other")
    assert world.look(RULE, 3, sources=["acme", "other"]).sample.health is GOOD


def test_after_a_long_pause_every_provider_is_tried_before_anything_is_judged(
    world: World,
) -> None:
    world.poll(0, {"h": "3"}, "one")
    world.poll(0, {"a": "2"}, "two")
    world.poll(0, {"a": "9"}, "three")
    later = 8 * DAY  # prices of then count as gone
    world.poll(later, {"h": "3"}, "one")
    world.poll(later, {"a": "9"}, "three")
    names = ["one", "two", "three"]
    bad(world.look(RULE, later, sources=names), NO_DATA, "not polled yet: two")
    world.poll(later, {"a": "0.9"}, "two")
    assert zone_of(RULE.policy, good(world.look(RULE, later, sources=names))) is Zone.EXIT


def test_whatever_goes_wrong_is_an_error_of_this_rule(world: World) -> None:
    world.poll(0, {"h": "3", "a": "2"})
    snapshot = world.snapshot(1, RULE)
    bad(evaluate(rule("cost(H100) drops 10% in 7d"), snapshot, at(1)), ERROR, "cannot be evaluated")


def test_a_clock_far_ahead_makes_all_stale_and_one_behind_changes_nothing(world: World) -> None:
    world.poll(0, {"h": "3", "a": "2"})
    assert healths(world, RULE, -600, 0, 60 * 24) == [GOOD, GOOD, STALE]

"""Neither one bogus ask, nor a typed price, nor a bill that is not wholly known decides a rule."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.alert.samples import GOOD, NO_DATA, STALE, SUSPECT, bad, good
from tests.alert.world import World, at, offer, rule
from tracker.alert.context import inputs_of
from tracker.domain.offer import Availability, Extras, Market, Offer, Terms
from tracker.domain.rule.machine import Zone, zone_of

RULE = rule()
MIN = rule(rank="min")


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


def test_the_command_of_a_rule_on_typed_prices_finds_them(world: World) -> None:
    """Shipped list prices were left out, and what the rule stands on is as old as they are."""
    world.poll(0, {"a": "4"})
    books = [_typed("h-list", "9", fallback=True), _typed("h-mine", "1", fallback=False)]
    later = 10 * 24 * 60
    world.poll(later, {"a": "4"})
    world.poll(later, books, "pricebook")
    live, own = RULE, rule(typed_prices=True)
    for wanted, excluded, aged in ((live, 2, " --max-age 7d"), (own, 1, "")):
        found = world.look(wanted, later)
        assert found.left is not None
        assert found.left.excluded["typed, not live"] == excluded
        assert (found.left.best is None) is (wanted is live)
        shown = inputs_of(found, found.sample)["command"]
        assert shown == f"gpucost cheapest bert-large --gpu H100,A100{aged}"


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

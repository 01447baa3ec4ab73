"""What the other kinds of conditions look at, and what they must not be misled by."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.alert.samples import DAY, GOOD, NO_DATA, STALE, bad, good
from tests.alert.world import World, at, offer, rule
from tracker.domain.offer import Market, Terms
from tracker.domain.rule.machine import Zone, step_found, zone_of
from tracker.domain.rule.state import State

RULE = rule()
MIN = rule(rank="min")


def _hub(world: World, minutes: float, **asks: str) -> None:
    offers = [offer(name.replace("_", "/"), usd, "hub") for name, usd in asks.items()]
    world.poll(minutes, offers, "hub", marketplace=True)


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


@pytest.mark.parametrize("name", ["acme", "any"])
def test_a_provider_is_not_stale_while_nobody_has_asked(world: World, name: str) -> None:
    """As after a time without the daemon, before the first polls."""
    wanted, names = rule(f"provider({name}) stale"), ["acme", "other"]
    for source in names:
        world.poll(0, {"h": "3"}, source)
    late = ["acme", "other"] if name == "any" else ["acme"]
    bad(world.look(wanted, 120, sources=names), NO_DATA, f"not polled yet: {', '.join(late)}")
    world.poll(121, {"h": "3"}, "other")
    bad(world.look(wanted, 122, sources=names), NO_DATA, "not polled yet: acme")
    world.fail(122)
    assert zone_of(wanted.policy, good(world.look(wanted, 123, sources=names))) is Zone.ENTER
    world.poll(124, {"h": "3"})
    assert zone_of(wanted.policy, good(world.look(wanted, 125, sources=names))) is Zone.EXIT


def test_one_that_was_asked_in_vain_is_stale_whoever_else_is_waited_for(world: World) -> None:
    names = ["acme", "other"]
    for source in names:
        world.poll(0, {"h": "3"}, source)
    world.fail(120)
    found = world.look(rule("provider(any) stale"), 121, sources=names)
    assert good(found) < 1
    assert found.provider is not None
    assert found.provider.slug == "acme"


def test_a_provider_that_never_answered_is_no_data(world: World) -> None:
    world.fail(0)
    bad(world.look(rule("provider(acme) stale"), 1), NO_DATA, "acme has never answered")

"""What may decide a rule, and that no stale or held-back price does, on a real database."""

from __future__ import annotations

from decimal import Decimal

from tests.alert.samples import DAY, ERROR, GOOD, NO_DATA, STALE, SUSPECT, bad, good, healths
from tests.alert.world import World, at, offer, rule
from tests.support.catalogue import catalogue
from tracker.alert.evaluate import evaluate
from tracker.domain.findings import Quarantined
from tracker.domain.offer import Market, Terms
from tracker.domain.rule.machine import Zone, zone_of
from tracker.report.cheapest import cheapest_report

RULE = rule()
MIN = rule(rank="min")


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
    week = 7 * DAY
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
    world.poll(0, {"h1": "2.5", "h2": "4", "a1": "1"})
    held = Quarantined(offer("h1", "0.7"), "jump", "looks wrong", True, 1)
    others = [offer("h2", "4"), offer("a1", "1")]
    world.poll(5, others, status="partial", quarantined=[held])
    bad(world.look(RULE, 6), SUSPECT, "acme")


def test_a_gate_that_holds_for_ever_is_believed_after_a_week(world: World) -> None:
    week = 7 * DAY
    world.poll(0, {"h1": "2.5", "h2": "4", "a1": "1"})
    for minutes in (5, week - 5, week + 4):
        held = Quarantined(offer("h1", "0.01"), "band", "not plausible", False, 1)
        world.poll(minutes, {"h2": "4", "a1": "1"}, quarantined=[held])
    assert healths(world, RULE, 6, week + 4.9, week + 5) == [SUSPECT, SUSPECT, GOOD]


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

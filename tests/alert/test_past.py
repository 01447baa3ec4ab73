"""What a rule would have found in the past is what it did find when that was the present."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from tests.alert.world import World, offer, rule
from tests.support.catalogue import catalogue
from tests.support.offers import at
from tracker.alert.evaluate import Evaluation, evaluate
from tracker.alert.looks import looks_of, steady_looks
from tracker.alert.past import Seen, look_back
from tracker.alert.rules import Rule
from tracker.domain.offer import Market, NativePrice, PriceUnit, Terms
from tracker.domain.rule import Health
from tracker.store.engine import read_connection
from tracker.store.series.single import Polled

MINUTE = timedelta(minutes=1)
RULES = {
    "two costs": rule(),
    "second cheapest": rule(rank="2nd"),
    "median": rule(rank="median"),
    "a number": rule("cost(H100) < 9"),
    "a price": rule("price(H100) < 2.2"),
    "the cheapest": rule("cheapest(H100, A100) changes"),
    "an offer": rule("new offer(H100) < 2.2"),
    "a provider": rule("provider(any) stale"),
    "one region": rule(regions=["us-*"]),
}


def past(world: World, wanted: Rule, end: float) -> Seen:
    with read_connection(world.url) as connection:
        return look_back(
            connection, wanted, catalogue(), start=at(-1), end=at(end), now=at(end)
        )  # fmt: skip


def told(one: Evaluation) -> tuple[object, ...]:
    """What matters of an evaluation: not which of two equally cheap offers stands for a side."""
    sample = one.sample
    sides = [side.best and side.best.usd for side in (one.left, one.right) if side is not None]
    return sample.health, sample.value, sample.label, sample.found, one.stale_found, sides


@pytest.mark.parametrize("seed", range(3))
def test_looking_back_finds_what_was_found_then(world: World, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    then: dict[str, list[tuple[object, ...]]] = {name: [] for name in RULES}
    minutes = 0
    for turn in range(16):
        # Longer than a price holds, now and then: what was cheap is then in doubt.
        minutes += rng.choice([5, 5, 5, 10, 20, 45])
        for source in ("acme", "bazaar"):
            if rng.random() < 0.25 and turn:
                world.fail(minutes, source)
                continue
            names = [n for n in ("h1/1", "h1/2", "h2/1", "h3/1", "a1/1", "a2/1", "a2/2", "p1/1")
                     if rng.random() < 0.7]  # fmt: skip
            offers = [
                offer(name, str(rng.choice([1, 2, 3]) * (3 if name[0] == "h" else 1)), source,
                      region=rng.choice(["us-east", "eu-west", None]))
                for name in names
            ]  # fmt: skip
            offers.append(offer(f"h{source}/9", rng.choice(["2", "2.1"]), source))
            world.poll(minutes, offers, source, marketplace=source == "bazaar")
        snapshot = world.snapshot(minutes, *RULES.values())
        for name, wanted in RULES.items():
            then[name].append(told(evaluate(wanted, snapshot, at(minutes))))
    for name, wanted in RULES.items():
        seen = past(world, wanted, minutes + 1)
        assert len(seen.at) == 16
        assert [told(one) for one in seen.found] == then[name], name
    assert {health for found in then.values() for health, *_ in found} >= {
        Health.GOOD, Health.STALE, Health.NO_DATA,
    }  # fmt: skip


def test_a_drop_is_looked_back_at_from_each_look(world: World) -> None:
    wanted = rule("cost(H100) drops 10% in 1d")
    then = []
    for hour, price in enumerate([4, 4, 3, 4, 2, 2, 5, 3] * 5):
        minutes = hour * 60
        offers = [offer("h1", str(price)), offer("h2", "6")]
        world.poll(minutes, offers, every_seconds=3600)
        then.append(told(world.look(wanted, minutes)))
    seen = past(world, wanted, 40 * 60 - 59)
    assert [told(one) for one in seen.found] == then
    assert {sample[1] for sample in then[24:]} != {None}


def test_what_is_sold_by_the_month_costs_whole_months(world: World) -> None:
    wanted, then = rule("cost(H100) < 500"), []
    for turn, price in enumerate(["600", "599.99", "450", "450", "700"]):
        month = NativePrice(Decimal(price), "USD", PriceUnit.MACHINE_MONTH)
        plain = offer("h1", "1", market=Market.MONTHLY, terms=Terms(commitment_hours=730))
        listed = replace(plain.listed, price=month)
        price_of = month.machine_hour(Decimal(1), Decimal(1))
        sold = replace(plain, listed=listed, price=price_of)
        world.poll(5 * turn, [sold])
        then.append(told(world.look(wanted, 5 * turn)))
    seen = past(world, wanted, 25)
    assert [told(one) for one in seen.found] == then
    assert [sides[0] for *_, sides in then] == [Decimal(p) for p in ("600", "599.99", "450", "450",
                                                                     "700")]  # fmt: skip


def test_nothing_is_looked_at_twice_where_nothing_changed(world: World) -> None:
    for minutes in range(0, 100, 5):
        world.poll(minutes, {"h1": "2", "a1": "1"})
    seen = past(world, rule(), 100)
    assert len(seen.at) == 20
    assert len({id(one) for one in seen.found[2:]}) == 1  # by then two polls had seen it


# --- when it is looked at ----------------------------------------------------------------------


def _polled(*minutes: float, is_import: bool = False, ttl_days: int = 1) -> Polled:
    moments = tuple(at(m) for m in minutes)
    return Polled("acme", is_import, 5 * MINUTE, timedelta(days=ttl_days), moments, moments)


def test_polls_close_together_are_one_look_after_the_last_of_them() -> None:
    sources = [_polled(0, 5, 10), _polled(1, 7), _polled(2, 30, 99)]
    looks = looks_of(sources, 5 * MINUTE, at(0), at(60))
    assert looks == [at(m) for m in (2, 7, 10, 30)]


def test_an_import_is_looked_at_daily_while_it_lasts() -> None:
    day = 24 * 60
    source = _polled(0, 4 * day, 5 * day + 1, is_import=True, ttl_days=2)
    looks = looks_of([source], 5 * MINUTE, at(0), at(30 * day))
    assert looks[:6] == [at(m) for m in (0, day, 2 * day, 3 * day, 4 * day, 5 * day + 1)]
    assert looks[-1] <= at(7 * day + 1)
    assert not looks_of([], 5 * MINUTE, at(0), at(day))


def test_steady_looks_are_those_before_the_end() -> None:
    assert steady_looks(5 * MINUTE, at(0), at(11)) == [at(0), at(5), at(10)]
    assert steady_looks(5 * MINUTE, at(0), at(10)) == [at(0), at(5)]

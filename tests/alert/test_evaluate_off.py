"""A provider that is turned off: its prices count no more, and are in no doubt either."""

from __future__ import annotations

import pytest

from tests.alert.samples import DAY, bad, good
from tests.alert.world import QUICK, World, at, offer, play, rule
from tracker.domain.findings import Quarantined
from tracker.domain.rule.types import Health, Phase


@pytest.mark.parametrize("minutes", [1, 20, DAY])
def test_its_prices_count_no_more_at_once(world: World, minutes: float) -> None:
    wanted = rule("price(H100) < 2")
    world.poll(0, {"h": "1.5"}, "gone")
    world.poll(minutes, {"h": "3"})
    found = world.look(wanted, minutes, sources=["acme"])
    assert good(found) == 1.5
    assert found.left is not None
    assert found.left.excluded == {"of providers that are turned off": 1}


def test_one_that_cannot_be_asked_for_want_of_a_key_is_in_doubt(world: World) -> None:
    wanted = rule("price(H100) < 2")
    world.poll(0, {"h": "1.5"}, "keyless")
    world.poll(20, {"h": "3"})
    names = {"sources": ["acme"], "left_out": ["keyless"]}
    bad(world.look(wanted, 20, **names), Health.STALE, "keyless has not answered")


def test_what_a_gate_held_back_of_it_is_no_doubt(world: World) -> None:
    wanted = rule("price(H100) < 2")
    world.poll(0, {"h": "1.5"}, "gone")
    held = Quarantined(offer("h", "0.01", "gone"), "band", "not plausible", False, 1)
    world.poll(5, (), "gone", quarantined=[held])
    world.poll(6, {"h": "3"})
    bad(world.look(wanted, 6), Health.SUSPECT, "held back")
    assert good(world.look(wanted, 6, sources=["acme"])) == 1.5


def test_a_drop_is_one_at_the_providers_that_are_on(world: World) -> None:
    wanted = rule("cost(A100) drops 10% in 1d")
    for source, price in (("gone", "1"), ("acme", "2")):
        world.poll(0, {"a": price}, source)
    world.poll(DAY, {"a": "2"})
    assert good(world.look(wanted, DAY, sources=["acme"])) == 1


def test_a_firing_on_its_price_is_resolved(world: World) -> None:
    wanted = rule("price(H100) < 2", **QUICK)
    world.poll(0, {"h": "1.5"}, "gone")
    play(world, wanted, "d", sources=["acme", "gone"])
    world.poll(1, {"h": "3"})
    [done] = world.alerts(wanted, sources=["acme"]).evaluate(at(6))
    assert (done.phase, done.health) == (Phase.OK, Health.GOOD)
    assert world.notices() == [("fired", "log"), ("resolved", "log")]

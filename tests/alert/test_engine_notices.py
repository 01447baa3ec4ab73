"""Silences, acknowledgements and tests, and every kind of condition all the way to its notice."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.alert.world import (
    CHEAP,
    DEAR,
    EVERY,
    QUICK,
    World,
    at,
    find_job,
    load,
    play,
    rule,
    silence,
)
from tests.cli.harness import run
from tests.store.worlds import rows
from tracker.alert.context import command
from tracker.alert.engine import UnknownRule
from tracker.alert.words import sentence
from tracker.cli.exits import EXIT_NO_MATCH
from tracker.domain.rule.types import Kind, Phase
from tracker.store import alerts
from tracker.store.engine import connect, transaction


@pytest.mark.parametrize(
    ("matchers", "hides"),
    [
        ({}, True), ({"rule": "r"}, True), ({"rule": "r*"}, True), ({"rule": "x*"}, False),
        ({"job": "bert-large"}, True), ({"job": "other"}, False), ({"provider": "ACME"}, True),
        ({"provider": "other"}, False), ({"gpu": "h100"}, True), ({"gpu": "H100-SXM-80GB"}, True),
        ({"gpu": "B200"}, False), ({"rule": "r", "gpu": "B200"}, False),
    ],
)  # fmt: skip
def test_silences_match_what_they_name(world: World, matchers: dict[str, str], hides: bool) -> None:
    number = silence(world, 0, 60, **matchers)
    play(world, rule(**QUICK), "c")
    assert world.events() == [("fired", f"silence {number}" if hides else None)]
    assert world.notices() == ([] if hides else [("fired", "log")])


def test_when_a_silence_ends_what_still_fires_is_told_and_then_its_end(world: World) -> None:
    number = silence(world, 0, 12)
    play(world, rule(**QUICK), "ccccd")
    assert world.notices() == [("still_firing", "log"), ("resolved", "log")]
    assert ("fired", f"silence {number}") in world.events()


def test_an_end_that_a_silence_kept_back_is_told_after_it(world: World) -> None:
    number = silence(world, 3, 12)
    play(world, rule(**QUICK), "cdddd")
    assert world.events() == [
        ("fired", None), ("resolved", f"silence {number}"), ("resolved", None),
    ]  # fmt: skip
    assert world.notices() == [("fired", "log"), ("resolved", "log")]
    fired, ended = world.messages()
    assert ended["firing_seq"] == fired["seq"]
    assert ended["firing"]["since"] == fired["at"]
    assert (ended["firing"]["until"], ended["at"]) == (at(5).isoformat(), at(15).isoformat())
    assert ended["firing"]["duration_seconds"] == 300
    assert f"at {at(5):%Y-%m-%dT%H:%M:%SZ}, while a silence kept notices back" in sentence(ended)


@pytest.mark.parametrize("how", ["removed", "broken", "back"])
def test_an_end_is_told_after_a_silence_of_a_rule_that_is_not_evaluated(
    world: World, how: str
) -> None:
    wanted = rule(**QUICK)
    silence(world, 3, 12, rule="r")
    play(world, wanted, "cd" if how == "broken" else "c")
    rules = {"removed": (), "broken": (), "back": (wanted,)}[how]
    options = {"broken": ["r"]} if how == "broken" else {}
    for minutes in (9, 10, 11):
        world.alerts(*(() if minutes < 11 else rules), **options).evaluate(at(minutes))
    assert world.notices() == [("fired", "log")]
    for minutes in (12, 17, 22):
        world.poll(minutes, DEAR)
        world.alerts(*rules, **options).evaluate(at(minutes))
    kind = "resolved" if how == "broken" else "closed"
    assert world.notices() == [("fired", "log"), (kind, "log")]
    assert world.messages()[-1]["firing"]["until"] == at(5 if how == "broken" else 9).isoformat()


def test_a_firing_that_outlasts_the_cooldown_says_what_kept_it_back(world: World) -> None:
    play(world, rule(**QUICK | {"cooldown": "20m"}), "cdcccc")
    assert world.notices() == [("fired", "log"), ("resolved", "log"), ("still_firing", "log")]
    assert sentence(world.messages()[-1]).startswith("The cooldown is over, and this goes on: ")


def test_a_silence_can_be_ended(world: World) -> None:
    number = silence(world, 0, 60)
    with transaction(world.engine) as cursor:
        assert alerts.end_silence(cursor, number, at(3))
        assert not alerts.end_silence(cursor, number, at(3))
    with connect(world.url) as connection:
        assert [s.id for s in alerts.silences(connection, at(2))] == [number]
        assert alerts.silences(connection, at(3)) == []
        [found] = alerts.silences(connection)
    assert (found.author, found.comment, found.until) == ("me", "known", at(3))


def test_acknowledging_is_recorded_once_and_stops_reminders(world: World) -> None:
    wanted = rule(remind_every="10m", **QUICK)
    play(world, wanted, "ccc")
    assert world.kinds() == ["fired", "reminder"]
    engine = world.alerts(wanted)
    assert [engine.acknowledge("r", at(12), "me") for _ in range(2)] == [True, False]
    play(world, wanted, "ccccd", start=15)
    assert world.kinds()[2:] == ["acknowledged", "resolved"]
    with pytest.raises(UnknownRule):
        engine.acknowledge("nobody", at(12), "me")


def test_a_test_goes_the_way_of_every_notice_and_changes_nothing(world: World) -> None:
    wanted = rule(channels=["log", "ops"], **QUICK)
    play(world, wanted, "c")
    before = world.row()
    engine = world.alerts(wanted)
    ids = {engine.test(wanted, at(1)), engine.test(wanted, at(1), ["ops"])}
    assert len(ids) == 2
    assert world.notices()[2:] == [("test", "log"), ("test", "ops"), ("test", "ops")]
    assert world.row() == before
    assert [m["seq"] for m in world.messages()[2:]] == [-1, -1, -2]
    assert world.messages()[2]["left"]["job_cost_usd"] == "10"


def test_a_test_of_a_rule_that_was_never_evaluated(world: World) -> None:
    world.alerts().test(rule(), at(0))
    assert world.notices() == [("test", "log")]
    assert rows(world.url, "SELECT FROM alert_rule") == []


def test_a_dry_run_says_what_would_come_of_it_and_writes_nothing(world: World) -> None:
    wanted = rule(**QUICK)
    world.poll(0, CHEAP)
    found = world.alerts(wanted).dry_run(wanted, at(1))
    assert (found.before.phase, found.after.phase) == (Phase.OK, Phase.FIRING)
    assert [e.kind for e in found.events] == [Kind.FIRED]
    assert found.inputs["checks"]["right"]["counts"]["considered"] == 1
    assert json.loads(json.dumps(found.inputs)) == found.inputs
    assert (world.kinds(), rows(world.url, "SELECT FROM alert_rule")) == ([], [])


# -- the other conditions, all the way to the notice -------------------------------------------


def _by_hand(world: World, when: str, steps: list[Callable[[float], object]]) -> list[Any]:
    keys = QUICK if not when.startswith(("provider", "new")) else {"cooldown": "0s"}
    wanted = rule(when, **keys)
    for index, step in enumerate(steps):
        step(5 * index)
        world.alerts(wanted).evaluate(at(5 * index))
    return world.messages()


def test_another_gpu_is_the_cheapest(world: World) -> None:
    [told] = _by_hand(world, "cheapest(H100, A100) changes", [
        lambda m: world.poll(m, CHEAP), lambda m: world.poll(m, DEAR),
    ])  # fmt: skip
    assert (told["kind"], told["previous_label"], told["label"]) == ("changed", "H100", "A100")
    assert (told["value"], told["left"]["selection"]) == ("0.75", "A100")


def test_a_label_changes_only_beyond_the_margin(world: World) -> None:
    assert _by_hand(world, "cheapest(H100, A100) changes", [
        lambda m: world.poll(m, CHEAP), lambda m: world.poll(m, {"h": "3.01", "a": "1"}),
    ]) == []  # fmt: skip


def test_a_new_offer_is_found(world: World) -> None:
    first, second = _by_hand(world, "new offer(H100) < 2", [
        lambda m: world.poll(m, {"h1": "1.9"}), lambda m: world.poll(m, {"h1": "1.9"}),
        lambda m: world.poll(m, {"h1": "1.9", "h2": "1.8", "h3": "1.7", "h4": "2"}),
    ])  # fmt: skip
    assert [f["native_id"] for f in first["found"]] == ["h1"]
    assert [f["native_id"] for f in second["found"]] == ["h3", "h2"]
    assert (second["kind"], second["threshold_usd"]) == ("found", "2")
    assert second["found"][0]["price_usd_per_gpu_hour"] == "1.7"


def test_offers_of_a_provider_that_was_silent_for_a_day_are_not_found_again(world: World) -> None:
    wanted = rule("new offer(H100) < 2", cooldown="0s")
    world.poll(0, {"h1": "1.9"})
    for minutes in range(0, 24 * 60, 30):
        world.poll(minutes, {"h9": "9"}, "other")
        world.alerts(wanted).evaluate(at(minutes))
    world.poll(24 * 60, {"h1": "1.9"})
    world.alerts(wanted).evaluate(at(24 * 60))
    assert world.kinds() == ["found"]


def test_a_stale_provider_is_told_and_its_return(world: World) -> None:
    fired, resolved = _by_hand(world, "provider(any) stale", [
        lambda m: world.poll(m, CHEAP), *([world.fail] * 4), lambda m: world.poll(m, CHEAP),
    ])  # fmt: skip
    assert (fired["kind"], resolved["kind"]) == ("fired", "resolved")
    assert fired["at"] == at(EVERY * 3 / 60).isoformat()
    assert "acme has not answered since" in fired["health"]["reason"]


def test_a_price_and_a_cost_below_a_number(world: World) -> None:
    [told] = _by_hand(world, "price(H100) < $3", [lambda m: world.poll(m, CHEAP)])
    assert (told["value"], told["threshold_usd"]) == ("0.833333", "3")
    assert told["command"] == "gpucost offers --gpu H100 --market on_demand"


def test_the_shipped_rule_fires_on_the_example_of_the_readme(world: World) -> None:
    [shipped], _ = load(shipped=True)
    play(world, shipped, "c" * 8)
    assert world.kinds(shipped.name) == ["pending", "fired"]
    assert find_job("bert-large") == shipped.job
    assert shipped.every == timedelta(seconds=EVERY)


@pytest.mark.parametrize("when", ["cost(H100) < cost(A100)", "price(H100) < 3"])
def test_the_command_of_a_notice_is_one_that_the_command_line_takes(
    world: World, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = rule(
        when, providers=["acme"], regions=["eu-*"], countries=["de"], markets=["any"],
        tiers=["any"], min_vram_gb=80, min_ram_gib=64.5, min_vcpus=8, min_disk_gb=100,
        min_network_mbps=900, interconnect="nv link", kinds=["machine", "gpus"], dedicated=True,
        ecc=True, available=True, max_age="1h", min_gpus=2,
    )  # fmt: skip
    world.poll(0, CHEAP)
    program, *arguments = shlex.split(command(wanted))
    monkeypatch.setenv("GPUCOST_DATABASE_URL", world.url)
    done = run(*arguments)
    assert program == "gpucost"
    assert done.code == EXIT_NO_MATCH, done.err
    assert "no offer matches" in done.err

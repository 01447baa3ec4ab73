"""The engine on a real database: state, events and notices are one change, whatever happens."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from tests.alert.world import (
    CHEAP,
    DEAR,
    QUICK,
    World,
    at,
    offer,
    open_world,
    play,
    rule,
    silence,
)
from tests.store.worlds import Fault, fused_engine, rows
from tests.support.catalogue import catalogue
from tracker.alert.engine import AlertEngine
from tracker.domain.rule.types import Health, Kind, Phase
from tracker.store import alerts
from tracker.store.engine import connect
from tracker.store.errors import StoreError


def test_half_an_hour_below_fires_once_and_half_an_hour_above_clears_once(world: World) -> None:
    play(world, rule(channels=["log", "ops"]), "d" + "c" * 12 + "d" * 12)
    assert world.kinds() == ["pending", "fired", "recovering", "resolved"]
    assert world.notices() == [
        ("fired", "log"), ("fired", "ops"), ("resolved", "log"), ("resolved", "ops"),
    ]  # fmt: skip
    row = world.row()
    assert (row["phase"], row["health"], row["seq"], row["version"]) == ("ok", "good", 4, 1)


def test_a_flutter_says_nothing(world: World) -> None:
    play(world, rule(), "cdcdcdcdcd")
    assert set(world.kinds()) == {"pending", "pending_ended"}
    assert world.notices() == []


def test_a_silent_provider_is_told_after_its_time_and_never_resolves(world: World) -> None:
    wanted = rule(**QUICK | {"health_after": "1h"})
    play(world, wanted, "c" + "x" * 20 + "c" + "d")
    assert world.kinds() == ["fired", "data_problem", "data_ok", "resolved"]
    [problem] = [m for m in world.messages() if m["kind"] == "data_problem"]
    assert problem["health"]["state"] == "stale"
    assert "acme has not answered since" in problem["health"]["reason"]
    assert problem["health"]["since"] == at(15).isoformat()


def test_only_rules_whose_time_has_come_are_evaluated(world: World) -> None:
    world.poll(0, CHEAP)
    slow, fast = rule(name="slow", every="1h"), rule(name="fast", every="1m")

    def done(minutes: float, **options: Any) -> list[str]:
        return [e.rule for e in world.alerts(slow, fast).evaluate(at(minutes), **options)]

    assert done(0) == ["slow", "fast"]
    assert done(0.5) == []
    assert done(1) == ["fast"]
    assert done(1.5, force=True) == ["slow", "fast"]
    assert done(1.5, force=True) == [], "the same moment is evaluated once"
    assert done(61.5) == ["slow", "fast"]


def test_what_waits_for_a_first_poll_is_looked_at_again_as_soon_as_it_has_come(
    world: World,
) -> None:
    world.poll(0, CHEAP)
    slow = rule(name="slow", every="1h")

    def done(minutes: float) -> list[tuple[str, str]]:
        engine = AlertEngine(world.engine, [slow], catalogue(), sources=["acme", "late"])
        return [(one.rule, str(one.health)) for one in engine.evaluate(at(minutes))]

    assert done(1) == [("slow", "no_data")]
    assert done(1.1) == []
    assert done(2) == [("slow", "no_data")]
    world.fail(2.1, "late")
    assert done(3) == [("slow", "good")]
    assert done(4) == []


def test_a_provider_is_no_alarm_after_a_time_without_a_daemon(world: World) -> None:
    wanted = rule("provider(acme) stale", cooldown="0s")

    def look(minutes: float) -> None:
        AlertEngine(world.engine, [wanted], catalogue(), sources=["acme"]).evaluate(at(minutes))

    world.poll(0, CHEAP)
    look(1)
    look(60)  # the daemon is back; its first poll comes a moment later
    world.poll(60.2, CHEAP)
    look(60.3)
    assert world.notices() == []
    world.fail(65)
    look(80)
    assert world.kinds() == ["fired"]


def test_a_clock_that_was_ahead_does_not_hold_a_rule_up(world: World) -> None:
    wanted = rule()
    world.poll(0, CHEAP)
    assert len(world.alerts(wanted).evaluate(at(60 * 24 * 30))) == 1
    [found] = world.alerts(wanted).evaluate(at(1))
    assert found.health is Health.GOOD
    play(world, wanted, "c" * 9, start=5)
    assert world.kinds() == ["pending", "fired"]


def test_the_message_carries_both_bills_and_how_to_reproduce_them(world: World) -> None:
    hub = [offer("h/1", "2.5", "hub", region="eu-west", tier="secure"), offer("h2/1", "2.5", "hub")]
    world.poll(0, hub, "hub", marketplace=True)
    world.poll(0, [offer("a", "1", source_url="https://acme.example/prices")])
    wanted = rule(title="Cheap!", regions=["eu-*"], tiers=["any"], rank="2nd", **QUICK)
    assert world.look(wanted, 2).sample.health is Health.NO_DATA
    wanted = rule(title="Cheap!", tiers=["any"], **QUICK)
    [done] = world.alerts(wanted).evaluate(at(2))
    assert (done.phase, done.notices, done.health) == (Phase.FIRING, 1, Health.GOOD)
    [message] = world.messages()
    assert message["schema_version"] == 1
    assert {k: message[k] for k in ("kind", "rule", "rule_version", "seq", "title", "when")} == {
        "kind": "fired", "rule": "r", "rule_version": 1, "seq": 1, "title": "Cheap!",
        "when": "cost(H100) < cost(A100)",
    }  # fmt: skip
    assert (message["value"], message["enter"], message["exit"]) == ("0.833333", "0.98", "1.02")
    assert (message["margin_percent"], message["break_even_usd_per_gpu_hour"]) == ("16.67", "3")
    assert message["job"] == {"name": "bert-large", "title": "BERT-Large training"}
    left, right = message["left"], message["right"]
    assert {k: left[k] for k in ("selection", "gpu", "provider", "market", "machines")} == {
        "selection": "H100", "gpu": "H100-SXM-80GB", "provider": "hub", "market": "on_demand",
        "machines": 1,
    }  # fmt: skip
    assert (left["job_cost_usd"], left["runtime_hours"], left["billed_hours"]) == ("10", "4", "4")
    assert (left["price_usd_per_hour"], left["price_usd_per_gpu_hour"]) == ("2.5", "2.5")
    assert (left["age_seconds"], left["seen_at"]) == (120, at(0).isoformat())
    assert (right["job_cost_usd"], right["source_url"]) == ("12", "https://acme.example/prices")
    assert message["command"] == "gpucost cheapest bert-large --gpu H100,A100 --tier any"
    assert message["explain"] == [f"gpucost explain {s['offer']}" for s in (left, right)]
    assert message["firing"]["duration_seconds"] == 0
    _no_floats(message)


def _no_floats(value: Any) -> None:
    assert not isinstance(value, float), "money and ratios are text"
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            _no_floats(inner)
        assert not isinstance(inner, float)


def test_every_event_keeps_what_it_rests_on(world: World) -> None:
    play(world, rule(**QUICK), "c")
    with connect(world.url) as connection:
        [event] = alerts.history(connection, "r")
        assert alerts.history(connection, "r", since=at(1)) == []
    assert (event.kind, event.firing_seq, event.rule_version) == ("fired", 1, 1)
    assert str(event.value).startswith("0.8333333333")
    assert event.inputs["left"]["offer_id"]
    assert event.inputs["checks"]["left"]["counts"]["considered"] == 1
    assert event.inputs["event"]["phase_to"] == "firing"
    assert len(event.event_id) == 36


# -- one change --------------------------------------------------------------------------------


def test_a_fault_at_any_statement_writes_nothing_and_the_next_try_all(database_url: str) -> None:
    wanted = rule(channels=["log", "ops"], **QUICK)
    with open_world(database_url) as world, fused_engine(database_url) as (engine, fuse):
        world.poll(0, CHEAP)
        broken = AlertEngine(engine, [wanted], catalogue())
        fuse.statements = 0
        faults = 0
        for left in range(1000):
            fuse.left = left
            try:
                broken.evaluate(at(1))
                break
            except Fault:
                faults += 1
                assert world.kinds() == []
                assert world.notices() == []
                assert rows(database_url, "SELECT FROM alert_rule") == []
        fuse.left = None
        assert faults > 10, "every statement of an evaluation was made to fail"
        assert world.kinds() == ["fired"]
        assert world.notices() == [("fired", "log"), ("fired", "ops")]


def test_two_engines_at_once_do_everything_once(world: World) -> None:
    wanted = [rule(name=f"r{n}", **QUICK) for n in range(4)]
    moments = [at(5 * n) for n in range(8)]
    errors: list[BaseException] = []
    for n, moment in enumerate(moments):
        world.poll(5 * n, CHEAP if n % 2 == 0 else DEAR)
        start = threading.Barrier(3)

        def run(now: Any = moment, start: threading.Barrier = start) -> None:
            try:
                mine = world.alerts(*wanted)
                start.wait()
                mine.evaluate(now)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
    for one in wanted:
        kinds = world.kinds(one.name)
        assert kinds == ["fired", "resolved"] * 4
        assert [kind for kind, _ in world.notices(one.name)] == kinds


def test_one_that_was_overtaken_writes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read before somebody else moved the rule is out of date."""
    wanted = rule(**QUICK)
    world.poll(0, CHEAP)
    slow, quick = world.alerts(wanted), world.alerts(wanted)
    look = slow._look

    def overtaken(*args: Any) -> Any:
        found = look(*args)
        quick.evaluate(at(2))
        return found

    monkeypatch.setattr(slow, "_look", overtaken)
    assert slow.evaluate(at(1)) == []
    assert world.kinds() == ["fired"]
    assert world.row()["evaluated_at"].startswith("2026-03-30T22:02")


def test_a_guard_that_refuses_keeps_everything_as_it_was(world: World) -> None:
    class NotOurs(StoreError):
        pass

    def refuse(_: psycopg.Cursor[Any]) -> None:
        raise NotOurs

    wanted = rule(**QUICK)
    world.poll(0, CHEAP)
    engine = world.alerts(wanted, guard=refuse)
    for attempt in (lambda: engine.evaluate(at(1)), lambda: engine.test(wanted, at(1))):
        with pytest.raises(NotOurs):
            attempt()
    assert (world.kinds(), rows(world.url, "SELECT FROM alert_rule")) == ([], [])
    calls: list[int] = []
    world.alerts(wanted, guard=lambda cursor: calls.append(cursor.rowcount)).evaluate(at(1))
    assert len(calls) == 1, "one transaction a rule, the snapshot needs no guard"
    assert world.kinds() == ["fired"]


# -- edits, removals, channels -----------------------------------------------------------------


def test_an_edit_closes_the_firing_and_begins_anew(world: World) -> None:
    play(world, rule(channels=["ops"], **QUICK), "c")
    edited = rule(channels=["log"], **QUICK | {"enter_percent": 5})
    world.alerts(edited).evaluate(at(1))  # an edit does not wait for the interval
    assert world.notices() == [("fired", "ops"), ("closed", "ops"), ("fired", "log")]
    closed, fired = world.messages()[1:]
    assert (closed["reason"], closed["rule_version"], closed["firing_seq"]) == ("edited", 1, 1)
    assert (fired["rule_version"], fired["seq"]) == (2, 3)
    assert world.row()["version"] == 2


def test_another_title_or_channel_is_no_edit_and_ends_are_told_where_beginnings_were(
    world: World,
) -> None:
    play(world, rule(channels=["ops"], **QUICK), "c")
    play(world, rule(channels=["log"], title="New", **QUICK), "dc", start=5)
    assert world.notices() == [("fired", "ops"), ("resolved", "ops"), ("fired", "log")]
    assert world.messages()[-1]["title"] == "New"
    assert world.row()["version"] == 1


def test_a_rule_that_is_removed_is_closed_and_one_that_is_back_begins_anew(world: World) -> None:
    wanted, other = rule(**QUICK), rule(name="other", **QUICK)
    play(world, wanted, "c")
    [closed] = [e for e in world.alerts(other).evaluate(at(1)) if e.rule == "r"]
    assert (closed.notices, [e.kind for e in closed.events]) == (1, [Kind.CLOSED])
    assert world.messages()[-1]["reason"] == "removed"
    assert world.alerts(other).evaluate(at(2)) == []
    with connect(world.url) as connection:
        assert [r.name for r in alerts.rules(connection)] == ["other"]
    world.alerts(wanted, other).evaluate(at(3))
    assert world.kinds() == ["fired", "closed", "fired"]
    assert (world.row()["version"], world.row()["removed_at"]) == (2, None)


def test_a_silenced_rule_that_is_removed_is_closed_insilence(world: World) -> None:
    play(world, rule(**QUICK), "c")
    number = silence(world, 0, 60, rule="r*")
    world.alerts().evaluate(at(1))
    assert world.events()[-1] == ("closed", f"silence {number}")
    assert world.notices() == [("fired", "log")]


@pytest.mark.parametrize(
    ("hours", "keys"), [(1.01, {}), (2, {}), (1, {"every": "1h"}), (3, {"max_gap": "10m"})]
)
def test_rounds_from_cron_far_apart_can_fire_and_resolve(
    world: World, hours: float, keys: dict[str, str]
) -> None:
    wanted = rule(**keys)
    for step, price in enumerate([CHEAP] * 8 + [DEAR] * 4):
        world.poll(step * hours * 60, price)
        world.alerts(wanted).evaluate(at(step * hours * 60))
    sent = [kind for kind, _ in world.notices() if kind != "data_problem"]
    assert list(dict.fromkeys(sent)) == ["fired", "resolved"]


def test_who_looks_every_five_minutes_waits_anew_after_hours_away(world: World) -> None:
    wanted = rule()
    for minutes in (0, 5, 10, 15, 20, 20 + 5 * 60, 25 + 5 * 60):
        world.poll(minutes, CHEAP)
        [found] = world.alerts(wanted).evaluate(at(minutes))
    assert found.phase is Phase.PENDING


def test_a_rule_that_cannot_be_read_is_neither_evaluated_nor_closed(world: World) -> None:
    play(world, rule(**QUICK), "c")
    assert world.alerts(broken=["r"]).evaluate(at(10)) == []
    assert world.kinds() == ["fired"]
    assert world.row()["removed_at"] is None


def test_a_state_that_cannot_be_read_stops_no_other_rule(world: World) -> None:
    one, other = rule(name="a", **QUICK), rule(name="b", **QUICK)
    play(world, one, "c")
    rows(world.url, "UPDATE alert_rule SET machine = '{}'")
    broken, fine = world.alerts(one, other).evaluate(at(5))
    assert broken.problem is not None
    assert (fine.rule, fine.phase) == ("b", Phase.FIRING)
    [closed] = [e for e in world.alerts(other).evaluate(at(6)) if e.rule == "a"]
    assert (closed.events, world.row("a")["removed_at"] is None) == ((), False)


def test_a_rule_that_cannot_be_stored_is_an_error_and_stops_no_other(world: World) -> None:
    fine = [rule(name=name, **QUICK) for name in "az"]
    wrong = rule(name="m", **QUICK)
    wrong = replace(wrong, definition={**wrong.definition, "title": "a\0b \ud800"})
    play(world, rule(name="old", **QUICK), "c")
    first, middle, last, gone = world.alerts(fine[0], wrong, fine[1]).evaluate(at(1))
    assert [e.phase for e in (first, middle, last)] == [Phase.FIRING, Phase.OK, Phase.FIRING]
    assert (gone.rule, gone.events[0].kind) == ("old", Kind.CLOSED)
    assert middle.health is Health.ERROR
    assert "cannot be recorded: the database reported an error" in str(middle.problem)
    assert world.row("m")["health"] == "error", "it is seen in lists, too"
    assert world.row("m")["definition"]["title"] == "a\ufffdb \ufffd"


def test_what_the_database_refuses_of_one_rule_is_said_and_stops_no_other(world: World) -> None:
    wanted = [rule(name=name, **QUICK) for name in "amz"]
    rows(
        world.url,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'no % today', NEW.name; END$$;"
        "CREATE TRIGGER refuse BEFORE UPDATE ON alert_rule FOR EACH ROW"
        " WHEN (NEW.name = 'm') EXECUTE FUNCTION refuse()",
    )
    world.poll(0, CHEAP)
    first, middle, last = world.alerts(*wanted).evaluate(at(1))
    assert [first.phase, last.phase] == [Phase.FIRING, Phase.FIRING]
    assert (middle.rule, middle.health, "no m today" in str(middle.problem)) == (
        "m", Health.ERROR, True,
    )  # fmt: skip


def test_baseline_says_nothing_of_what_was_true_at_the_start(world: World) -> None:
    play(world, rule(on_start="baseline", **QUICK), "cd")
    assert [kept for _, kept in world.events() if kept] == ["baseline", "unsent firing"]
    assert world.notices() == []

"""Names and templates of rules that look like mistakes: told at the start and after a reload."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.alert.outbox_world import engine_of
from tests.daemon.world import World, until
from tests.support.offers import make_poll
from tracker.app import App
from tracker.daemon.plan import doubts_of, make_plan
from tracker.store.polls import Recorder


def test_a_misspelt_provider_is_named_and_the_rule_goes_on(world: World) -> None:
    rule = '[alerts.rules.mine]\nwhen = "provider({}) stale"\nevery = "1s"\n{}'
    world.configure(rule.format("bta", ""))
    with world.daemon() as daemon:
        line = daemon.says("doubtful: ")
        assert line.endswith(
            "alerts.rules.mine.when: no provider is called 'bta'; did you mean beta?"
        )
        until(lambda: "mine" in daemon.get("/metrics")[1], "the rule is not evaluated")
        assert daemon.status()["alert_problems"] == [line.partition("doubtful: ")[2]]
        world.configure(rule.format("beta", 'template = "{{ title "'))
        daemon.send(signal.SIGHUP)
        daemon.says("doubtful: alerts.rules.mine.template: line 1")
        assert len(daemon.lines("doubtful: ")) == 2
        assert daemon.stop() == 0


def test_sellers_are_known_once_the_price_book_was_read(tmp_path: Path, database_url: str) -> None:
    config = tmp_path / "gpucost.toml"
    config.write_text('[alerts.rules.mine]\nwhen = "price(H100) < 2"\nproviders = ["acme"]')
    plan = make_plan(App(config, {"HOME": str(tmp_path), "GPUCOST_DATABASE_URL": database_url}))
    assert doubts_of(plan, database_url) == ()
    with engine_of(database_url) as engine:
        recorder = Recorder(engine)
        recorder.record(make_poll(0, {"a": "1"}, source="pricebook"))
        [line] = doubts_of(plan, database_url)
        assert "no provider is called 'acme'" in line
        recorder.record(make_poll(1, {"a": "1"}, source="acme"))
        assert doubts_of(plan, database_url) == ()

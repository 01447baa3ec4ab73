"""``gpucost daemon`` as a process, against real servers: pace, stopping, reloading, failing."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from itertools import pairwise

import pytest

from tests.daemon.drip import Drip
from tests.daemon.fleet import fail, machines, sell
from tests.daemon.world import World, polls, until
from tests.support.replay import Answer, ReplayServer, Request, json_answer

QUICK_RULE = """
[alerts.rules.h100-cheaper-than-a100]
every = "1s"
min_duration = "0s"
min_count = 1
"""


class Held:
    """A provider that answers when it is allowed to."""

    def __init__(self, server: ReplayServer, name: str) -> None:
        self.asked, self.go = threading.Event(), threading.Event()
        server.handle("GET", f"/{name}", self._answer)

    def _answer(self, _: Request) -> Answer:
        self.asked.set()
        self.go.wait(60)
        return json_answer(machines())


def test_it_polls_evaluates_and_tells(world: World, database_url: str) -> None:
    sell(world.server, "alpha", h100="0.90", a100="1.20")
    world.configure(QUICK_RULE)
    with ReplayServer() as switch:
        switch.handle("POST", "/beat", lambda _: Answer(b"OK"))
        with world.daemon(GPUCOST_DAEMON__HEARTBEAT_URL=f"{switch.url}/beat") as daemon:
            for name in world.names:
                until(lambda name=name: polls(database_url, name, "complete") >= 3, name)
            told = daemon.says("tracker.notify.log")
            assert "H100" in told
            until(lambda: switch.requests, "no heartbeat")
            assert daemon.get("/livez")[0] == 200
            assert daemon.get("/readyz")[0] == 200
            assert daemon.status()["leads"]
            metrics = daemon.get("/metrics")[1]
            assert 'gpucost_polls_total{provider="alpha",status="complete"}' in metrics
            assert 'gpucost_breaker_state{provider="beta",state="closed"} 1.0' in metrics
            assert 'gpucost_notices_total{channel="log",result="sent"} 1.0' in metrics
            assert "gpucost_leader 1.0" in metrics
            assert daemon.stop() == 0
    assert not daemon.lines("ERROR|Traceback")
    assert len(daemon.lines("tracker.notify.log")) == 1


def test_told_to_stop_it_lets_a_poll_end_and_begins_none(world: World, database_url: str) -> None:
    held = Held(world.server, "alpha")
    with world.daemon() as daemon:
        assert held.asked.wait(60)
        daemon.send(signal.SIGTERM)
        daemon.says("SIGTERM: stopping; up to 10 s for .*alpha")
        asked = len(world.asked("beta"))
        held.go.set()
        assert daemon.ends() == 0
    assert polls(database_url, "alpha", "complete") == 1
    assert len(world.asked("beta")) <= asked + 1  # one may have been on its way


@pytest.mark.e2e
def test_a_poll_that_does_not_end_is_dropped_after_the_grace(
    world: World, database_url: str
) -> None:
    held = Held(world.server, "alpha")
    with world.daemon(GPUCOST_DAEMON__DRAIN_SECONDS="0.5") as daemon:
        assert held.asked.wait(60)
        daemon.send(signal.SIGINT)
        assert daemon.ends() == 0
        held.go.set()
    assert polls(database_url, "alpha") == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_twice_it_stops_at_once(world: World, number: signal.Signals) -> None:
    held = Held(world.server, "alpha")
    with world.daemon(GPUCOST_DAEMON__DRAIN_SECONDS="600") as daemon:
        assert held.asked.wait(60)
        daemon.send(number)
        daemon.says("stopping; up to 600 s")
        began = time.monotonic()
        daemon.send(number)
        assert daemon.ends() == 128 + number
        assert time.monotonic() - began < 15
        held.go.set()
    assert daemon.lines("again: stopping at once")


def test_it_reads_its_configuration_anew(world: World, database_url: str) -> None:
    with world.daemon() as daemon:
        until(lambda: polls(database_url, "beta") >= 1)
        # Wrong: the old one stays, and nothing stops.
        world.configure("lgo_level = 'info'")
        daemon.send(signal.SIGHUP)
        assert "log_level" in daemon.says("not reloaded, the old one stays")
        before = polls(database_url, "beta")
        until(lambda: polls(database_url, "beta") > before)
        assert "log_level" in daemon.status()["reload_error"]
        # Right: one provider less, another one slower, a rule with a mistake.
        world.configure(
            '[alerts.rules.mine]\nwhen = "cost(H100) < 40"\njob = "no-such-job"',
            alpha="enabled = false", gamma="every_seconds = 3000",
        )  # fmt: skip
        daemon.send(signal.SIGHUP)
        daemon.says("configuration reloaded; polling beta, gamma$")
        daemon.says("alerts.rules.mine.job.*no-such-job")
        until(lambda: daemon.provider("gamma")["every_seconds"] == 3000)
        seen = len(world.asked("alpha")), len(world.asked("gamma"))
        before = polls(database_url, "beta")
        until(lambda: polls(database_url, "beta") >= before + 3)
        assert (len(world.asked("alpha")), len(world.asked("gamma"))) == seen
        assert [row["provider"] for row in daemon.status()["providers"]] == ["beta", "gamma"]
        assert daemon.status()["reload_error"] is None
        assert 'state="closed"' in daemon.get("/metrics")[1]
        assert 'gpucost_breaker_state{provider="alpha"' not in daemon.get("/metrics")[1]
        assert daemon.stop() == 0


@pytest.mark.e2e
def test_an_outage_has_one_line_and_its_end_another(world: World, database_url: str) -> None:
    fail(world.server, "beta", 500)
    with world.daemon() as daemon:
        daemon.says("beta: no usable prices: .*HTTP 500")
        until(lambda: polls(database_url, "beta", "failed") >= 3)
        assert daemon.provider("beta")["outage_since"] is not None
        assert daemon.get("/readyz")[0] == 200  # the others have fresh prices
        sell(world.server, "beta")
        daemon.says("beta: works again after .* failed polls")
        assert daemon.stop() == 0
    assert len(daemon.lines("beta: ")) == 2
    assert not daemon.lines("alpha: |gamma: ")


@pytest.mark.e2e
def test_a_price_book_alone_is_not_ready_and_who_never_answered_has_metrics(
    world: World, database_url: str
) -> None:
    for name in world.names:
        fail(world.server, name, 500)
    config = world.config.read_text()
    world.config.write_text(config.replace("[providers.pricebook]\nenabled = false\n", ""))
    with world.daemon() as daemon:
        until(lambda: polls(database_url, "pricebook", "complete"))
        until(lambda: all(polls(database_url, name, "failed") >= 2 for name in world.names))
        code, body = daemon.get("/readyz")
        missing = json.loads(body)["missing"]
        assert (code, missing[0]) == (503, "no provider has given fresh prices")
        for name, line in zip(world.names, missing[1:], strict=True):
            assert line.startswith(f"{name}: ")
            assert "HTTP 500" in line
        row = daemon.provider("beta")
        assert (row["stale"], row["every_seconds"], row["age_seconds"]) == (True, 1, None)
        metrics = daemon.get("/metrics")[1]
        assert 'gpucost_provider_stale{provider="beta"} 1.0' in metrics
        assert 'gpucost_poll_interval_seconds{provider="beta"} 1.0' in metrics
        assert 'gpucost_provider_stale{provider="pricebook"} 0.0' in metrics
        assert 'gpucost_poll_last_success_timestamp_seconds{provider="beta"}' not in metrics
        failures = re.search(r'consecutive_failures{provider="beta"} (\d+)', metrics)
        assert failures
        assert int(failures[1]) >= 2
        sell(world.server, "beta")
        until(lambda: daemon.get("/readyz")[0] == 200)
        assert daemon.stop() == 0


@pytest.mark.e2e
def test_a_wait_that_a_provider_asks_for_outlives_the_daemon(
    world: World, database_url: str
) -> None:
    fail(world.server, "beta", 429, retry_after="3600")
    with world.daemon() as daemon:
        daemon.says("beta: no usable prices: .*too many requests")
        until(lambda: daemon.provider("beta")["breaker"] == "closed")
        assert daemon.stop() == 0
    assert len(world.asked("beta")) == 1
    sell(world.server, "beta")
    with world.daemon() as daemon:
        until(lambda: polls(database_url, "alpha") >= 2)
        before = polls(database_url, "alpha")
        until(lambda: polls(database_url, "alpha") >= before + 3)
        assert daemon.stop() == 0
    assert len(world.asked("beta")) == 1


@pytest.mark.e2e
def test_a_refused_key_is_not_tried_again_until_there_is_another(
    world: World, database_url: str
) -> None:
    def answer(request: Request) -> Answer:
        if request.headers.get("authorization") != "Bearer a-good-key-7":
            return Answer(b'{"error": "key?"}', 401)
        return json_answer(machines())

    world.server.handle("GET", "/beta", answer)
    world.configure(beta='api_key = "a-worn-key-3"')
    with world.daemon(GPUCOST_LOG_LEVEL="debug") as daemon:
        assert "credential refused" in daemon.says("beta: no usable prices")
        until(lambda: daemon.provider("beta")["breaker"] == "open")
        before = polls(database_url, "alpha")
        until(lambda: polls(database_url, "alpha") >= before + 4)
        assert len(world.asked("beta")) == 1
        assert 'provider="beta",state="open"} 1.0' in daemon.get("/metrics")[1]
        world.configure(beta='api_key = "a-good-key-7"')
        daemon.send(signal.SIGHUP)
        daemon.says("beta: works again")
        everything = [*daemon.log, daemon.get("/status")[1], daemon.get("/metrics")[1]]
        assert daemon.stop() == 0
    assert not [text for text in [*everything, *daemon.log] if "-key-" in text]


@pytest.mark.e2e
def test_one_that_drips_delays_nobody(world: World, database_url: str) -> None:
    with Drip() as drip:
        world.configure("poll_deadline_seconds = 4")
        text = world.config.read_text()
        own, other = f'[providers.beta]\nbase_url = "{world.server.url}"', drip.url
        world.config.write_text(text.replace(own, f'[providers.beta]\nbase_url = "{other}"'))
        with world.daemon() as daemon:
            until(lambda: polls(database_url, "beta", "failed") >= 2)
            assert daemon.get("/livez")[0] == 200
            assert daemon.stop() == 0
    assert daemon.lines("beta: no usable prices: .*(no complete answer|over)")
    for name in ("alpha", "gamma"):
        asked = world.asked(name)
        gaps = [later - earlier for earlier, later in pairwise(asked)]
        assert len(gaps) > 6
        assert sorted(gaps)[len(gaps) // 2] < 2, gaps  # at their pace of one a second
    assert drip.most_at_once == 1


def test_without_a_provider_it_is_not_ready(world: World) -> None:
    world.configure(**dict.fromkeys(world.names, "enabled = false"))
    with world.daemon() as daemon:
        daemon.says("no provider is configured")
        code, body = daemon.get("/readyz")
        assert (code, "no provider is configured" in body) == (503, True)
        assert daemon.get("/livez")[0] == 200
        assert daemon.stop() == 0

"""The poller in this process: a real database, and providers that misbehave."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.daemon.world import until
from tests.support.catalogue import catalogue
from tests.support.clouds import query
from tracker import registry
from tracker.app import App
from tracker.collect import Collector, PollOutcome
from tracker.daemon import polling
from tracker.daemon.breaker import Pace, Standing
from tracker.daemon.outages import Outages
from tracker.daemon.plan import Plan, Polled
from tracker.daemon.polling import Poller
from tracker.domain.quality import Rules
from tracker.http.client import Client
from tracker.provider import FetchError, Parsed, Payload, Provider, ProviderConfig
from tracker.store.engine import make_engine
from tracker.store.errors import StoreError
from tracker.store.polls import Recorder
from tracker.store.schedule import Schedule
from tracker.web.metrics import Metrics

PACE = Pace(timedelta(seconds=0.2), timedelta(seconds=0.1))


def provider(name: str, parse: Callable[[Sequence[Payload]], Parsed]) -> Polled:
    """A provider that asks nobody, and parses as it is told."""

    async def fetch(http: object, config: ProviderConfig) -> list[Payload]:
        return [Payload("http://x/", b"[]", datetime.now(UTC))]

    runpod = registry.load("runpod")
    made = replace(
        runpod, name=name, config=ProviderConfig, fetch=fetch, parse=parse,
        poll_deadline=timedelta(seconds=1),
    )  # fmt: skip
    return Polled(made, ProviderConfig(), PACE)


def nothing(payloads: Sequence[Payload]) -> Parsed:
    return Parsed(())


@asynccontextmanager
async def poller(url: str, *polled: Polled) -> AsyncIterator[Poller]:
    engine = make_engine(url)
    app = App(env={"HOME": "/"})
    plan = Plan(app, {p.name: p for p in polled}, (), (), {}, (), frozenset(), ())

    def client(_: Provider[ProviderConfig], __: ProviderConfig, deadline_s: float) -> Client:
        return Client(deadline_s=deadline_s)

    collector = Collector(catalogue(), Rules(), Recorder(engine), client)
    made = Poller(
        plan, collector, Schedule(engine), Metrics(), Outages(), lambda _: None, lambda _: None,
        rng=random.Random(1),  # noqa: S311
    )  # fmt: skip
    try:
        yield made
    finally:
        await made.stop(10)
        await asyncio.to_thread(engine.dispose)


async def eventually(met: Callable[[], object]) -> None:
    await asyncio.to_thread(until, met)


def polls(url: str, name: str) -> int:
    [(count,)] = query(
        url, "SELECT count(*) FROM poll JOIN provider p ON p.id = provider_id WHERE slug = %s", name
    )
    return int(count)


def test_a_parser_that_never_ends_is_given_up_and_delays_nobody(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(polling, "GRACE_S", 0.0)
    monkeypatch.setattr(polling, "RECORDING_S", 0.0)
    ended = False

    def stuck(payloads: Sequence[Payload]) -> Parsed:
        while not ended:
            time.sleep(0.05)
        return Parsed(())

    async def work() -> None:
        nonlocal ended
        async with poller(database_url, provider("stuck", stuck), provider("fine", nothing)) as it:
            await it.start()
            await eventually(lambda: "stuck" in it.outcomes)
            assert "given up" in caplog.text
            assert it.hung == []
            # The next one is not even begun: there is never more than one thread that hangs.
            await eventually(lambda: "still being read" in str(it.outcomes["stuck"].reason))
            assert [t.name for t in threading.enumerate()].count("gpucost-parse-stuck") == 1
            done = polls(database_url, "fine")
            await eventually(lambda: polls(database_url, "fine") >= done + 3)
            ended = True

    asyncio.run(work())


def test_a_poll_beyond_every_limit_makes_the_daemon_look_dead(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "HUNG_S", 0.0)

    let_go = asyncio.Event()

    async def forever(name: str) -> PollOutcome | None:
        await let_go.wait()
        return None

    async def work() -> None:
        async with poller(database_url, provider("alpha", nothing)) as it:
            monkeypatch.setattr(Poller, "poll", lambda _, name: forever(name))
            await it.start()
            await eventually(lambda: it.running == ["alpha"])
            assert it.hung == []
            it._running["alpha"].ends_at = time.monotonic() - 1
            assert it.hung == ["alpha"]
            let_go.set()

    asyncio.run(work())


def test_an_alarm_that_does_not_ring_makes_the_daemon_look_dead(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "HUNG_S", 0.0)

    async def work() -> None:
        async with poller(database_url, provider("alpha", nothing)) as it:
            await it.load()
            it._clock.set("alpha", datetime.now(UTC) - timedelta(hours=1))  # never started
            assert it.hung == []
            it.tick()
            await asyncio.sleep(0.01)
            assert it.hung == ["alpha"]

    asyncio.run(work())


def test_a_module_that_fails_in_every_way_is_polled_again(database_url: str) -> None:
    tries = 0

    def parse(payloads: Sequence[Payload]) -> Parsed:
        nonlocal tries
        tries += 1
        raise [ValueError("no"), RecursionError(), MemoryError(), FetchError("what")][tries % 4]

    async def work() -> None:
        async with poller(database_url, provider("alpha", parse)) as it:
            await it.start()
            await eventually(lambda: tries >= 4)
            assert it.standings["alpha"].failures >= 3

    asyncio.run(work())


def test_a_mistake_of_ours_does_not_end_a_provider_s_polls(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = Poller.poll
    wrong = 2

    async def poll(self: Poller, name: str) -> PollOutcome | None:
        nonlocal wrong
        if wrong:
            wrong -= 1
            raise RuntimeError("a mistake")
        return await real(self, name)

    async def work() -> None:
        async with poller(database_url, provider("alpha", nothing)) as it:
            monkeypatch.setattr(Poller, "poll", poll)
            await it.start()
            await eventually(lambda: polls(database_url, "alpha") >= 2)

    asyncio.run(work())
    assert caplog.text.count("internal error: a mistake") == 2


def test_a_lost_answer_is_no_provider_s_fault_and_not_asked_for_at_once(
    database_url: str,
) -> None:
    async def work() -> None:
        async with poller(database_url, provider("alpha", nothing)) as it:
            trouble: list[StoreError] = []
            it.on_trouble = trouble.append
            await it.load()
            before = it.standings["alpha"]
            with psycopg.connect(database_url) as connection:
                connection.execute("DROP TABLE schedule")
            began = datetime.now(UTC)
            assert await it.poll("alpha") is None
            assert len(trouble) == 1
            after = it.standings["alpha"]
            assert (after.failures, after.breaker) == (before.failures, before.breaker)
            assert after.next_due_at >= began + PACE.at_least
            assert "recording" in it.outages.reasons

    asyncio.run(work())


@pytest.mark.parametrize("database_goes", [False, True])
def test_who_is_taken_out_while_a_poll_begins_leaves_nothing(
    database_url: str, monkeypatch: pytest.MonkeyPatch, database_goes: bool
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    save = Schedule.save

    def slow(*arguments: Any) -> None:
        begun.set()
        assert goes_on.wait(30)
        if database_goes:
            raise StoreError("gone")
        save(*arguments)

    async def work() -> None:
        async with poller(database_url, provider("alpha", nothing)) as it:
            await it.load()
            monkeypatch.setattr(Schedule, "save", slow)
            poll = asyncio.create_task(it.poll("alpha"))
            await eventually(begun.is_set)
            it.follow(replace(it.plan, polled={}), it.collector)
            goes_on.set()
            await poll
            assert not it.standings
            assert b'gpucost_breaker_state{provider="alpha"' not in it.metrics.render()[0]

    asyncio.run(work())


def test_a_clock_that_was_set_back_moves_what_is_due(database_url: str) -> None:
    async def work() -> None:
        async with poller(database_url, provider("alpha", nothing)) as it:
            later = datetime.now(UTC) + timedelta(hours=5)
            it.standings["alpha"] = Standing(later)
            it._clock.set("alpha", later)
            it._clock.start()
            it.clock_was_set(timedelta(hours=-5))
            await eventually(lambda: polls(database_url, "alpha") >= 1)

    asyncio.run(work())

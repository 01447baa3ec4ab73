"""Wrong prices over several polls: what waits is shown, and gets through when time confirms it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.support.catalogue import catalogue
from tests.support.offers import listed
from tracker.collect import Collector, PollOutcome
from tracker.domain.offer import ListedOffer
from tracker.domain.quality import Rules
from tracker.http.client import Client
from tracker.provider import Facts, Parsed, Payload, Provider, ProviderConfig
from tracker.store import reads
from tracker.store.engine import make_engine
from tracker.store.polls import Recorder

FACTS = Facts(
    title="Acme", website="https://acme.invalid", price_per="machine", currency="USD",
    billing_increment_seconds=None, minimum_seconds=None, spot="none", tiers=("standard",),
    default_tiers=("standard",), key="none", key_variable=None, terms="", verified="2026-01-01",
)  # fmt: skip
EVERY = timedelta(minutes=15)


class Acme:
    """A provider that lists what the test says, when the test says."""

    def __init__(self, url: str, recorder: Recorder) -> None:
        self.url = url
        self.now = datetime.now(UTC) - timedelta(hours=12)
        self._collector = Collector(
            catalogue(), Rules(), recorder, lambda p, c, s: Client(deadline_s=s),
            utc_now=lambda: self.now,
        )  # fmt: skip

    def poll(
        self, *offers: ListedOffer, after: timedelta = EVERY, complete: bool = True
    ) -> PollOutcome:
        """The outcome of a poll *after* the last one."""
        self.now += after

        async def fetch(http: object, config: object) -> list[Payload]:
            return [Payload("https://acme.invalid", b"{}", self.now)]

        def parse(payloads: object) -> Parsed:
            return Parsed(offers, complete=complete, incomplete_reason=None if complete else "cut")

        provider = Provider("acme", EVERY, ProviderConfig, FACTS, fetch, parse)
        return asyncio.run(self._collector.poll(provider, ProviderConfig()))

    def held(self) -> dict[str, int]:
        """How often what is held has been confirmed, by the provider's id."""
        with psycopg.connect(self.url) as connection:
            return {row.native_id: row.confirmations for row in reads.quarantined(connection)}

    def prices(self) -> dict[str, int]:
        """USD by the provider's id, of what is open."""
        with psycopg.connect(self.url) as connection:
            return {o.native_id: o.price_micro_usd // 10**6 for o in reads.live_offers(connection)}


@pytest.fixture
def acme(database_url: str) -> Iterator[Acme]:
    engine = make_engine(database_url)
    try:
        yield Acme(database_url, Recorder(engine))
    finally:
        engine.dispose()


def machines(usd: str, *names: str) -> list[ListedOffer]:
    return [listed(usd, source_id=name) for name in names]


def test_a_provider_that_cuts_every_price_is_believed_in_the_end(acme: Acme) -> None:
    acme.poll(*machines("8", "a", "b"))
    for confirmations in (1, 2):
        outcome = acme.poll(*machines("2", "a", "b"))
        assert (outcome.status, outcome.ok) == ("empty", False)
        assert outcome.reason == "all offers are held, 2 of 2 until confirmed"
        assert acme.held() == {"a": confirmations, "b": confirmations}
        assert acme.prices() == {"a": 8, "b": 8}
    assert acme.poll(*machines("2", "a", "b")).status == "complete"
    assert acme.prices() == {"a": 2, "b": 2}
    assert acme.held() == {}


def test_a_provider_that_cuts_most_prices_has_not_shrunk(acme: Acme) -> None:
    names = ("b", "c", "d", "e")
    acme.poll(*machines("8", "a", *names))
    for confirmations in (1, 2):
        outcome = acme.poll(*machines("8", "a"), *machines("2", *names))
        assert (outcome.status, outcome.accepted, outcome.held) == ("complete", 1, 4)
        assert acme.held() == dict.fromkeys(names, confirmations)
    acme.poll(*machines("8", "a"), *machines("2", *names))
    assert acme.prices() == {"a": 8, **dict.fromkeys(names, 2)}


def test_a_shrunk_poll_counts_what_it_holds(acme: Acme) -> None:
    acme.poll(*machines("8", *"abcdefgh"))
    outcome = acme.poll(*machines("8", "a"), *machines("2", "b"))
    assert outcome.status == "shrunk"
    assert outcome.reason == (
        "1 offers and 1 held until confirmed where the last complete poll had 8"
    )
    assert acme.held() == {"b": 1}
    assert set(acme.prices().values()) == {8}
    rest = machines("8", *"acdefgh")
    assert acme.poll(*rest, *machines("2", "b")).status == "complete"
    assert acme.held() == {"b": 2}


def test_what_waits_is_not_forgotten_by_the_guard(acme: Acme) -> None:
    acme.poll(*machines("8", *"abcd"))
    acme.poll(*machines("8", "a"), *machines("2", *"bcd"))
    lost = acme.poll(*machines("8", "a"))
    assert (lost.status, lost.reason) == ("shrunk", "1 offers where the last complete poll had 4")


def test_an_absence_is_no_way_around_the_jump_gate(acme: Acme) -> None:
    others = machines("8", "b", "c")
    acme.poll(*machines("8", "a"), *others)
    acme.poll(*machines("2", "a"), *others)
    acme.poll(*others)
    assert acme.poll(*machines("2", "a"), *others).held == 1
    assert acme.held() == {"a": 2}
    for _ in range(5):
        acme.poll(*others)
    assert acme.held() == {}, "gone for longer than prices are known"


def test_partial_polls_that_miss_an_offer_do_not_start_its_count_again(acme: Acme) -> None:
    others = machines("8", "b", "c")
    acme.poll(*machines("8", "a"), *others)
    acme.poll(*machines("2", "a"), *others, complete=False)
    for _ in range(6):
        acme.poll(*others, complete=False)
    acme.poll(*machines("2", "a"), *others, complete=False)
    assert acme.held() == {"a": 2}


def test_three_polls_within_seconds_are_one_observation(acme: Acme) -> None:
    acme.now = datetime.now(UTC) - EVERY - timedelta(minutes=3)
    others, second = machines("8", "b", "c"), timedelta(seconds=1)
    acme.poll(*machines("8", "a"), *others)
    for _ in range(4):
        acme.poll(*machines("2", "a"), *others, after=second)
        assert acme.held() == {"a": 1}


def test_polls_refused_within_seconds_prove_nothing_either(acme: Acme) -> None:
    acme.now = datetime.now(UTC) - EVERY - timedelta(minutes=3)
    acme.poll(*machines("8", *"abcd"))
    for _ in range(5):
        assert acme.poll(*machines("8", "a"), after=timedelta(seconds=1)).status == "shrunk"


def test_a_freed_jump_does_not_free_the_next(acme: Acme) -> None:
    others = machines("8", "b", "c")
    acme.poll(*machines("8", "a"), *others)
    for _ in range(3):
        acme.poll(*machines("2", "a"), *others)
    for usd in ("5", "9"):  # back up in steps that are no jumps
        assert acme.poll(*machines(usd, "a"), *others).held == 0
    assert acme.poll(*machines("2", "a"), *others).held == 1
    assert acme.held() == {"a": 1}


def test_a_clock_that_was_ahead_does_not_stop_a_provider(acme: Acme) -> None:
    acme.now = datetime.now(UTC) - EVERY
    assert acme.poll(*machines("3", "a"), after=timedelta()).status == "complete"
    acme.now += timedelta(days=400)
    assert acme.poll(*machines("9", "a")).status == "failed"
    acme.now -= timedelta(days=400)
    outcome = acme.poll(*machines("4", "a"), after=timedelta())
    assert (outcome.status, outcome.ok) == ("complete", True)
    assert acme.prices() == {"a": 4}


def test_an_unknown_gpu_is_listed_though_its_poll_is_refused(acme: Acme) -> None:
    acme.poll(*machines("8", *"abcd"))
    new = replace(listed("3", source_id="z"), gpu_name="Zork 9")
    assert acme.poll(*machines("8", "a"), new).status == "shrunk"
    with psycopg.connect(acme.url) as connection:
        assert [row.name for row in reads.unmapped(connection)] == ["Zork 9"]

"""A feed that grows to ten times its size, recorded: held, shown, counted, and then believed."""

from __future__ import annotations

from tests.cli.harness import ago
from tests.support.catalogue import catalogue
from tests.support.offers import make_offer, make_poll
from tracker.domain.offer import Offer
from tracker.domain.quality import Known, Rules, assess
from tracker.store import reads
from tracker.store.engine import connect, make_engine
from tracker.store.polls import Recorder

EVERY = 60  # seconds: polls are a minute apart


def poll(recorder: Recorder, minutes: float, offers: list[Offer]) -> str:
    """A complete poll that the gates judge with what the store remembers."""
    context = recorder.context("acme")
    known = Known(
        context.last_price_micro_usd, context.complete_count, context.shrunk_counts,
        context.pending, context.sizes,
    )  # fmt: skip
    found = assess(offers, known, catalogue(), Rules(), marketplace=False, complete=True)
    at = ago(-minutes)  # of the clock that the database has
    made = make_poll(
        0, found.accepted, started_at=at, polled_at=at, status=found.verdict or "complete",
        every_seconds=EVERY, quarantined=found.held, error=found.verdict_reason,
    )  # fmt: skip
    return recorder.record(made).status


def few(n: int, word: str = "m") -> list[Offer]:
    return [make_offer(f"{word}{i}", "2.5") for i in range(n)]


def test_a_surge_is_held_once_and_believed_at_the_next_poll(database_url: str) -> None:
    engine = make_engine(database_url)
    recorder = Recorder(engine)
    grown = few(40) + few(600, "new")
    with connect(database_url, autocommit=True) as connection:
        for minute in (-20, -19, -18, -17):
            assert poll(recorder, minute, few(40)) == "complete"
        assert poll(recorder, -16, grown) == "complete"
        assert len(reads.live_offers(connection)) == 40
        assert {q.gate for q in reads.quarantined(connection)} == {"surge"}
        [provider] = [p for p in reads.providers(connection) if p.slug == "acme"]
        assert (provider.offers, provider.quarantined) == (40, 600)
        assert poll(Recorder(engine), -15, grown) == "complete"
        assert len(reads.live_offers(connection)) == 640
        assert reads.quarantined(connection) == []
        assert poll(recorder, -14, grown + few(10, "more")) == "complete"
        assert len(reads.live_offers(connection)) == 650
    engine.dispose()


def test_two_polls_in_quick_succession_are_one_observation(database_url: str) -> None:
    engine = make_engine(database_url)
    recorder = Recorder(engine)
    grown = few(40) + few(600, "new")
    with connect(database_url, autocommit=True) as connection:
        for minute in range(-5, -1):
            poll(recorder, minute, few(40))
        for minutes in (-0.2, -0.1, 0):
            poll(Recorder(engine), minutes, grown)
            assert len(reads.live_offers(connection)) == 40
    engine.dispose()


def test_a_glitch_of_one_poll_leaves_nothing_behind(database_url: str) -> None:
    engine = make_engine(database_url)
    recorder = Recorder(engine)
    with connect(database_url, autocommit=True) as connection:
        for minute in (-20, -19, -18, -17):
            poll(recorder, minute, few(40))
        poll(recorder, -16, few(40) + few(600, "new"))
        assert poll(recorder, -15, few(40)) == "complete", "no shrunk poll: they never counted"
        assert len(reads.live_offers(connection)) == 40
        poll(recorder, -12, few(40))  # what waited is forgotten as long after as a price is known
        assert reads.quarantined(connection) == []
    engine.dispose()


def test_a_feed_whose_ids_all_change_is_believed_at_its_second_poll(database_url: str) -> None:
    engine = make_engine(database_url)
    recorder = Recorder(engine)
    with connect(database_url, autocommit=True) as connection:
        for minute in (-20, -19, -18, -17):
            poll(recorder, minute, few(40))
        assert poll(recorder, -16, few(600, "a")) == "empty"
        assert len(reads.live_offers(connection)) == 40
        assert poll(recorder, -15, few(600, "b")) == "complete"
        assert len(reads.live_offers(connection)) == 600
    engine.dispose()

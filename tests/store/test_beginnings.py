"""Since when prices are on record, source by source."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.store.worlds import recording_engine, rows
from tests.support.offers import A100, H100, at, make_offer, make_poll
from tracker.store import retention
from tracker.store.beginnings import Beginning, beginnings, not_whole_at
from tracker.store.engine import connect
from tracker.store.polls import Recorder

DAY = 24 * 60


def _record(url: str) -> None:
    """The hub lists H100s from the start and A100s a day later; what a book says of it comes last,
    and somebody who never brought anything is no source of prices."""
    with recording_engine(url) as engine:
        recorder = Recorder(engine)
        for day in range(4):
            offers = [make_offer("h", "2", source="hub", gpu=H100)]
            offers += [make_offer("a", "1", source="hub", gpu=A100)] if day else []
            recorder.record(make_poll(day * DAY, offers, source="hub", every_seconds=DAY * 60))
        typed = [make_offer("t", "3", source="book", seller="hub", gpu=A100)]
        recorder.record(make_poll(3 * DAY, typed, source="book", every_seconds=DAY * 60))
        recorder.record(make_poll(0, source="silent", status="failed"))


def _found(url: str, **asked: list[str]) -> dict[str, float]:
    with connect(url, autocommit=True) as connection:
        told = beginnings(connection, asked.get("gpu_keys"), asked.get("sellers"))
    assert list(told) == sorted(told, key=lambda one: (one.at, one.source))
    return {one.source: (one.at - at(0)).total_seconds() / 60 / DAY for one in told}


def test_each_source_begins_with_its_first_price(database_url: str) -> None:
    assert _found(database_url) == {}
    _record(database_url)
    assert _found(database_url) == {"hub": 0, "book": 3}
    assert _found(database_url, gpu_keys=[A100.key]) == {"hub": 1, "book": 3}
    assert _found(database_url, gpu_keys=["L4-24GB"]) == {}
    assert _found(database_url, sellers=["hub"]) == {"hub": 0, "book": 3}
    assert _found(database_url, sellers=["book"]) == {}


def test_without_floors_the_first_poll_stands_for_it(database_url: str) -> None:
    _record(database_url)
    rows(database_url, "UPDATE provider SET floor_built = false WHERE slug = 'hub'")
    assert _found(database_url, gpu_keys=[A100.key]) == {"hub": 0, "book": 3}
    assert _found(database_url, sellers=["book"]) == {}


def test_retention_is_told_of_those_whose_prices_it_took(database_url: str) -> None:
    _record(database_url)
    with connect(database_url) as connection:
        # March goes; the book began in April.
        assert retention.forget(connection, datetime(2026, 5, 14, tzinfo=UTC), 1)
        april = datetime(2026, 4, 1, tzinfo=UTC)
        assert beginnings(connection) == (
            Beginning("hub", at(0), april), Beginning("book", at(3 * DAY), None),
        )  # fmt: skip
        assert not_whole_at(connection, at(1)) >= {"hub"}
        assert not_whole_at(connection, april) == frozenset()

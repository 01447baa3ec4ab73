"""Tracks of a small history: what is read of single offers, and what own polls replace."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.store.worlds import recording_engine
from tests.support.offers import at, make_offer, make_poll
from tracker.store.engine import read_connection
from tracker.store.polls import Recorder
from tracker.store.series.tracks import Track, from_micros, read_tracks, span_tracks


@pytest.fixture
def recorder(database_url: str) -> Iterator[Recorder]:
    with recording_engine(database_url) as engine:
        yield Recorder(engine)


def told(track: Track) -> list[tuple[float, float, int]]:
    """(start, end, micro-USD) in minutes of the tests' clock."""
    minute = timedelta(minutes=1)
    return [
        ((from_micros(a) - at(0)) / minute, (from_micros(b) - at(0)) / minute, int(price))
        for a, b, price in zip(track.starts, track.ends, track.micro_usd, strict=True)
    ]


def test_a_track_is_the_cheapest_of_its_key_with_gaps(database_url: str, recorder: Recorder):
    recorder.record(make_poll(0, [make_offer("a", "2"), make_offer("b", "3")]))
    recorder.record(make_poll(1, [make_offer("b", "3")]))
    recorder.record(make_poll(9, [make_offer("b", "1")]))
    with read_connection(database_url) as connection:
        [track] = span_tracks(connection, start=at(-5), end=at(60), now=at(60))
        [early] = span_tracks(connection, start=at(0.5), end=at(60), now=at(9.5))
    assert told(track) == [(0, 1, 2_000_000), (1, 4, 3_000_000), (9, 12, 1_000_000)]
    assert told(early) == [(0.5, 1, 2_000_000), (1, 4, 3_000_000), (9, 9.5, 1_000_000)]


def test_what_own_polls_cover_replaces_imports(database_url: str, recorder: Recorder):
    recorder.record(make_poll(0, [make_offer("a", "2")]))
    imported = make_offer("x", "1", source="import-test", seller="acme")
    recorder.record(make_poll(-1, [imported], source="import-test", kind="import"))
    recorder.record(make_poll(1, [imported], source="import-test", kind="import"))
    with read_connection(database_url) as connection:
        reading = read_tracks(connection, start=at(-5), end=at(60), now=at(60))
    assert sorted((t.key.source, told(t)) for t in reading.tracks) == [
        ("acme", [(0, 3, 2_000_000)]),
        ("import-test", [(-1, 0, 1_000_000), (3, 4, 1_000_000)]),
    ]
    assert [(t.key.source, told(t)) for t in reading.replaced] == [
        ("import-test", [(0, 3, 1_000_000)])
    ]

"""Every way to a price series against brute force, on small random worlds full of trouble.

The floor as maintained and as built anew, packed months, spans, buckets and exact steps must all
say what the raw polls say (telling.py), in any window.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.series.telling import (
    ASKED,
    OWN,
    TOLD,
    WORLDS,
    Daemons,
    Kind,
    Turn,
    World,
    low_of,
    play,
)
from tests.store.worlds import fused_engine, rows
from tests.support.offers import at
from tracker.domain import floor, series, spans
from tracker.domain.series import Series, Step
from tracker.domain.series_buckets import bucket_lowest
from tracker.store import floor_packs, floor_rebuild, floor_rows
from tracker.store.engine import connect, read_connection
from tracker.store.polls import Recorder
from tracker.store.series import tracks as reading
from tracker.store.series.reduce import bucket_minima, lowest_steps
from tracker.store.series.spans import OfferFilter
from tracker.store.series.tracks import Track, from_micros, micros_of
from tracker.store.stored import Connection

Window = tuple[datetime, datetime]
WHOLE = (at(-5), at(90_000))
Found = Mapping[tuple[bool, Kind], Series]


@pytest.fixture
def daemons(database_url: str) -> Iterator[Daemons]:
    """Two processes' worth of recorders on one database."""
    with fused_engine(database_url) as one, fused_engine(database_url) as two:
        yield [(Recorder(engine), fuse) for engine, fuse in (one, two)]


def found(tracks: Iterable[Track]) -> Found:
    """Tracks as brute force tells them."""
    out: dict[tuple[bool, Kind], Series] = {}
    for track in tracks:
        key = track.key
        kind = (key.gpu_key, key.market, key.terms.minimum_seconds)
        assert (key.source_kind == "import", kind) not in out
        out[key.source_kind == "import", kind] = steps_of(track)
    return out


def steps_of(track: Track) -> Series:
    steps = [
        Step(from_micros(start), from_micros(end), Decimal(int(price)))
        for start, end, price in zip(track.starts, track.ends, track.micro_usd, strict=True)
    ]
    series.check(steps)
    assert steps == series.joined(steps)
    return steps


def check(url: str, world: World, window: Window, now: datetime) -> None:
    """Compare all that can be read of *world* in *window* with brute force."""
    start, end = window
    expected = world.lowest(start, min(end, now)) if start < min(end, now) else {}
    asked = {"start": start, "end": end, "now": now, "sellers": [world.seller]}
    with read_connection(url) as connection:
        told = reading.span_tracks(connection, **asked)
        assert found(told) == expected, "spans"
        assert found(reading.floor_tracks(connection, **asked)) == expected, "floor"
        check_filters(connection, world, asked)
        check_whose_word_counts(connection, world, asked, lambda _: True)
        check_whose_word_counts(connection, world, asked, TOLD.__contains__)
    check_reduced(told, expected, window)


def check_filters(connection: Connection, world: World, asked: Mapping[str, object]) -> None:
    start, end = asked["start"], min(asked["end"], asked["now"])
    if start >= end:
        return
    for filters, kept in ASKED:
        told = found(reading.span_tracks(connection, **asked, **filters))
        assert told == world.lowest(start, end, kept.__contains__), filters
    for read in (reading.span_tracks, reading.floor_tracks):
        spot = read(connection, **asked, markets=["spot"], gpu_keys=["H100-SXM-80GB"])
        assert found(spot) == world.lowest(start, end, {"e", "y"}.__contains__)
        assert read(connection, **asked, gpu_keys=["none"]) == []


def check_whose_word_counts(
    connection: Connection,
    world: World,
    asked: Mapping[str, object],
    chosen: Callable[[str], bool],
) -> None:
    """What the import tells counts where the seller's own polls tell nothing, moment by moment.

    Whatever is *chosen* of the offers (all, or those that are told of, the dedicated ones): those
    left out cover a market all the same.
    """
    start, end = asked["start"], min(asked["end"], asked["now"])
    got = reading.read_tracks(
        connection, **asked,
        offer_filter=OfferFilter(dedicated=not chosen("a")),
    )  # fmt: skip
    assert got.spans_from is None
    counting, replaced = found(got.tracks), found(got.replaced)
    expected = world.lowest(start, end, chosen) if start < end else {}
    moments = {moment for known in world.known().values() for a, b, _ in known for moment in (a, b)}
    for moment in {start, *(m for m in moments if start <= m < end)}:
        for (told, kind), steps in expected.items():
            value = series.value_at(steps, moment)
            given_way = told and world.covered(moment, kind[1])
            assert series.value_at(counting.get((told, kind), ()), moment) == (
                None if given_way else value
            ), "counting"
            assert series.value_at(replaced.get((told, kind), ()), moment) == (
                value if given_way else None
            ), "replaced"
    assert counting.keys() | replaced.keys() == expected.keys()


def check_reduced(tracks: list[Track], expected: Found, window: Window) -> None:
    """The reducers of NumPy, and the exact minimum of the domain, over all tracks together."""
    start, end = window
    everything = [known for steps in expected.values() for known in steps]
    brute = low_of([(*step[:2], int(step.value)) for step in everything], start, end)
    assert series.lowest(list(expected.values())) == brute
    columns = [np.concatenate(c) for c in zip(*(t[1:4] for t in tracks), strict=True)]
    if not columns:
        columns = [np.zeros(0, np.int64)] * 3
    steps = lowest_steps(*columns)
    assert [
        Step(from_micros(a), from_micros(b), Decimal(int(v)))
        for a, b, v in zip(steps.starts, steps.ends, steps.values, strict=True)
    ] == brute, "exact steps"
    for size in (timedelta(minutes=1), timedelta(minutes=7), timedelta(hours=5)):
        edges = [start + size * i for i in range(min((end - start) // size, 200) + 2)]
        values, known = bucket_minima(*columns, micros_of(edges))
        buckets = [
            Decimal(int(value)) if there else None
            for value, there in zip(values, known, strict=True)
        ]
        assert buckets == bucket_lowest(list(expected.values()), edges), "buckets"


def check_floors_are_built(url: str, world: World) -> None:
    """Otherwise the floor would not be read, and its comparison show nothing."""
    unbuilt = rows(
        url, "SELECT slug FROM provider WHERE NOT floor_built AND last_ok_at IS NOT NULL"
        " AND slug LIKE %s", [f"%{world.seller}"],
    )  # fmt: skip
    assert unbuilt == []


def pack(url: str, world: World) -> int:
    """Pack all months up to the last poll's, as if it were much later; how many packs there are."""
    with connect(url) as connection:
        floor_packs.build(connection, now=world.latest + timedelta(days=70))
    [(count,)] = rows(url, "SELECT count(*) FROM floor_pack")
    return int(count)


def rebuild(url: str, world: World) -> None:
    """Build the floors of a world's sources anew from its spans."""
    with connect(url) as connection:
        for [slug] in rows(url, "SELECT slug FROM provider WHERE slug LIKE %s AND last_ok_at"
                           " IS NOT NULL", [f"%{world.seller}"]):  # fmt: skip
            floor_rebuild.rebuild(connection, slug)


@st.composite
def windows(draw: st.DrawFn) -> tuple[float, float]:
    """The beginning and length of a window in minutes."""
    return draw(st.sampled_from([-5, 0, 0.75, 3, 60])), draw(st.sampled_from([1, 4.5, 60, 90_000]))


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(turns=WORLDS, window=windows(), later=st.sampled_from([0, 0.5, 4, 60]))
def test_every_way_equals_brute_force(
    database_url: str,
    daemons: Daemons,
    turns: list[Turn],
    window: tuple[float, float],
    later: float,
) -> None:
    world = play(daemons, turns[:5])
    pack(database_url, world)
    play(daemons, turns[5:], world)
    now = world.latest + timedelta(minutes=later)
    begin, length = window
    some = at(begin), at(begin + length)
    check_floors_are_built(database_url, world)
    check(database_url, world, WHOLE, now)
    check(database_url, world, some, now)
    packed = pack(database_url, world)
    assert packed or not world.known()
    check(database_url, world, some, now)
    rebuild(database_url, world)
    check(database_url, world, some, now)
    check(database_url, world, WHOLE, now)


def turns(*polls: tuple[int, str, str]) -> list[Turn]:
    """Turns from (gap, status, offers), offers being ``a1 b2``: name and price."""
    made = []
    for gap, status, words in polls:
        prices = tuple((word[0], word[1:]) for word in words.split())
        told = bool(prices) and prices[0][0] in TOLD
        made.append(Turn(gap, told, status, prices, 0, None, False))
    return made


GAP = turns((0, "complete", "a1 b1"), (2, "complete", "a1 b2"), (13, "complete", "a1"))


def test_names_belong_to_one_source() -> None:
    assert not set(OWN) & set(TOLD)


def test_an_outage_is_a_gap(database_url: str, daemons: Daemons) -> None:
    world = play(daemons, GAP)
    check(database_url, world, WHOLE, at(60))
    [steps] = world.lowest(*WHOLE).values()
    assert [(a, b) for a, b, _ in steps] == [(at(0), at(4)), (at(7.5), at(10.5))]


def test_a_missing_gap_rule_is_noticed(
    database_url: str, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "known_until", lambda seen_at, ttl: seen_at + 1000 * ttl)
    world = play(daemons, GAP)
    with pytest.raises(AssertionError, match="spans"):
        check(database_url, world, WHOLE, at(60))


def test_a_floor_without_the_gap_rule_is_noticed(
    database_url: str, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settle(*args: Any, ttl_before: timedelta, **options: Any) -> Any:
        return floor.settle(*args, ttl_before=1000 * ttl_before, **options)

    monkeypatch.setattr(floor_rows, "settle", settle)
    world = play(daemons, GAP)
    with pytest.raises(AssertionError, match="floor"):
        check(database_url, world, WHOLE, at(60))
    rebuild(database_url, world)
    check(database_url, world, WHOLE, at(60))


def test_a_pack_that_is_not_thrown_away_is_noticed(
    database_url: str, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(floor_packs, "throw_away", lambda *_, **__: 0)
    world = play(daemons, GAP)
    pack(database_url, world)
    play(daemons, turns((2, "complete", "a2")), world)
    with pytest.raises(AssertionError, match="floor"):
        check(database_url, world, WHOLE, at(60))


def test_imports_that_win_over_own_polls_are_noticed(
    database_url: str, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = play(daemons, turns((0, "complete", "a2"), (0, "complete", "x1")))
    check(database_url, world, WHOLE, at(60))
    monkeypatch.setattr(reading, "weigh", lambda _, tracks, now: reading.Reading(tracks, []))
    with pytest.raises(AssertionError, match="counting"):
        check(database_url, world, WHOLE, at(60))


def test_a_whole_month_without_a_poll(database_url: str, daemons: Daemons) -> None:
    day = 2 * 60 * 24
    world = play(daemons, turns(
        (0, "complete", "a1 b1 d2"), (day, "complete", "a2"), (40 * day, "complete", "a2 b1"),
        (1, "complete", "b1"), (31 * day, "complete", "b1"),
    ))  # fmt: skip
    for start, end in itertools.pairwise([at(-5), at(60), at(1441), at(60_000), at(90_000)]):
        check(database_url, world, (start, end), world.latest + timedelta(minutes=1))

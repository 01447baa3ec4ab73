"""The price floor, poll by poll and rebuilt, against brute force on small random worlds."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.floors import floors_of_spans, stored_floors
from tests.store.worlds import Fault, Fuse, fused_engine, rows
from tests.support.offers import A100, H100, at, make_offer, make_poll
from tracker.domain import floor
from tracker.domain.gpu import Gpu
from tracker.domain.offer import Extras, Offer
from tracker.store import floor_prices, floor_rebuild, floor_rows, floor_write
from tracker.store.engine import connect
from tracker.store.polls import Recorder


@dataclass(frozen=True)
class Look:
    """What a poll sees of an offer. Offers of one GPU, currency and upstream share a floor, slices
    if they are of one part of a card, too."""

    name: str
    price: str
    currency: str
    expires: int | None  # minutes after the start
    fallback: bool
    upstream: str | None = None


@dataclass(frozen=True)
class Step:
    """One poll. ``gap``: half minutes since the one before; ``ahead``: its clock was wrong."""

    gap: int
    status: str
    looks: tuple[Look, ...]
    daemon: int  # 2 and 3: the same, just started
    fault: int | None  # fails at this statement
    ttl: int  # seconds
    ahead: bool


LOOKS = st.builds(
    Look,
    name=st.sampled_from(["a", "b", "c", "d", "e 1g.10gb", "f 1g.10gb", "g 2g.20gb", "h"]),
    price=st.sampled_from(["1", "1.5", "1.50", "2", "10", "1.0000001"]),
    currency=st.sampled_from(["USD", "USD", "EUR"]),
    expires=st.sampled_from([None, None, None, 3, 5]),
    fallback=st.sampled_from([False, False, True]),
    upstream=st.sampled_from([None, None, "deep"]),
)
STEPS = st.builds(
    Step,
    gap=st.sampled_from([-1, 0, 1, 1, 2, 2, 3, 4, 6, 7, 13]),
    status=st.sampled_from(["complete"] * 3 + ["partial"] * 3 + ["failed"]),
    looks=st.lists(LOOKS, max_size=6).map(tuple),
    daemon=st.integers(0, 3),
    fault=st.sampled_from([None, None, None, 2, 5, 8, 11, 14]),
    ttl=st.sampled_from([180, 180, 180, 60, 300]),
    ahead=st.sampled_from([False] * 9 + [True]),
)
WORLDS = st.lists(STEPS, max_size=9)

SLICE = Gpu("H100-SLICE", "H100", None, None, is_slice=True)

Daemons = list[tuple[Recorder, Fuse]]
_worlds = itertools.count()


@pytest.fixture
def daemons(database_url: str) -> Iterator[Daemons]:
    with fused_engine(database_url) as one, fused_engine(database_url) as two:
        yield [(Recorder(engine), fuse) for engine, fuse in (one, two)]


def offer_of(look: Look, source: str) -> Offer:
    gpu = A100 if look.name == "d" else SLICE if look.name[0] in "efgh" else H100
    expires = None if look.expires is None else at(look.expires)
    return make_offer(
        look.name, look.price, source=source, gpu=gpu, currency=look.currency,
        upstream=look.upstream,
        fx_rate="1" if look.currency == "USD" else "1.1",
        extras=Extras(expires_at=expires, fallback=look.fallback),
    )  # fmt: skip


def play(url: str, daemons: Daemons, world: list[Step], source: str) -> None:
    """Record a world; after every poll the floors are what the spans make them."""
    now = 0
    for step in world:
        moment = max(now + step.gap, 0)
        now = max(now, moment)
        number = step.daemon % 2
        if step.daemon > 1:
            daemons[number] = (Recorder(daemons[number][0]._engine), daemons[number][1])
        recorder, fuse = daemons[number]
        poll = make_poll(
            moment / 2, [offer_of(look, source) for look in step.looks], source=source,
            status=step.status, ttl_seconds=step.ttl,
        )  # fmt: skip
        fuse.left = step.fault
        try:
            recorder.record(poll)
        except Fault:
            pass
        finally:
            fuse.left = None
        if step.ahead:
            pretend_future(url, source)
        assert stored_floors(url, source) == floors_of_spans(url, source)


def pretend_future(url: str, source: str) -> None:
    """Let the source's last accepted poll be one that a clock ahead of time has made."""
    rows(
        url,
        "UPDATE provider SET last_ok_at = clock_timestamp() + interval '100 days'"
        " WHERE slug = %s AND last_ok_at IS NOT NULL",
        (source,),
    )


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(world=WORLDS)
def test_floors_are_the_lowest_of_the_spans(
    database_url: str, daemons: Daemons, world: list[Step]
) -> None:
    source = f"floors{next(_worlds)}"
    play(database_url, daemons, world, source)
    maintained = stored_floors(database_url, source)
    if rows(database_url, "SELECT 1 FROM provider WHERE slug = %s", (source,)):
        with connect(database_url) as connection:
            floor_rebuild.rebuild(connection, source)
    assert stored_floors(database_url, source) == maintained
    # What was remembered before the rebuild is void, and what it wrote can be gone on with.
    play(database_url, daemons, world[:2], source)


def polls(*steps: tuple[int, str, str]) -> list[Step]:
    """Steps from (gap, status, offers), offers being ``a1 b2``: name and price."""
    return [
        Step(gap, status, tuple(Look(w[0], w[1:], "USD", None, False) for w in words.split()), 0,
             None, 180, False)
        for gap, status, words in steps
    ]  # fmt: skip


# a, the cheaper one, is missed by partial polls until it is not known any more.
MISSED = polls(
    (0, "complete", "a1 b2"), (2, "partial", "b2"), (3, "partial", "b2"), (3, "partial", "b2 c3"),
    (2, "complete", "a1 b2"), (13, "complete", "a1 b2"),
)  # fmt: skip


def test_a_cheaper_offer_that_partial_polls_miss(database_url: str, daemons: Daemons) -> None:
    play(database_url, daemons, MISSED, "missed")
    [steps] = stored_floors(database_url, "missed").values()
    assert [(str(price), (end - start).total_seconds() / 60) for start, end, price in steps] == [
        ("1", 3), ("2", 2), ("1", 3), ("1", 3),
    ]  # fmt: skip


def test_a_rebuild_knows_the_lower_amount_and_the_same_one(
    database_url: str, daemons: Daemons
) -> None:
    world = polls((0, "complete", "a10 b9"), (1, "complete", "a10 b11"), (1, "complete", "a10.0"))
    play(database_url, daemons, world, "amounts")
    before = stored_floors(database_url, "amounts")
    with connect(database_url) as connection:
        floor_rebuild.rebuild(connection, "amounts")
    assert stored_floors(database_url, "amounts") == before
    [steps] = before.values()
    assert [price for _, _, price in steps] == [9, 10]


def test_a_rebuild_that_is_interrupted_does_not_wait_for_what_it_reads(
    database_url: str, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(database_url, daemons, polls((0, "complete", "a1 d2")), "two")  # d is another GPU
    before, read = stored_floors(database_url, "two"), floor_prices.read
    slowly = threading.Event()

    def second_slowly(connection: Any, sources: Any, gpu_key: str) -> Any:
        if gpu_key == "H100-SXM-80GB":
            slowly.set()
            connection.execute("SELECT pg_sleep(300)")
        return read(connection, sources, gpu_key)

    def interrupted(*_: Any) -> Any:
        assert slowly.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(floor_prices, "read", second_slowly)
    monkeypatch.setattr(floor_write, "rows_of", interrupted)
    began = time.monotonic()
    with connect(database_url) as connection:
        with pytest.raises(KeyboardInterrupt):
            floor_rebuild.rebuild(connection, "two")
        assert time.monotonic() - began < 60
        connection.rollback()
    assert stored_floors(database_url, "two") == before


def test_what_goes_wrong_in_reading_is_told(
    database_url: str, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(database_url, daemons, polls((0, "complete", "a1 d2")), "two")
    read = floor_prices.read

    def second_fails(connection: Any, sources: Any, gpu_key: str) -> Any:
        if gpu_key == "H100-SXM-80GB":
            connection.execute("SELECT 1 / 0")
        return read(connection, sources, gpu_key)

    monkeypatch.setattr(floor_prices, "read", second_fails)
    with connect(database_url) as connection, pytest.raises(psycopg.errors.DivisionByZero):
        floor_rebuild.rebuild(connection, "two")


def test_the_check_notices_steps_that_are_not_laid_out_ahead(
    database_url: str, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid_out = floor.stairs
    monkeypatch.setattr(
        floor_rows, "stairs", lambda members, seen, **times: laid_out(members, {}, **times)
    )
    with pytest.raises(AssertionError):
        play(database_url, daemons, MISSED, "missed")


def test_the_check_notices_floors_that_are_not_looked_at(
    database_url: str, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = floor_rows._move
    monkeypatch.setattr(floor_rows, "_move", lambda *given: move(*given) and set())
    with pytest.raises(AssertionError):
        play(database_url, daemons, polls((0, "complete", "a1"), (1, "complete", "a2")), "missed")

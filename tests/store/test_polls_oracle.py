"""The recorder against a brute-force history, on small random worlds full of trouble."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store import oracle
from tests.store.oracle import RawPoll
from tests.store.worlds import Fault, Fuse, fused_engine, stored_history
from tests.support.offers import at, make_offer, make_poll
from tracker.domain import spans
from tracker.store import reads
from tracker.store.engine import read_connection
from tracker.store.polls import Recorder

TTL = timedelta(minutes=3)
NAMES, PRICES = "abcd", ("1", "1.5", "2")


@dataclass(frozen=True)
class Step:
    """One poll of a world. ``gap``: half minutes since the step before (0 and less: late)."""

    gap: int
    status: str
    prices: tuple[tuple[str, str], ...]  # a name may come twice
    daemon: int  # 2 and 3: the same, just started
    fault: int | None  # fails at this statement
    repeated: bool  # recorded again by the other daemon


STEPS = st.builds(
    Step,
    gap=st.sampled_from([-3, -1, 0, 1, 1, 2, 2, 4, 6, 7, 13]),
    status=st.sampled_from(["complete"] * 4 + ["partial"] * 2 + ["failed", "shrunk"]),
    prices=st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(PRICES)), max_size=6
    ).map(tuple),
    daemon=st.integers(0, 3),
    fault=st.none() | st.none() | st.integers(0, 12),
    repeated=st.booleans(),
)  # fmt: skip
WORLDS = st.lists(STEPS, max_size=9)

Daemons = list[tuple[Recorder, Fuse]]
_worlds = itertools.count()


@pytest.fixture
def daemons(database_url: str) -> Iterator[Daemons]:
    """Two processes' worth of recorders on one database."""
    with fused_engine(database_url) as one, fused_engine(database_url) as two:
        yield [(Recorder(engine), fuse) for engine, fuse in (one, two)]


def play(daemons: Daemons, world: list[Step], source: str) -> list[RawPoll]:
    """Record a world and return the polls that were not lost to a fault."""
    raw: list[RawPoll] = []
    now = 0
    for step in world:
        moment = max(now + step.gap, 0)
        now = max(now, moment)
        offers = [make_offer(name, price, source=source) for name, price in step.prices]
        poll = make_poll(moment / 2, offers, source=source, status=step.status)
        highest = dict(sorted((name, Decimal(price)) for name, price in step.prices))
        first = step.daemon % 2
        if step.daemon > 1:
            daemons[first] = (Recorder(daemons[first][0]._engine), daemons[first][1])
        for daemon in (first, 1 - first)[: 1 + step.repeated]:
            recorder, fuse = daemons[daemon]
            fuse.left = step.fault if daemon == first else None
            try:
                recorded = recorder.record(poll)
            except Fault:
                continue
            finally:
                fuse.left = None
            before = len(oracle.accepted(raw))
            raw.append(RawPoll(poll.polled_at, step.status, highest))
            counted = len(oracle.accepted(raw)) > before
            assert (recorded.status in ("complete", "partial")) == counted
    return raw


def check(url: str, daemons: Daemons, world: list[Step]) -> None:
    source = f"world{next(_worlds)}"
    raw = play(daemons, world, source)
    expected = oracle.history(raw, TTL)
    assert stored_history(url, source) == expected
    with read_connection(url) as connection:
        for half_minutes in range(-1, 2 * len(world) * 7, 3):
            moment = at(half_minutes / 2)
            read = reads.live_offers(connection, providers=[source], as_of=moment)
            assert len({offer.native_id for offer in read}) == len(read)
            found = {offer.native_id: offer.price_native for offer in read}
            assert found == oracle.prices_at(expected, moment)
        latest = max((poll.at for poll in oracle.accepted(raw)), default=at(0))
        fresh = {
            offer.native_id: offer.price_native
            for offer in reads.live_offers(connection, providers=[source])
            if offer.stale_at > latest
        }
        assert fresh == oracle.prices_at(expected, latest)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(world=WORLDS)
def test_store_equals_brute_force(database_url: str, daemons: Daemons, world: list[Step]) -> None:
    check(database_url, daemons, world)


def steps(*polls: tuple[int, str, str], daemon: int = 0) -> list[Step]:
    """Steps from (gap, status, offers), offers being ``a1 b2``: name and price."""
    return [
        Step(gap, status, tuple((word[0], word[1:]) for word in words.split()), daemon, None, False)
        for gap, status, words in polls
    ]


GAP = steps((0, "complete", "a1 b1"), (2, "complete", "a1 b2"), (13, "complete", "a1"))


def test_outage_is_a_gap(database_url: str, daemons: Daemons) -> None:
    check(database_url, daemons, GAP)


def test_oracle_notices_a_missing_gap_rule(
    database_url: str, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "known_until", lambda seen_at, ttl: seen_at + 1000 * ttl)
    with pytest.raises(AssertionError):
        check(database_url, daemons, GAP)


def test_partial_polls_let_what_they_miss_go_stale(database_url: str, daemons: Daemons) -> None:
    partial = [(2, "partial", "a1")] * 5
    check(database_url, daemons, steps((0, "complete", "a1 b1"), *partial))
    seen_again = [(2, "partial", "a1"), (2, "partial", "a1 b1"), (2, "partial", "a1")]
    check(database_url, daemons, steps((0, "complete", "a1 b1"), *seen_again))


def test_spans_cross_the_end_of_a_month(database_url: str, daemons: Daemons) -> None:
    day = 2 * 60 * 24
    check(database_url, daemons, steps(
        (0, "complete", "a1 b1"), (day, "complete", "a2"), (40 * day, "complete", "a2 b1"),
        (1, "complete", "b1"),
    ))  # fmt: skip

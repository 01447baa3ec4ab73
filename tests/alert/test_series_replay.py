"""A rule over months of prices: what it would have said, and how often."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest

from tests.alert.series import GCP_SPOT, gcp_spot, marketplace
from tests.support.fixtures import NO_SHARED
from tracker.domain.rule import Event, Kind, Margins, Policy, parse, policy_for, replay

MINUTE = timedelta(minutes=1)
EVERY = 5 * MINUTE
RULE = parse("cost(H100) < cost(A100)")
DEFAULTS = policy_for(RULE)

needs_history = pytest.mark.skipif(not GCP_SPOT.is_file(), reason=NO_SHARED)


def _gcp(a100: str, policy: Policy = DEFAULTS) -> list[Event]:
    points = gcp_spot(a100)
    hold = timedelta(days=8)  # the series is about weekly
    start, end = points[0][0], points[-1][0] + hold
    return replay(policy, points, interval=EVERY, hold=hold, start=start, end=end)


def _of(events: list[Event], *kinds: Kind) -> list[tuple[Kind, date]]:
    return [(event.kind, event.at.date()) for event in events if event.kind in kinds]


@needs_history
def test_the_h100_job_became_cheaper_once_and_dearer_once() -> None:
    events = _gcp("a100_40gb_per_gpu")
    assert _of(events, Kind.FIRED, Kind.RESOLVED, Kind.STILL_FIRING, Kind.RELAPSED) == [
        (Kind.FIRED, date(2025, 3, 13)),
        (Kind.RESOLVED, date(2026, 7, 9)),
    ]
    fired, resolved = (e for e in events if e.kind in (Kind.FIRED, Kind.RESOLVED))
    assert fired.sent
    assert resolved.sent
    assert (round(fired.value or 0, 3), round(resolved.value or 0, 3)) == (
        Decimal("0.590"),
        Decimal("1.041"),
    )
    assert resolved.firing_seq == fired.seq
    # Half an hour after the observation, and not before.
    observed = max(at for at, _ in gcp_spot("a100_40gb_per_gpu") if at <= fired.at)
    assert 30 * MINUTE <= fired.at - observed < 30 * MINUTE + EVERY


@needs_history
def test_against_the_80_gb_card_the_dead_band_holds_it_back_for_months() -> None:
    points = gcp_spot("a100_80gb_per_gpu")
    near = [value for at, value in points if date(2024, 7, 8) <= at.date() < date(2024, 10, 31)]
    assert {round(value or 0, 3) for value in near} == {Decimal("0.996")}
    events = _gcp("a100_80gb_per_gpu")
    assert _of(events, Kind.PENDING, Kind.FIRED, Kind.RECOVERING, Kind.RESOLVED) == [
        (Kind.PENDING, date(2024, 10, 31)),
        (Kind.FIRED, date(2024, 10, 31)),
    ]
    fired = next(event for event in events if event.kind is Kind.FIRED)
    assert round(fired.value or 0, 3) == Decimal("0.727")
    # Without margins it would have fired in July already.
    bare = _gcp("a100_80gb_per_gpu", policy_for(RULE, Margins(Decimal(0), Decimal(0))))
    assert _of(bare, Kind.FIRED) == [(Kind.FIRED, date(2024, 7, 8))]


@needs_history
def test_weeks_without_an_observation_are_told_as_such_and_resolve_nothing() -> None:
    events = _gcp("a100_40gb_per_gpu")
    problems = _of(events, Kind.DATA_PROBLEM, Kind.DATA_OK)
    during = [day for kind, day in problems if kind is Kind.DATA_PROBLEM]
    points = gcp_spot("a100_40gb_per_gpu")
    times = sorted({at for at, _ in points})
    gaps = [
        (a + timedelta(days=8, hours=2)).date()
        for a, b in pairwise(times)
        if b - a > timedelta(days=8, hours=2, minutes=5)
    ]
    assert during == gaps
    assert len(problems) == 2 * len(gaps)


@pytest.mark.parametrize("seed", range(5))
def test_a_minimum_that_crosses_forty_times_is_at_most_eight_notices(seed: int) -> None:
    market = marketplace(seed=seed)
    assert market.crossings == 40

    def notices(policy: Policy) -> list[Event]:
        events = replay(
            policy,
            market.points,
            interval=EVERY,
            hold=timedelta(days=1),
            start=market.start,
            end=market.end,
        )
        return [event for event in events if event.sent]

    nothing = timedelta(0)
    bare = Policy(
        enter=Decimal(1),
        exit=Decimal("1.000000001"),
        min_duration=nothing,
        min_count=1,
        keep_firing=nothing,
        cooldown=nothing,
    )
    without, with_defaults = notices(bare), notices(DEFAULTS)
    print(f"notices in 125 days: {len(without)} without margins, {len(with_defaults)} with")
    assert len(without) == 40
    assert len(with_defaults) * 5 <= len(without)
    # and what was news is still told
    fired = [event.at for event in with_defaults if event.kind is Kind.FIRED]
    for move in market.moves:
        assert any(30 * MINUTE <= at - move <= 90 * MINUTE for at in fired)

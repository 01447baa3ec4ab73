"""The estimates of watched jobs are put on record when they change, and not otherwise."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from tests.alert.world import World, rule
from tests.support.catalogue import catalogue
from tests.support.offers import at
from tracker.alert.estimates import EVERY, EstimateKeeper
from tracker.domain.job import NoEstimate, RuntimeHours
from tracker.report.history.versions import digest_of, ways_from
from tracker.store import job_estimates
from tracker.store.engine import connect

WATCHED = rule()
assert WATCHED.job is not None
JOB = WATCHED.job


def _recorded(world: World) -> list[tuple[str, str, Decimal]]:
    with connect(world.url) as connection:
        found = job_estimates.of_job(connection, digest_of(JOB))
    return [
        (one.gpu_key, one.version, way.hours)
        for one in sorted(found, key=lambda one: (one.gpu_key, one.version))
        if not isinstance(ways := ways_from(one.ways), NoEstimate)
        for way in ways
    ]


def test_an_estimate_is_recorded_once_until_it_changes(world: World) -> None:
    world.poll(0, {"h": "2", "a": "1", "a2": "1.5"})
    keeper = EstimateKeeper(world.engine, [WATCHED], catalogue())
    assert keeper.record(at(1)) == 2  # one for each GPU, however many offers there are
    assert keeper.record(at(2)) == 0
    assert EstimateKeeper(world.engine, [WATCHED], catalogue()).record(at(3)) == 0  # a restart

    faster = replace(JOB, hours={**JOB.hours, "H100": RuntimeHours(Decimal(3))})
    edited = replace(WATCHED, job=faster)
    assert EstimateKeeper(world.engine, [edited], catalogue()).record(at(4)) == 1
    back = EstimateKeeper(world.engine, [WATCHED], catalogue())
    assert back.record(at(5)) == 1  # what it was before is a version of its own
    assert _recorded(world) == [
        ("A100-SXM-80GB", "1", Decimal(12)), ("H100-SXM-80GB", "1", Decimal(4)),
        ("H100-SXM-80GB", "2", Decimal(3)),
        ("H100-SXM-80GB", "3", Decimal(4)),
    ]  # fmt: skip


def test_a_gpu_that_comes_on_the_market_is_recorded_within_the_hour(world: World) -> None:
    world.poll(0, {"h": "2"})
    keeper = EstimateKeeper(world.engine, [WATCHED], catalogue())
    assert keeper.record(at(0)) == 1
    world.poll(5, {"h": "2", "a": "1"})
    assert keeper.record(at(0) + EVERY - timedelta(seconds=1)) == 0
    assert keeper.record(at(0) + EVERY) == 1


def test_who_no_longer_leads_records_nothing(world: World) -> None:
    world.poll(0, {"h": "2"})

    class NotLeading(Exception):
        pass

    def guard(_cursor: object) -> None:
        raise NotLeading

    keeper = EstimateKeeper(world.engine, [WATCHED], catalogue(), guard)
    with pytest.raises(NotLeading):
        keeper.record(at(1))
    assert _recorded(world) == []
    assert EstimateKeeper(world.engine, [WATCHED], catalogue()).record(at(2)) == 1


def test_rules_without_a_job_watch_none(world: World) -> None:
    keeper = EstimateKeeper(world.engine, [rule("price(H100) < 2")], catalogue())
    assert keeper.record(at(0)) == 0

"""Rules over recorded history: what they would have said, and which margins keep them quiet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest

from tests.alert import recorded
from tests.alert.world import World, rule
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED
from tests.support.offers import at
from tests.support.pg import TestServer
from tracker.alert.backtest import (
    Backtest,
    NothingToSee,
    Replayed,
    Suggestion,
    backtest,
    events_of,
    later_from,
    most_within,
    settings_tried,
    suggest,
    watch_of,
)
from tracker.alert.rules import Rule
from tracker.domain.rule import Kind, Policy
from tracker.store.engine import read_connection

NOW = datetime(2026, 12, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NOTHING = timedelta(0)
needs_history = pytest.mark.skipif(not recorded.OBSERVATIONS.is_file(), reason=NO_SHARED)


def replay(url: str, wanted: Rule, start: datetime, end: datetime, **more: timedelta) -> Backtest:
    with read_connection(url) as connection:
        return backtest(
            connection, wanted, catalogue(), start=start, end=end, now=end, **more
        )  # fmt: skip


def kinds(one: Replayed) -> list[Kind]:
    return [event.kind for event in one.notices]


# --- a market made by hand ---------------------------------------------------------------------

CHEAP, EVEN, DEAR = {"h1": "2.5", "a1": "1"}, {"h1": "2.99", "a1": "1"}, {"h1": "4", "a1": "1"}


def test_notices_are_those_of_the_daemon(world: World) -> None:
    wanted = rule(on_start="notify")
    engine = world.alerts(wanted)
    for turn, prices in enumerate([DEAR] * 4 + [CHEAP] * 10 + [EVEN] * 3 + [DEAR] * 12):
        world.poll(5 * turn, prices)
        engine.evaluate(at(5 * turn))
    found = replay(world.url, wanted, at(0), at(5 * 29))
    assert [(str(e.kind), e.suppressed_by) for e in found.as_is.events] == world.events()
    assert kinds(found.as_is) == [Kind.FIRED, Kind.RESOLVED]
    assert found.good == len(found.looks) == 29
    assert found.at(found.as_is.notices[0].at).left is not None


def test_margins_and_durations_are_what_keeps_it_quiet(world: World) -> None:
    # It hovers about the line: 11.96 and 12.04 against 12.
    for turn in range(60):
        world.poll(5 * turn, {"h1": "2.99" if turn % 2 else "3.01", "a1": "1"})
    found = replay(world.url, rule(), at(0), at(300))
    assert kinds(found.as_is) == []
    assert kinds(found.bare) == [Kind.FIRED, Kind.RESOLVED] * 29 + [Kind.FIRED]
    assert found.bare.flaps == 29
    assert found.bare.busiest_month == 59


def test_without_a_poll_there_is_nothing_to_see(world: World) -> None:
    world.poll(0, CHEAP)
    with pytest.raises(NothingToSee, match="no poll"):
        replay(world.url, rule(), at(10), at(100))


def test_what_history_does_not_keep_is_told(world: World) -> None:
    world.poll(0, CHEAP)
    found = replay(world.url, rule(available=True, max_age="1h"), at(-1), at(10))
    assert found.not_kept == ["available", "max_age"]
    assert found.good == 1


def test_too_little_history_suggests_nothing(world: World) -> None:
    for turn in range(40):
        world.poll(5 * turn, CHEAP if turn % 2 else DEAR)
    with pytest.raises(NothingToSee, match="26 looks with data that could be judged, in 0 days"):
        suggest(replay(world.url, rule(), at(0), at(200)), 1)


@pytest.mark.parametrize(
    ("days", "most"), [([], 0), ([0], 1), ([0, 29, 30], 2), ([0, 10, 20, 31, 35], 4)]
)
def test_the_busiest_month_is_that_of_any_thirty_days(days: list[int], most: int) -> None:
    assert most_within([NOW + d * DAY for d in days], 30 * DAY) == most


# --- Vast.ai, as it was --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vast(database_server: TestServer) -> Iterator[Backtest]:
    with database_server.database(migrated=True) as url:
        recorded.record_vast(url)
        yield replay(url, rule(), NOW - 300 * DAY, NOW)


@needs_history
def test_vast_crosses_the_line_every_few_days(vast: Backtest) -> None:
    ratios = list(recorded.ratios())
    crossed = sum((a <= 1) is not (b <= 1) for (_, a), (_, b) in pairwise(ratios))
    assert (len(ratios), crossed) == (47, 10)
    with_margins, without = len(vast.as_is.notices), len(vast.bare.notices)
    print(f"Vast.ai, {vast.good} days: {without} notices without margins, {with_margins} with")
    assert vast.good == len(ratios)
    assert without == crossed + 1  # it was true when it was first seen
    assert with_margins == 6
    assert (vast.bare.flaps, vast.as_is.flaps) == (3, 0)
    # At every look with data the figure is that of the table itself.
    by_day = dict(ratios)
    for moment, one in zip(vast.seen.at, vast.seen.found, strict=True):
        value = one.sample.value
        assert (value is None) is (moment not in by_day)
        assert value is None or abs(value - by_day[moment]) < Decimal("1e-6")


@needs_history
@pytest.mark.parametrize("most", [1, 2, 4])
def test_suggested_margins_keep_vast_to_so_many_a_month(vast: Backtest, most: int) -> None:
    found = suggest(vast, most)
    assert found is not None
    margins, policy = found.margins, found.policy
    print(
        f"at most {most} a month: enter {margins.enter_percent} %, exit {margins.exit_percent} %,"
        f" min_duration {policy.min_duration}, keep_firing {policy.keep_firing};"
        f" earlier {len(found.earlier.notices)} in {found.earlier.judged.days} days,"
        f" later {len(found.later.notices)} in {found.later.judged.days} days"
    )
    assert 0 < found.earlier.per_month <= most
    assert found.later.per_month <= most  # it may not: then the command says so
    assert found.earlier.end == found.later.start
    again = replayed_with(vast, found)
    assert [e.at for e in again.notices] == [
        e.at for part in (found.earlier, found.later) for e in part.notices
    ]


def replayed_with(vast: Backtest, found: Suggestion) -> Replayed:
    """The whole of it under the settings that were found."""

    mine = replace(vast.rule, policy=found.policy)
    events = tuple(events_of(found.policy, watch_of(mine, vast.seen.found, vast.looks)))
    return Replayed(found.policy, vast.start, vast.end, vast.as_is.judged, events)


@needs_history
def test_no_smaller_settings_would_have_done(vast: Backtest) -> None:

    found, split = suggest(vast, 1), later_from(vast)
    assert found is not None
    before: list[Policy] = []
    for setting in settings_tried(vast.rule):
        if setting.policy == found.policy:
            break
        before.append(setting.policy)
    assert len(before) == found.tried - 1
    for policy in before[:: max(1, len(before) // 25)]:
        mine = replace(vast.rule, policy=policy)
        watch = watch_of(mine, vast.seen.found[:split], vast.looks[:split])
        sent = [e for e in events_of(policy, watch) if e.sent and "data" not in e.kind]
        assert len(sent) != 1

"""A rule over recorded history: what it would have said, and which margins would keep it quiet."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise, product
from typing import TYPE_CHECKING, NamedTuple

from tracker.alert.cadence import MISSED, STEADY
from tracker.alert.evaluate import Evaluation, judged_by
from tracker.alert.past import Seen, look_back, not_kept
from tracker.alert.rules import Rule
from tracker.domain.gpu import Catalogue
from tracker.domain.rule.condition import (
    CostDrops,
    Margins,
    NewOfferBelow,
    ProviderStale,
    policy_for,
)
from tracker.domain.rule.machine import step_for
from tracker.domain.rule.replay import Look, Watch, replay_looks
from tracker.domain.rule.state import State
from tracker.domain.rule.types import Event, Health, Kind, Policy, Sample
from tracker.report.measured import measured

if TYPE_CHECKING:
    import psycopg

MONTH = timedelta(days=30)
FLAP = timedelta(days=7)
NONE = timedelta(0)
LOOKED = timedelta(days=3)  # what a look tells of the time after it, at most
_OF_DATA = (Kind.DATA_PROBLEM, Kind.DATA_OK)

# What is tried, from each step to the next.
ENTER_PERCENT = tuple(map(Decimal, (0, 2, 5, 10, 20)))
EXIT_PERCENT = tuple(map(Decimal, (0, 2, 5, 10, 20, 50)))
DURATIONS = (
    NONE, timedelta(minutes=30), timedelta(hours=2), timedelta(hours=6), timedelta(days=1),
    timedelta(days=3), timedelta(days=7),
)  # fmt: skip
EARLIER = 2 / 3  # of the looks with good data are searched, the rest is to check on
LEAST_LOOKS = 20  # with good data, in the earlier part
LEAST_TIME = timedelta(days=14)


class NothingToSee(Exception):
    """There is no history to replay, or too little; the message says of what."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a rule under ``policy`` would have said, from ``start`` until ``end``.

    ``judged``: for how much of that there was data that could be judged.
    """

    policy: Policy
    start: datetime
    end: datetime
    judged: timedelta
    events: tuple[Event, ...]

    @property
    def notices(self) -> list[Event]:
        """The notices of the condition itself."""
        return [event for event in self.events if event.sent and event.kind not in _OF_DATA]

    @property
    def data_notices(self) -> int:
        """How many notices would have been about bad data, and its end."""
        return sum(event.sent and event.kind in _OF_DATA for event in self.events)

    def count(self, kind: Kind) -> int:
        """How many events of *kind* there would have been, sent or not."""
        return sum(event.kind is kind for event in self.events)

    @property
    def flaps(self) -> int:
        """How often it fired again within FLAP of the end of a firing."""
        ended: datetime | None = None
        flaps = 0
        for event in self.events:
            if event.kind is Kind.RESOLVED:
                ended = event.at
            elif event.kind is Kind.FIRED and ended is not None and event.at - ended < FLAP:
                flaps += 1
        return flaps

    @property
    def per_month(self) -> Decimal:
        """Notices in 30 days with data that could be judged: on average, and in less than that
        all of them."""
        return round(Decimal(len(self.notices)) * Decimal(MONTH / max(self.judged, MONTH)), 6)

    @property
    def busiest_month(self) -> int:
        """The most notices in any 30 days."""
        return most_within([event.at for event in self.notices], MONTH)


def most_within(moments: Sequence[datetime], window: timedelta) -> int:
    """The most of *moments*, which rise, in any half-open interval as long as *window*."""
    most = first = 0
    for last, at in enumerate(moments):
        while at - moments[first] >= window:
            first += 1
        most = max(most, last - first + 1)
    return most


@dataclass(frozen=True, slots=True)
class Backtest:
    """The answer. ``bare`` is the rule without margins, durations, counts and cooldown.

    ``good`` counts the looks with data that could be judged; ``not_kept`` are filters of the rule
    that history cannot answer, and that left nothing out.
    """

    rule: Rule
    seen: Seen
    looks: Sequence[Look]
    start: datetime
    end: datetime
    as_is: Replayed
    bare: Replayed
    good: int
    not_kept: Sequence[str]

    def at(self, moment: datetime) -> Evaluation:
        """What the rule found at the look of *moment*."""
        return self.seen.found[bisect_left(self.seen.at, moment)]


class Suggestion(NamedTuple):
    """The smallest settings that keep a rule to so many notices a month.

    ``earlier`` is the part they were found over, ``later`` the one they were checked on; ``tried``
    counts the settings looked at.
    """

    margins: Margins
    policy: Policy
    earlier: Replayed
    later: Replayed
    tried: int


def backtest(
    connection: psycopg.Connection[object],
    rule: Rule,
    catalogue: Catalogue,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    every: timedelta | None = None,
) -> Backtest:
    """Replay *rule* over what was recorded in [start, end).

    It is looked at after each poll, or *every* so often where that is given. Raises NothingToSee.
    """
    if rule.job is not None:
        rule = replace(rule, job=measured(connection, rule.job))
    seen = look_back(connection, rule, catalogue, start=start, end=end, now=now, every=every)
    if not seen.at:
        raise NothingToSee("no poll is recorded in that time")
    looks = list(_paced(seen.at))
    end = min(end, now)
    judged = _judged(seen, seen.at[0], end)
    as_is, bare = (
        Replayed(
            policy, seen.at[0], end, judged,
            tuple(events_of(policy, watch_of(replace(rule, policy=policy), seen.found, looks))),
        )
        for policy in (rule.policy, bare_policy(rule))
    )  # fmt: skip
    good = sum(one.sample.health is Health.GOOD for one in seen.found)
    return Backtest(rule, seen, looks, seen.at[0], end, as_is, bare, good, list(not_kept(rule)))


def _judged(seen: Seen, start: datetime, end: datetime) -> timedelta:
    """For how long within [start, end) the last look had data that could be judged: of two looks
    that are further apart than LOOKED, for that long."""
    edges = pairwise([*seen.at, max(end, seen.at[-1])])
    return sum(
        (
            max(min(following, at + LOOKED, end) - max(at, start), NONE)
            for (at, following), found in zip(edges, seen.found, strict=True)
            if found.sample.health is Health.GOOD
        ),
        NONE,
    )


def bare_policy(rule: Rule) -> Policy:
    """The policy of *rule* without anything that keeps it from speaking at once."""
    edges = policy_for(rule.condition, Margins(Decimal(0), Decimal(0)))
    return replace(
        rule.policy, enter=edges.enter, exit=edges.exit, min_duration=NONE, min_count=1,
        keep_firing=NONE, cooldown=NONE,
    )  # fmt: skip


def _paced(at: Sequence[datetime]) -> Iterator[Look]:
    """The looks, with the longest gap that is still one's pace (see ``cadence``)."""
    passed = [b - a for a, b in pairwise(at)]
    for number, moment in enumerate(at):
        # As the engine does: the pace is that of the looks before this one.
        known = passed[max(0, number - 1 - STEADY) : max(0, number - 1)]
        yield Look(moment, MISSED * min(known) if len(known) == STEADY else NONE)


def watch_of(rule: Rule, found: Sequence[Evaluation], looks: Sequence[Look]) -> Watch[Evaluation]:
    """What *rule* has to judge at each look."""
    judged: dict[int, Evaluation] = {}
    mine = [judged.get(id(e)) or judged.setdefault(id(e), judged_by(rule, e)) for e in found]
    return Watch(looks, mine)


def events_of(policy: Policy, watch: Watch[Evaluation]) -> Iterator[Event]:
    """What comes of *watch* under *policy*, by which its evaluations must have been judged."""
    if not watch.seen:
        return iter(())

    def sample(evaluation: Evaluation, state: State) -> Sample:
        return evaluation.sample_for(state)

    return replay_looks(policy, watch, sample, by=step_for(watch.seen[0].rule.condition))


def has_margins(rule: Rule) -> bool:
    """Whether margins mean anything to *rule*."""
    return not isinstance(rule.condition, ProviderStale | NewOfferBelow)


def suggest(tested: Backtest, most: int) -> Suggestion | None:
    """The smallest margins and durations with at most *most* notices a month (``per_month``).

    They are searched over the earlier two thirds of the looks with good data, and replayed on to
    the end to see how they do in the rest. The smallest are those that are the fewest steps up
    their ladders together; of equal ones those that wait for less time, then those that fire
    earlier. Settings under which the rule says nothing at all are the last resort. What else the
    rule sets stays.
    None where no settings are quiet enough. Raises NothingToSee for too short an earlier part.
    """
    looks, found = tested.looks, tested.seen.found
    split = later_from(tested)
    silent = None
    allowed = int(most * max(_judged(tested.seen, tested.start, looks[split].at) / MONTH, 1))
    watches: dict[Decimal, Watch[Evaluation]] = {}
    for tried, setting in enumerate(settings_tried(tested.rule), 1):
        edge = setting.policy.enter
        if edge not in watches:
            mine = replace(tested.rule, policy=setting.policy)
            watches[edge] = watch_of(mine, found[:split], looks[:split])
        said = _said(events_of(setting.policy, watches[edge]), allowed)
        if said:
            return _suggestion(tested, setting, looks[split].at, tried)
        if said == 0 and silent is None:
            silent = setting
    return None if silent is None else _suggestion(tested, silent, looks[split].at, tried)


def _suggestion(tested: Backtest, setting: Setting, middle: datetime, tried: int) -> Suggestion:
    rule = replace(tested.rule, policy=setting.policy)
    events = list(events_of(setting.policy, watch_of(rule, tested.seen.found, tested.looks)))
    earlier, later = (
        Replayed(
            setting.policy, start, end, _judged(tested.seen, start, end),
            tuple(event for event in events if start <= event.at < end),
        )
        for start, end in ((tested.start, middle), (middle, tested.end))
    )  # fmt: skip
    return Suggestion(setting.margins, setting.policy, earlier, later, tried)


def later_from(tested: Backtest) -> int:
    """The look at which the later part begins."""
    looks = tested.looks
    good = [i for i, e in enumerate(tested.seen.found) if e.sample.health is Health.GOOD]
    count = int(len(good) * EARLIER)
    long = looks[good[count]].at - tested.start if good else NONE
    if count < LEAST_LOOKS or long < LEAST_TIME:
        raise NothingToSee(
            f"too little history to suggest anything: its earlier two thirds hold {count} looks"
            f" with data that could be judged, in {long.days} days; it takes {LEAST_LOOKS} in"
            f" {LEAST_TIME.days}"
        )
    return good[count]


class Setting(NamedTuple):
    """One of the settings tried."""

    margins: Margins
    policy: Policy


def settings_tried(rule: Rule) -> Iterator[Setting]:
    """What is tried, the smallest first."""
    # A drop names its own edge.
    enters = (Decimal(0),) if isinstance(rule.condition, CostDrops) else ENTER_PERCENT
    lengths = range(len(DURATIONS)), range(len(DURATIONS))
    places = product(*lengths, range(len(enters)), range(len(EXIT_PERCENT)))
    for hold, keep, enter, out in sorted(places, key=lambda place: (sum(place), place)):
        margins = Margins(enters[enter], EXIT_PERCENT[out])
        edges = policy_for(rule.condition, margins)
        policy = replace(
            rule.policy, enter=edges.enter, exit=edges.exit, min_duration=DURATIONS[hold],
            keep_firing=DURATIONS[keep],
        )  # fmt: skip
        yield Setting(margins, policy)


def _said(events: Iterator[Event], allowed: int) -> int | None:
    """How many notices of the condition there are; None, at once, where more than *allowed*."""
    count = 0
    for event in events:
        count += event.sent and event.kind not in _OF_DATA
        if count > allowed:
            return None
    return count

"""A series of the past through a rule: what would it have said?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from tracker.domain.rule.machine import Step, step
from tracker.domain.rule.state import ZERO, State
from tracker.domain.rule.turn import utc
from tracker.domain.rule.types import Event, Health, Phase, Policy, Sample


def replay(
    policy: Policy,
    points: Iterable[tuple[datetime, Decimal | None]],
    *,
    interval: timedelta,
    hold: timedelta,
    start: datetime,
    end: datetime,
) -> list[Event]:
    """The events of a rule evaluated at *start* and every *interval* after it, up to *end*.

    *points* are observations of the ratio, in any order (of two at one time the last counts). One
    holds until the next, but no longer than *hold*; beyond it the sample is STALE, before the
    first one and while a point's value is None it is NO_DATA. Nothing silences the rule.
    ValueError for an interval that is not above 0, or above the policy's ``max_gap``: such a rule
    would never stop waiting.
    """
    if not ZERO < interval <= policy.max_gap:
        raise ValueError(f"the interval must be above 0 and not above {policy.max_gap}")
    series = sorted(((utc(at), value) for at, value in points), key=lambda point: point[0])
    now, end = utc(start), utc(end)
    state, events, position = State(), list[Event](), 0
    observed, stale_after = _observation(None), end
    while now <= end:
        while position < len(series) and series[position][0] <= now:
            at, value = series[position]
            observed, stale_after = _observation(value), at + hold
            position += 1
        sample = STALE if now > stale_after else observed
        state, new = step(policy, state, sample, now)
        events += new
        steps = 1
        if _settled(policy, state):
            # What follows is the same until the sample changes: on to the last step before that.
            steps = (end - now) // interval
            if position < len(series):
                steps = min(steps, -((now - series[position][0]) // interval) - 1)
            if sample is not STALE:
                steps = min(steps, (stale_after - now) // interval)
        now += max(steps, 1) * interval
    return events


S = TypeVar("S")


class Look(NamedTuple):
    """An evaluation of the past: when, and how long a time without good data may then be."""

    at: datetime
    max_gap: timedelta


class Watch(Generic[S]):
    """A rule's looks, in their order, with what was there to see at each of them.

    The same object seen again means that nothing had changed. Raises ValueError when there are not
    as many looks as things seen, and for looks that do not rise.
    """

    def __init__(self, looks: Sequence[Look], seen: Sequence[S]) -> None:
        if len(looks) != len(seen) or any(a.at >= b.at for a, b in pairwise(looks)):
            raise ValueError("there must be one thing seen for each look, and looks must rise")
        self.looks, self.seen = looks, seen
        self.last = list(range(len(seen)))  # of the run of looks at which the same was seen
        for i in range(len(seen) - 2, -1, -1):
            if seen[i] is seen[i + 1]:
                self.last[i] = self.last[i + 1]


def replay_looks(
    policy: Policy, watch: Watch[S], sample_of: Callable[[S, State], Sample], *, by: Step = step
) -> Iterator[Event]:
    """The events of a rule that was evaluated at each look of *watch*.

    *sample_of* makes a sample of what was seen, for the rule as it stands. Looks at which nothing
    can come of what they see are passed over. Nothing silences the rule.
    """
    state, i, of_gap = State(), 0, dict[timedelta, Policy]()
    looks, seen, last = watch.looks, watch.seen, watch.last
    while i < len(looks):
        gap = max(policy.max_gap, looks[i].max_gap)
        paced = of_gap.get(gap) or of_gap.setdefault(gap, replace(policy, max_gap=gap))
        state, new = by(paced, state, sample_of(seen[i], state), looks[i].at)
        yield from new
        i = last[i] if i < last[i] and not new and _settled(policy, state) else i + 1


STALE = Sample(Health.STALE, reason="the last observation no longer holds")


def _observation(value: Decimal | None) -> Sample:
    if value is None:
        return Sample(Health.NO_DATA, reason="there is no observation")
    return Sample(Health.GOOD, value)


def _settled(policy: Policy, state: State) -> bool:
    """Whether the same sample, again and again, would lead to no event."""
    if state.offers or state.candidate is not None or state.label != state.told_label:
        return False
    if state.health is not Health.GOOD:
        return state.health_told
    if state.phase is Phase.OK:
        return True
    return state.phase is Phase.FIRING and state.notified and policy.remind_every is None

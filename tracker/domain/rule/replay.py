"""A series of the past through a rule: what would it have said?"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal

from tracker.domain.rule.machine import step
from tracker.domain.rule.state import ZERO, State
from tracker.domain.rule.turn import utc
from tracker.domain.rule.types import Event, Health, Policy, Sample


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
    first one and while a point's value is None it is NO_DATA. ValueError for an interval that is
    not above 0, or above the policy's ``max_gap``: such a rule would never stop waiting.
    """
    if not ZERO < interval <= policy.max_gap:
        raise ValueError(f"the interval must be above 0 and not above {policy.max_gap}")
    series = sorted(((utc(at), value) for at, value in points), key=lambda point: point[0])
    now, end = utc(start), utc(end)
    state, events, position = State(), list[Event](), 0
    sample, stale_after = _sample(None), end
    while now <= end:
        while position < len(series) and series[position][0] <= now:
            observed_at, value = series[position]
            sample, stale_after = _sample(value), observed_at + hold
            position += 1
        state, new = step(policy, state, _STALE if now > stale_after else sample, now)
        events += new
        now += interval
    return events


_STALE = Sample(Health.STALE, reason="the last observation no longer holds")


def _sample(value: Decimal | None) -> Sample:
    if value is None:
        return Sample(Health.NO_DATA, reason="there is no observation")
    return Sample(Health.GOOD, value)

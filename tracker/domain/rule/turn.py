"""What every kind of rule does with a sample, whatever it watches: clocks, gaps and health."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tracker.domain.rule.state import ZERO, Firing, Mark, State
from tracker.domain.rule.types import Event, Health, Kind, Phase, Policy, Sample

COOLDOWN = "cooldown"
BASELINE = "baseline"
UNSENT_FIRING = "unsent firing"
UNSENT_CHANGE = "unsent change"
UNSENT_PROBLEM = "unsent problem"
SEND_RESOLVED = "send_resolved"


def utc(at: datetime) -> datetime:
    """*at* in UTC. ValueError without a time zone: it could be any hour."""
    if at.tzinfo is None:
        raise ValueError("a rule is stepped with an aware time")
    return at.astimezone(UTC)


def tell_owed(
    state: State, now: datetime, value: Decimal | None = None
) -> tuple[State, tuple[Event, ...]]:
    """Tell the end that a silence has kept back, if there is one: nothing silences it now."""
    owed = state.owed
    if owed is None:
        return state, ()
    event = Event(
        kind=owed.kind,
        seq=state.seq + 1,
        at=now,
        phase_from=state.phase,
        phase_to=state.phase,
        firing_seq=owed.firing.seq,
        value=value,
        reason=owed.reason or f"its notice had been kept back by {owed.hidden_by}",
        firing_since=owed.firing.since,
        firing_until=owed.at,
        best=owed.firing.best,
        worst=owed.firing.worst,
    )
    return replace(state, seq=event.seq, owed=None), (event,)


class Turn:
    """One sample on its way through a rule.

    ``judged``: the sample may move the rule. It may not when it is not GOOD, or when the clock has
    not moved on since the last one. ``passed``: the time since the last sample that counts;
    ``gap``: how long there was no good sample, where that was longer than ``max_gap``.
    """

    def __init__(
        self, policy: Policy, state: State, sample: Sample, now: datetime, silence: str | None
    ) -> None:
        self.policy = policy
        self.state = state
        self.sample = sample
        self.now = utc(now)
        self.silence = silence
        self.events: list[Event] = []
        self.judged = False
        self.passed = ZERO
        self.gap: timedelta | None = None
        self._begin()

    def result(self) -> tuple[State, tuple[Event, ...]]:
        return self.state, tuple(self.events)

    def set(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    def say(
        self,
        kind: Kind,
        *,
        to: Phase | None = None,
        suppressed_by: str | None = None,
        reason: str | None = None,
        firing: Firing | None = None,
        **more: Any,
    ) -> Event:
        """Record an event of this moment, and enter the phase *to*."""
        state = self.state
        event = Event(
            kind=kind,
            seq=state.seq + 1,
            at=self.now,
            phase_from=state.phase,
            phase_to=to or state.phase,
            firing_seq=firing.seq if firing else None,
            value=self.sample.value,
            suppressed_by=suppressed_by,
            reason=reason,
            firing_since=firing.since if firing else None,
            best=firing.best if firing else None,
            worst=firing.worst if firing else None,
            **more,
        )
        self.events.append(event)
        changes: dict[str, Any] = {"seq": event.seq}
        if to is not None and to is not state.phase:
            changes.update(phase=to, since=self.now)
        self.set(**changes)
        return event

    def cooling(self) -> bool:
        """Whether a notice would come too soon after the last one."""
        last = self.state.noticed_at
        return last is not None and self.now - last < self.policy.cooldown

    def kept_back_by(self) -> str | None:
        """What keeps a notice back now. A silence comes first: its end is told."""
        return self.silence or (COOLDOWN if self.cooling() else None)

    def _begin(self) -> None:
        before = self.state.evaluated_at
        if before == self.now:
            return  # the same evaluation once more: it may neither count nor be told twice
        wound_back = before is not None and self.now < before
        if wound_back:
            self._wind_back()
        if self.silence is None:
            self.state, late = tell_owed(self.state, self.now, self.sample.value)
            self.events += late
        self._health()
        if self.sample.health is not Health.GOOD:
            self.set(evaluated_at=self.now, held_until=None)
            return
        if wound_back:
            self.set(evaluated_at=self.now, last_good_at=self.now, held_until=None)
            return
        last = self.state.last_good_at
        if last is not None and self.now - last > self.policy.max_gap:
            self.gap = self.now - last
            self._wait_anew()
        elif self.state.held_until is not None:
            self.passed = self.now - self.state.held_until
        self.judged = True
        self.set(evaluated_at=self.now, last_good_at=self.now, held_until=self.now)

    def _wind_back(self) -> None:
        """The clock says less than at the last evaluation: nothing may lie in the future, or a
        cooldown would last until the clock is there again."""
        state, now = self.state, self.now
        jump = now - (state.evaluated_at or now)
        if -jump > self.policy.max_gap:
            self._wait_anew()
        firing = state.firing and replace(
            state.firing,
            since=min(state.firing.since, now),
            noticed_at=min(state.firing.noticed_at, now),
            acknowledged_at=_not_after(now, state.firing.acknowledged_at),
        )
        owed = state.owed and replace(
            state.owed,
            at=min(state.owed.at, now),
            firing=replace(state.owed.firing, since=min(state.owed.firing.since, now)),
        )
        self.set(
            since=_not_after(now, state.since),
            last_good_at=_not_after(now, state.last_good_at),
            held_until=None,
            health_since=_not_after(now, state.health_since),
            health_waiting_since=_not_after(now, state.health_waiting_since),
            noticed_at=_not_after(now, state.noticed_at),
            firing=firing,
            owed=owed,
        )

    def _wait_anew(self) -> None:
        offers = self.state.offers
        if offers:
            offers = {key: seen for key, seen in offers.items() if seen.mark is not Mark.WAITING}
        self.set(count=0, held=ZERO, held_until=None, offers=offers)

    def _health(self) -> None:
        """Bad data is told after its own time, once, and its end once: one that a silence keeps
        back when that is over, unless it is bad again and that is told first."""
        state, sample = self.state, self.sample
        if sample.health is Health.GOOD:
            believed = state.health_notified or state.health_end_owed  # that it is bad
            if state.health_told:
                unsent = None if believed else UNSENT_PROBLEM
                self.say(Kind.DATA_OK, suppressed_by=unsent or self.silence)
                self.set(health_end_owed=believed and self.silence is not None)
            elif state.health_end_owed and self.silence is None:
                self.say(Kind.DATA_OK, reason="its notice had been kept back")
                self.set(health_end_owed=False)
            if state.health is not Health.GOOD or state.health_told:
                self.set(
                    health=Health.GOOD,
                    health_reason=None,
                    health_since=None,
                    health_waiting_since=None,
                    health_told=False,
                    health_notified=False,
                )
            return
        waiting_since = state.health_waiting_since or self.now
        if state.evaluated_at and self.now - state.evaluated_at > self.policy.max_gap:
            waiting_since = self.now  # nobody looked in between: that was no bad data
        self.set(
            health=sample.health,
            health_reason=sample.reason,
            health_since=state.health_since or self.now,
            health_waiting_since=waiting_since,
        )
        due = self.now - waiting_since >= self.policy.health_after
        hidden = state.health_told and not state.health_notified
        if (due and not state.health_told) or (hidden and self.silence is None):
            self.say(Kind.DATA_PROBLEM, suppressed_by=self.silence, reason=sample.reason)
            owed = state.health_end_owed and self.silence is not None
            self.set(health_told=True, health_notified=self.silence is None, health_end_owed=owed)


def _not_after(now: datetime, at: datetime | None) -> datetime | None:
    return None if at is None else min(at, now)

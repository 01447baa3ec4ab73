"""The state machine of a rule: a sample moves it, and what happened comes out. Pure.

``TABLE`` is the one place that says where a rule goes. What it does not say, in short:

* Only GOOD samples are judged. Any other one freezes the rule: no phase changes, nothing counts,
  nothing is reset. The time around such a sample does not count either.
* PENDING ends in FIRING when the condition has held for ``min_duration`` and for ``min_count``
  good evaluations, RECOVERING ends in OK when it has been clear for ``keep_firing``. Time counts
  from one good sample to the next. After more than ``max_gap`` without one, waiting starts anew.
* Both need an unbroken run: PENDING ends silently as soon as the value is above ``enter``, and a
  rule that recovers fires again (without a notice) as soon as it is below ``exit``.
* A firing has at most one notice, FIRED or STILL_FIRING, and exactly one end, RESOLVED or CLOSED.
  A silence or the cooldown keeps FIRED back; when that has passed while it still fires,
  STILL_FIRING is sent instead. A firing that nobody was told of ends untold, too.
* The end of a firing that was told is told: one that a silence keeps back, when that is over, as
  another event of the same kind. Then the state of the data does not matter, nor does an edit.
* A clock that goes back moves nothing: such a sample is not judged, and no time counts.
* A second sample of the same moment changes nothing at all.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple, Protocol

from tracker.domain.rule.changes import step_change
from tracker.domain.rule.condition import CheapestChanges, Condition, NewOfferBelow
from tracker.domain.rule.found import step_found
from tracker.domain.rule.state import ZERO, Firing, Owed, State
from tracker.domain.rule.turn import (
    BASELINE,
    COOLDOWN,
    SEND_RESOLVED,
    UNSENT_FIRING,
    Turn,
    tell_owed,
    utc,
)
from tracker.domain.rule.types import Event, Health, Kind, Phase, Policy, Sample

__all__ = [
    "TABLE",
    "Firing",
    "State",
    "Step",
    "Zone",
    "acknowledge",
    "edited",
    "late_end",
    "step",
    "step_change",
    "step_for",
    "step_found",
    "zone_of",
]


class Zone(StrEnum):
    """Where a sample lies. FROZEN: it may not be judged."""

    ENTER = "enter"  # value <= enter
    BETWEEN = "between"  # the dead band
    EXIT = "exit"  # value >= exit
    FROZEN = "frozen"


class Row(NamedTuple):
    """Where a rule goes at once, what that is called (None: it stays where it is), and where it
    goes on to when its time of waiting is over (which may be at once as well)."""

    to: Phase
    says: Kind | None = None
    then: Phase | None = None


_OK, _PENDING, _FIRING, _RECOVERING = Phase.OK, Phase.PENDING, Phase.FIRING, Phase.RECOVERING

TABLE: dict[tuple[Phase, Zone], Row] = {
    (_OK, Zone.ENTER): Row(_PENDING, Kind.PENDING, then=_FIRING),
    (_OK, Zone.BETWEEN): Row(_OK),
    (_OK, Zone.EXIT): Row(_OK),
    (_OK, Zone.FROZEN): Row(_OK),
    (_PENDING, Zone.ENTER): Row(_PENDING, then=_FIRING),
    (_PENDING, Zone.BETWEEN): Row(_OK, Kind.PENDING_ENDED),
    (_PENDING, Zone.EXIT): Row(_OK, Kind.PENDING_ENDED),
    (_PENDING, Zone.FROZEN): Row(_PENDING),
    (_FIRING, Zone.ENTER): Row(_FIRING),
    (_FIRING, Zone.BETWEEN): Row(_FIRING),
    (_FIRING, Zone.EXIT): Row(_RECOVERING, Kind.RECOVERING, then=_OK),
    (_FIRING, Zone.FROZEN): Row(_FIRING),
    (_RECOVERING, Zone.ENTER): Row(_FIRING, Kind.RELAPSED),
    (_RECOVERING, Zone.BETWEEN): Row(_FIRING, Kind.RELAPSED),
    (_RECOVERING, Zone.EXIT): Row(_RECOVERING, then=_OK),
    (_RECOVERING, Zone.FROZEN): Row(_RECOVERING),
}


class Step(Protocol):
    """A step of any kind of rule. *silence* names the silence that matches the rule now; it is
    recorded as it is ("silence 12")."""

    def __call__(
        self,
        policy: Policy,
        state: State,
        sample: Sample,
        now: datetime,
        *,
        silence: str | None = None,
    ) -> tuple[State, tuple[Event, ...]]: ...


def step_for(condition: Condition) -> Step:
    """The step of a rule with *condition*."""
    match condition:
        case CheapestChanges():
            return step_change
        case NewOfferBelow():
            return step_found
        case _:
            return step


def zone_of(policy: Policy, value: Decimal) -> Zone:
    """Where a good *value* lies. Both edges belong to their side."""
    if value <= policy.enter:
        return Zone.ENTER
    if value >= policy.exit:
        return Zone.EXIT
    return Zone.BETWEEN


def step(
    policy: Policy, state: State, sample: Sample, now: datetime, *, silence: str | None = None
) -> tuple[State, tuple[Event, ...]]:
    """The rule after *sample* of *now*, and what happened, for a rule that watches a number.

    A GOOD sample whose value is not a number above 0 counts as bad: nothing costs nothing.
    """
    turn = Turn(policy, state, _checked(sample), now, silence)
    value = turn.sample.value if turn.judged else None
    zone = Zone.FROZEN if value is None else zone_of(policy, value)
    _move(turn, zone, value)
    return turn.result()


def acknowledge(state: State, now: datetime, by: str) -> tuple[State, tuple[Event, ...]]:
    """Somebody has taken note of the firing that goes on: no more reminders of it.

    Nothing happens when nothing fires, or when it was acknowledged before.
    """
    firing, now = state.firing, utc(now)
    if firing is None or firing.acknowledged_at is not None:
        return state, ()
    event = _event(state, Kind.ACKNOWLEDGED, now, to=state.phase, reason=by)
    firing = replace(firing, acknowledged_at=now, acknowledged_by=by)
    return replace(state, seq=event.seq, firing=firing), (event,)


def late_end(
    state: State, now: datetime, *, silence: str | None = None
) -> tuple[State, tuple[Event, ...]]:
    """Tell the end that an earlier silence kept back, unless *silence* matches now: for a rule that
    is not stepped any more."""
    return (state, ()) if silence else tell_owed(state, utc(now))


def edited(
    state: State, now: datetime, *, reason: str = "edited", silence: str | None = None
) -> tuple[State, tuple[Event, ...]]:
    """The rule was edited, disabled or removed (*reason* says which): it starts from nothing.

    A firing that somebody was told of is CLOSED with a notice, whatever the rule says of notices
    of its end: that was not the end of it. Only the numbering, what was told about bad data, and
    an end that is still to be told outlive an edit; a cooldown does not, for it was about another
    condition.
    """
    now = utc(now)
    state, events = late_end(state, now, silence=silence)
    owed, firing = state.owed, state.firing
    if firing is not None:
        unsent = None if firing.notified else UNSENT_FIRING
        hidden = unsent or silence
        events += (_event(state, Kind.CLOSED, now, to=_OK, reason=reason, suppressed_by=hidden),)
        if hidden and not unsent:
            owed = Owed(Kind.CLOSED, now, firing, hidden, reason)
    elif state.phase is _PENDING:
        events += (_event(state, Kind.PENDING_ENDED, now, to=_OK, reason=reason),)
    seq = events[-1].seq if events else state.seq
    fresh = State(
        since=now,
        seq=seq,
        evaluated_at=state.evaluated_at,
        owed=owed,
        health_end_owed=state.health_end_owed,
    )
    if state.health_told:
        fresh = replace(
            fresh,
            health=state.health,
            health_reason=state.health_reason,
            health_since=state.health_since,
            health_waiting_since=state.health_waiting_since,
            health_told=True,
            health_notified=state.health_notified,
        )
    return fresh, events


def _event(
    state: State,
    kind: Kind,
    now: datetime,
    *,
    to: Phase,
    reason: str,
    suppressed_by: str | None = None,
) -> Event:
    """An event that no sample led to."""
    firing = state.firing
    return Event(
        kind=kind,
        seq=state.seq + 1,
        at=now,
        phase_from=state.phase,
        phase_to=to,
        firing_seq=state.firing_seq,
        suppressed_by=suppressed_by,
        reason=reason,
        firing_since=state.firing_since,
        best=firing.best if firing else None,
        worst=firing.worst if firing else None,
    )


def _checked(sample: Sample) -> Sample:
    if sample.health is not Health.GOOD:
        return replace(sample, value=None)
    value = sample.value
    if value is None:
        return replace(sample, health=Health.ERROR, reason="the evaluation gave no value")
    if not value.is_finite() or value <= 0:
        reason = f"the evaluation gave {value}, which is no ratio of two costs"
        return replace(sample, health=Health.SUSPECT, value=None, reason=reason)
    return sample


def _move(turn: Turn, zone: Zone, value: Decimal | None) -> None:
    """Follow the table. *value* is None when FROZEN."""
    if not turn.state.started and zone is not Zone.FROZEN:
        turn.set(started=True, from_start=zone is Zone.ENTER)
    state = turn.state
    row = TABLE[state.phase, zone]
    arrives = row.to is not state.phase
    if row.then is not None and value is not None:
        _wait(turn, row, value, arrives=arrives)
    elif row.says is not None:
        turn.say(row.says, to=row.to, firing=state.firing)
        turn.set(count=0, held=ZERO, from_start=False)
    if turn.state.phase is _FIRING and value is not None:
        _go_on(turn, value)


def _wait(turn: Turn, row: Row, value: Decimal, *, arrives: bool) -> None:
    """Count one more evaluation, and go on to where the row leads when that was enough."""
    state = turn.state
    count = 1 if arrives else state.count + 1
    held = ZERO if arrives else state.held + turn.passed
    if _over(turn.policy, row.to, count, held):
        turn.set(count=0, held=ZERO)
        if row.then is _FIRING:
            _fire(turn, value)
        else:
            _resolve(turn)
        return
    if arrives and row.says is not None:
        turn.say(row.says, to=row.to, firing=state.firing)
    elif turn.gap is not None:
        reason = f"waiting starts anew: no good data for {turn.gap}"
        turn.say(WAITS[row.to], firing=state.firing, reason=reason)
    turn.set(count=count, held=held)


WAITS = {_PENDING: Kind.PENDING, _RECOVERING: Kind.RECOVERING}


def _over(policy: Policy, phase: Phase, count: int, held: timedelta) -> bool:
    """Whether the rule has waited long enough in *phase*."""
    if phase is _PENDING:
        return held >= policy.min_duration and count >= policy.min_count
    return held >= policy.keep_firing


def _fire(turn: Turn, value: Decimal) -> None:
    hidden = turn.kept_back_by()
    if turn.state.from_start and turn.policy.on_start == "baseline":
        hidden = BASELINE
    firing = Firing(
        seq=turn.state.seq + 1,
        since=turn.now,
        best=value,
        worst=value,
        notified=hidden is None,
        hidden_by=hidden,
        noticed_at=turn.now,
    )
    turn.say(Kind.FIRED, to=_FIRING, firing=firing, suppressed_by=hidden)
    turn.set(firing=firing, from_start=False)
    if hidden is None:
        turn.set(noticed_at=turn.now)


def _resolve(turn: Turn) -> None:
    firing = turn.state.firing
    hidden: str | None = None
    if firing is not None and not firing.notified:
        hidden = UNSENT_FIRING
    elif not turn.policy.send_resolved:
        hidden = SEND_RESOLVED
    turn.say(Kind.RESOLVED, to=_OK, firing=firing, suppressed_by=hidden or turn.silence)
    if firing is not None and hidden is None and turn.silence:
        turn.set(owed=Owed(Kind.RESOLVED, turn.now, firing, turn.silence))
    turn.set(firing=None)


def _go_on(turn: Turn, value: Decimal) -> None:
    """A firing goes on: the notice that was kept back so far, or a reminder."""
    firing = turn.state.firing
    if firing is None:
        return
    if not firing.best <= value <= firing.worst:
        firing = replace(firing, best=min(firing.best, value), worst=max(firing.worst, value))
    every = turn.policy.remind_every
    if not firing.notified:
        waits_for = turn.kept_back_by() if firing.hidden_by == COOLDOWN else turn.silence
        if firing.hidden_by != BASELINE and waits_for is None:
            firing = replace(firing, notified=True, noticed_at=turn.now)
            reason = f"its notice had been kept back by {firing.hidden_by}"
            turn.say(Kind.STILL_FIRING, firing=firing, reason=reason)
            turn.set(noticed_at=turn.now)
    elif every and not firing.acknowledged_at and turn.now - firing.noticed_at >= every:
        firing = replace(firing, noticed_at=turn.now)
        turn.say(Kind.REMINDER, firing=firing, suppressed_by=turn.silence)
    if firing is not turn.state.firing:
        turn.set(firing=firing)

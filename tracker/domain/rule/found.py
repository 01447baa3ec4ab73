"""The step of a rule that watches for new offers: a set of keys instead of a number."""

from __future__ import annotations

from datetime import datetime

from tracker.domain.rule.state import ZERO, Mark, Offered, State
from tracker.domain.rule.turn import BASELINE, Turn
from tracker.domain.rule.types import Event, Kind, Policy, Sample

MAX_AWAY = 5000
"""How many offers that are gone are remembered; beyond it, those gone longest are forgotten."""


def step_found(
    policy: Policy, state: State, sample: Sample, now: datetime, *, silence: str | None = None
) -> tuple[State, tuple[Event, ...]]:
    """The rule after *sample* of *now*, and what happened, for a rule that watches for offers.

    An offer is found when it was there for ``min_duration`` and ``min_count`` good evaluations in
    a row. One FOUND names all that are found at once. An offer is found again only after it was
    away for ``keep_firing``. A silence, or ``cooldown`` since the last notice, keeps FOUND back;
    when that has passed, one FOUND names what came meanwhile and is still there. What is there
    when the rule begins is told with ``on_start`` "notify" only. The phase is always OK.
    """
    turn = Turn(policy, state, sample, now, silence)
    if turn.judged:
        _judge(turn)
    return turn.result()


def _judge(turn: Turn) -> None:
    policy, state, present = turn.policy, turn.state, turn.sample.found
    if not state.started and policy.on_start == "baseline":
        if present:
            turn.say(Kind.FOUND, found=present, suppressed_by=BASELINE)
        known = {key: Offered(Mark.KNOWN, 1, ZERO) for key in sorted(present)}
        turn.set(started=True, offers=known)
        return
    offers = _absent(turn)
    new: list[str] = []
    for key in sorted(present):
        seen = state.offers.get(key)
        if seen is None:
            seen = Offered(Mark.WAITING, 1, ZERO)
        elif seen.mark is Mark.WAITING:
            seen = Offered(seen.mark, seen.times + 1, seen.held + turn.passed)
        else:
            seen = seen._replace(away=ZERO)
        if (
            seen.mark is Mark.WAITING
            and seen.held >= policy.min_duration
            and seen.times >= policy.min_count
        ):
            new.append(key)
        offers[key] = seen
    late = [key for key in sorted(present) if offers[key].mark is Mark.HIDDEN]
    hidden = turn.kept_back_by()
    told = new if hidden else new + late
    if new or (late and hidden is None):
        reason = None if new or hidden else "its notice had been kept back"
        turn.say(Kind.FOUND, found=frozenset(told), suppressed_by=hidden, reason=reason)
        mark = Mark.HIDDEN if hidden else Mark.KNOWN
        offers.update({key: Offered(mark, 1, ZERO) for key in told})
        if hidden is None:
            turn.set(noticed_at=turn.now)
    turn.set(started=True, offers=offers)


def _absent(turn: Turn) -> dict[str, Offered]:
    """What is remembered of offers that are not there, those gone longest first."""
    away = [
        (key, seen._replace(away=seen.away + turn.passed))
        for key, seen in turn.state.offers.items()
        if key not in turn.sample.found and seen.mark is not Mark.WAITING
    ]
    away = [item for item in away if item[1].away < turn.policy.keep_firing]
    away.sort(key=lambda item: (-item[1].away, item[0]))
    return dict(away[-MAX_AWAY:])

"""The step of a rule that watches which GPU is the cheapest: a label instead of a number."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from tracker.domain.rule.state import ZERO, State
from tracker.domain.rule.turn import UNSENT_CHANGE, Turn
from tracker.domain.rule.types import Event, Health, Kind, Phase, Policy, Sample


def step_change(
    policy: Policy, state: State, sample: Sample, now: datetime, *, silence: str | None = None
) -> tuple[State, tuple[Event, ...]]:
    """The rule after *sample* of *now*, and what happened, for a rule that watches a label.

    The first label is taken over and never told. Another one that holds for ``min_duration`` and
    ``min_count`` good evaluations in a row takes its place: CHANGED. Meanwhile the rule is
    PENDING. Where the sample has a value (the cost of its label / that of ``state.label``), the
    other label counts only while that is ``enter`` or less; ``exit`` and ``keep_firing`` mean
    nothing here.

    A silence or the cooldown keeps CHANGED back. When that has passed and the label is still
    another one than was last told, CHANGED is sent then, from the one told to the one now.
    A way back to the label last told needs no notice. A GOOD sample without a label is bad.
    """
    if sample.health is Health.GOOD and not sample.label:
        reason = "the evaluation named no cheapest GPU"
        sample = replace(sample, health=Health.ERROR, value=None, reason=reason)
    turn = Turn(policy, state, sample, now, silence)
    if turn.judged:
        _judge(turn, sample.label or "")
    return turn.result()


def _judge(turn: Turn, label: str) -> None:
    state, policy, value = turn.state, turn.policy, turn.sample.value
    if not state.started:
        turn.set(started=True, label=label, told_label=label, since=turn.now)
        return
    if label == state.label or (value is not None and value > policy.enter):
        if state.phase is Phase.PENDING:
            turn.say(Kind.PENDING_ENDED, to=Phase.OK, label=state.candidate)
        turn.set(candidate=None, count=0, held=ZERO)
        _catch_up(turn)
        return
    same = label == state.candidate
    count = state.count + 1 if same else 1
    held = state.held + turn.passed if same else ZERO
    if held >= policy.min_duration and count >= policy.min_count:
        _change(turn, label)
        return
    if not same:
        turn.say(Kind.PENDING, to=Phase.PENDING, label=label, previous_label=state.label)
    turn.set(candidate=label, count=count, held=held)
    _catch_up(turn)


def _change(turn: Turn, label: str) -> None:
    before = turn.state
    hidden = UNSENT_CHANGE if label == before.told_label else turn.kept_back_by()
    turn.say(
        Kind.CHANGED,
        to=Phase.OK,
        label=label,
        previous_label=before.label if hidden else before.told_label,
        suppressed_by=hidden,
    )
    turn.set(label=label, candidate=None, count=0, held=ZERO)
    if hidden is None:
        turn.set(told_label=label, noticed_at=turn.now)


def _catch_up(turn: Turn) -> None:
    """Tell a change that was kept back when it happened, and still stands."""
    state = turn.state
    if state.label == state.told_label or turn.kept_back_by() is not None:
        return
    turn.say(
        Kind.CHANGED,
        label=state.label,
        previous_label=state.told_label,
        reason="its notice had been kept back",
    )
    turn.set(told_label=state.label, noticed_at=turn.now)

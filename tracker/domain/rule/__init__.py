"""Alert rules, pure: what a condition says, and the state machine that decides when to speak."""

from tracker.domain.rule.condition import (
    Condition,
    ConditionError,
    Margins,
    parse,
    policy_for,
    selections_of,
)
from tracker.domain.rule.machine import acknowledge, edited, step, step_for
from tracker.domain.rule.replay import Look, Watch, replay, replay_looks
from tracker.domain.rule.state import Firing, State
from tracker.domain.rule.types import SILENT_KINDS, Event, Health, Kind, Phase, Policy, Sample

__all__ = [
    "SILENT_KINDS",
    "Condition",
    "ConditionError",
    "Event",
    "Firing",
    "Health",
    "Kind",
    "Look",
    "Margins",
    "Phase",
    "Policy",
    "Sample",
    "State",
    "Watch",
    "acknowledge",
    "edited",
    "parse",
    "policy_for",
    "replay",
    "replay_looks",
    "selections_of",
    "step",
    "step_for",
]

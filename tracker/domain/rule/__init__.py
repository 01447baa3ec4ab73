"""Alert rules, pure: what a condition says, and the state machine that decides when to speak."""

from tracker.domain.rule.types import SILENT_KINDS, Event, Health, Kind, Phase, Policy, Sample

__all__ = ["SILENT_KINDS", "Event", "Health", "Kind", "Phase", "Policy", "Sample"]

"""How far apart a rule's evaluations are: who looks from cron every two hours is not away between.

A gap longer than ``max_gap`` makes a rule wait anew, because nobody looked in the meantime. Where
the last evaluations were all that far apart, that is the pace at which one looks here, and a rule
that took each of them for a gap could never fire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tracker.domain.rule.types import Policy

KEY = "intervals_seconds"  # in the stored evaluation: the last ones, oldest first
STEADY = 3  # so many in a row make a pace
MISSED = 3  # so many times the pace, and somebody was away


def intervals(
    evaluation: Mapping[str, Any] | None, before: datetime | None, now: datetime
) -> list[float]:
    """The last intervals in seconds, with the one that ends *now*."""
    if before is None:
        return []
    passed = max((now - before).total_seconds(), 0.0)
    return [*_known(evaluation), passed][-STEADY:]


def paced(policy: Policy, evaluation: Mapping[str, Any] | None) -> Policy:
    """*policy* with a ``max_gap`` of three times the pace at least, where there is a pace."""
    known = _known(evaluation)
    if len(known) < STEADY:
        return policy
    gap = timedelta(seconds=MISSED * min(known))
    return replace(policy, max_gap=gap) if gap > policy.max_gap else policy


def _known(evaluation: Mapping[str, Any] | None) -> list[float]:
    known = (evaluation or {}).get(KEY)
    return [float(one) for one in known] if isinstance(known, list) else []

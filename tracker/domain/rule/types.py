"""The words of an alert: what is watched, how it went, and what came of it.

Everything here is plain data; ``machine.py`` holds the one table that decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Literal


class Phase(StrEnum):
    """Where a rule stands. PENDING: true, but not yet for long enough. RECOVERING: false again,
    but not yet for long enough."""

    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"
    RECOVERING = "recovering"


class Health(StrEnum):
    """Whether what a rule looks at can be trusted. Anything but GOOD freezes its phase."""

    GOOD = "good"
    STALE = "stale"
    NO_DATA = "no_data"
    SUSPECT = "suspect"
    ERROR = "error"


class Kind(StrEnum):
    """What happened. Those in SILENT_KINDS are only ever recorded, never sent."""

    PENDING = "pending"
    PENDING_ENDED = "pending_ended"
    FIRED = "fired"
    RECOVERING = "recovering"
    RELAPSED = "relapsed"  # recovering, and true again before it had cleared
    RESOLVED = "resolved"
    REMINDER = "reminder"
    STILL_FIRING = "still_firing"  # what kept its notice back has ended, and it goes on
    CLOSED = "closed"  # the rule was edited, disabled or removed while it fired
    DATA_PROBLEM = "data_problem"
    DATA_OK = "data_ok"
    CHANGED = "changed"  # another GPU is the cheapest
    FOUND = "found"  # an offer that was not there before
    ACKNOWLEDGED = "acknowledged"
    TEST = "test"


SILENT_KINDS = frozenset(
    {Kind.PENDING, Kind.PENDING_ENDED, Kind.RECOVERING, Kind.RELAPSED, Kind.ACKNOWLEDGED}
)


@dataclass(frozen=True, slots=True)
class Policy:
    """When a rule that watches one number fires and clears.

    The number is a ratio, so that margins mean the same for every job: it fires at ``enter`` or
    below and clears at ``exit`` or above (``enter < exit``); in between nothing changes. Both a
    duration and a count of good evaluations are needed to fire, the duration alone to clear.
    ``max_gap``: after a longer time without a good sample, waiting starts anew.
    ``cooldown``: no notice of a new firing for that long after the last notice that one was sent
    (one that still goes on then is told then).
    ``remind_every`` None: no reminders. ``health_after``: how long data may be bad before that is
    told. ``on_start``: whether a rule that is true when first seen says so.
    """

    enter: Decimal = Decimal("0.98")
    exit: Decimal = Decimal("1.02")
    min_duration: timedelta = timedelta(minutes=30)
    min_count: int = 3
    keep_firing: timedelta = timedelta(minutes=30)
    cooldown: timedelta = timedelta(hours=6)
    remind_every: timedelta | None = None
    max_gap: timedelta = timedelta(hours=1)
    health_after: timedelta = timedelta(hours=2)
    on_start: Literal["notify", "baseline"] = "notify"
    send_resolved: bool = True


@dataclass(frozen=True, slots=True)
class Sample:
    """One evaluation. ``value`` is None unless ``health`` is GOOD; ``reason`` says why not, in one
    line. ``label`` is the cheapest GPU of a rule that watches for a change of it; ``found`` are
    the keys of the offers that a rule for new offers matches."""

    health: Health
    value: Decimal | None = None
    reason: str | None = None
    label: str | None = None
    found: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a rule at ``at``.

    ``seq`` numbers a rule's events and never repeats. ``firing_seq`` is the seq of the FIRED event
    that this one belongs to, if any. ``suppressed_by`` says why nothing is sent although the kind
    would be ("cooldown", "silence 12", "baseline", "unsent firing", "unsent change",
    "unsent problem", "send_resolved"); None for what is sent, and for kinds that never are.
    """

    kind: Kind
    seq: int
    at: datetime
    phase_from: Phase
    phase_to: Phase
    firing_seq: int | None = None
    value: Decimal | None = None
    suppressed_by: str | None = None
    reason: str | None = None
    firing_since: datetime | None = None
    firing_until: datetime | None = None  # when it ended, of an end that is told later
    best: Decimal | None = None  # lowest value of the firing
    worst: Decimal | None = None  # highest
    label: str | None = None
    previous_label: str | None = None
    found: frozenset[str] = frozenset()

    @property
    def sent(self) -> bool:
        """Whether notices of it go out."""
        return self.kind not in SILENT_KINDS and self.suppressed_by is None

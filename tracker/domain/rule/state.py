"""What a rule remembers from one evaluation to the next. Plain data that goes through JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

from tracker.domain.rule.types import Health, Kind, Phase

ZERO = timedelta(0)
FORMAT = 1  # of the JSON; a reader of another one must refuse it


@dataclass(frozen=True, slots=True)
class Firing:
    """A firing that goes on. ``seq`` is that of its FIRED event, ``since`` the time of it.

    ``best`` and ``worst`` are the lowest and highest value while it fired (what came while it was
    recovering is not counted). ``notified``: a notice has gone out (FIRED or STILL_FIRING).
    ``hidden_by`` is what kept FIRED back, as in ``Event.suppressed_by``; it stays after
    STILL_FIRING. ``noticed_at``: when a notice of it last went out, or would have.
    """

    seq: int
    since: datetime
    best: Decimal
    worst: Decimal
    notified: bool
    noticed_at: datetime
    hidden_by: str | None = None
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None


@dataclass(frozen=True, slots=True)
class Owed:
    """The end of a firing that was told, which a silence has kept back (``hidden_by``): it is told
    when that is over. ``kind`` is RESOLVED, or CLOSED for ``reason``; ``at`` is when it ended."""

    kind: Kind
    at: datetime
    firing: Firing
    hidden_by: str
    reason: str | None = None


class Mark(StrEnum):
    """WAITING: not there for long enough. HIDDEN: found, but its notice was kept back.
    KNOWN: told, or there when the rule began."""

    WAITING = "waiting"
    HIDDEN = "hidden"
    KNOWN = "known"


class Offered(NamedTuple):
    """An offer that a rule for new offers has seen: for how many evaluations in a row and how
    long, and how long it has been away since (all of it time with good data)."""

    mark: Mark
    times: int
    held: timedelta
    away: timedelta = ZERO


@dataclass(frozen=True, slots=True)
class State:
    """A rule between two evaluations. ``State()`` is a rule that was never evaluated.

    ``since``: when it entered ``phase``. ``seq``: the number of its last event. ``started``: a
    good sample has been seen. ``from_start``: the condition has held since that first one.

    ``count`` and ``held``: how many good evaluations, and how much time between them, have counted
    towards the end of PENDING or RECOVERING. ``held_until``: up to when; None after a sample that
    froze the rule, for the time around it never counts. ``last_good_at``: the last good sample.

    ``health_since``: when the data became bad (None: it is good); ``health_waiting_since``: the
    same, but anew after a time without any evaluation. ``health_told``: a DATA_PROBLEM is in the
    history; ``health_notified``: it was sent. ``health_end_owed``: one was sent, and a silence has
    kept back that it is over.

    ``owed``: an end that is still to be told. Never beside a firing that was told.

    ``noticed_at``: the last notice of a firing, a change or a find; cooldown counts from there.

    ``label``, ``told_label`` and ``candidate`` (CheapestChanges): the cheapest now, the one last
    told (or the first), the one that waits to become it. ``offers`` (NewOfferBelow): by key.
    """

    phase: Phase = Phase.OK
    since: datetime | None = None
    seq: int = 0
    started: bool = False
    from_start: bool = False
    count: int = 0
    held: timedelta = ZERO
    held_until: datetime | None = None
    last_good_at: datetime | None = None
    evaluated_at: datetime | None = None
    health: Health = Health.GOOD
    health_reason: str | None = None
    health_since: datetime | None = None
    health_waiting_since: datetime | None = None
    health_told: bool = False
    health_notified: bool = False
    health_end_owed: bool = False
    firing: Firing | None = None
    owed: Owed | None = None
    noticed_at: datetime | None = None
    label: str | None = None
    told_label: str | None = None
    candidate: str | None = None
    offers: Mapping[str, Offered] = field(default_factory=dict)

    @property
    def pending_since(self) -> datetime | None:
        """When the condition became true that waits to fire."""
        return self.since if self.phase is Phase.PENDING else None

    @property
    def firing_seq(self) -> int | None:
        """The seq of the firing that goes on."""
        return self.firing.seq if self.firing else None

    @property
    def firing_since(self) -> datetime | None:
        return self.firing.since if self.firing else None

    @property
    def notified(self) -> bool:
        """Whether somebody was told of the firing that goes on."""
        return self.firing is not None and self.firing.notified

    def to_json(self) -> dict[str, Any]:
        """Everything, as what JSON can hold. Times in ISO 8601 (UTC), durations in microseconds,
        numbers as exact text."""
        owed = self.owed
        return {
            "format": FORMAT,
            "phase": self.phase.value,
            "since": _time(self.since),
            "seq": self.seq,
            "started": self.started,
            "from_start": self.from_start,
            "count": self.count,
            "held_us": _us(self.held),
            "held_until": _time(self.held_until),
            "last_good_at": _time(self.last_good_at),
            "evaluated_at": _time(self.evaluated_at),
            "health": self.health.value,
            "health_reason": self.health_reason,
            "health_since": _time(self.health_since),
            "health_waiting_since": _time(self.health_waiting_since),
            "health_told": self.health_told,
            "health_notified": self.health_notified,
            "health_end_owed": self.health_end_owed,
            "firing": self.firing and _firing_json(self.firing),
            "owed": owed
            and {
                "kind": owed.kind.value,
                "at": _time(owed.at),
                "firing": _firing_json(owed.firing),
                "hidden_by": owed.hidden_by,
                "reason": owed.reason,
            },
            "noticed_at": _time(self.noticed_at),
            "label": self.label,
            "told_label": self.told_label,
            "candidate": self.candidate,
            "offers": {
                key: [seen.mark.value, seen.times, _us(seen.held), _us(seen.away)]
                for key, seen in self.offers.items()
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> State:
        """The inverse of ``to_json``. ValueError for what it did not write."""
        if data.get("format") != FORMAT:
            raise ValueError(f"a rule's state of format {data.get('format')!r}, not {FORMAT}")
        try:
            return cls(
                phase=Phase(data["phase"]),
                since=_when(data["since"]),
                seq=data["seq"],
                started=data["started"],
                from_start=data["from_start"],
                count=data["count"],
                held=timedelta(microseconds=data["held_us"]),
                held_until=_when(data["held_until"]),
                last_good_at=_when(data["last_good_at"]),
                evaluated_at=_when(data["evaluated_at"]),
                health=Health(data["health"]),
                health_reason=data["health_reason"],
                health_since=_when(data["health_since"]),
                health_waiting_since=_when(data["health_waiting_since"]),
                health_told=data["health_told"],
                health_notified=data["health_notified"],
                health_end_owed=data.get("health_end_owed", False),  # older states have none
                firing=_firing(data["firing"]),
                owed=_owed(data.get("owed")),  # older states have none
                noticed_at=_when(data["noticed_at"]),
                label=data["label"],
                told_label=data["told_label"],
                candidate=data["candidate"],
                offers={key: _offered(*values) for key, values in data["offers"].items()},
            )
        except (KeyError, TypeError, ArithmeticError) as error:
            raise ValueError(f"a rule's state cannot be read: {error!r}") from None


def _firing_json(firing: Firing) -> dict[str, Any]:
    return {
        "seq": firing.seq,
        "since": _time(firing.since),
        "best": str(firing.best),
        "worst": str(firing.worst),
        "notified": firing.notified,
        "hidden_by": firing.hidden_by,
        "noticed_at": _time(firing.noticed_at),
        "acknowledged_at": _time(firing.acknowledged_at),
        "acknowledged_by": firing.acknowledged_by,
    }


def _owed(data: Mapping[str, Any] | None) -> Owed | None:
    if data is None:
        return None
    firing, at = _firing(data["firing"]), _when(data["at"])
    if firing is None or at is None:
        raise ValueError("an end without a firing or a time")
    return Owed(Kind(data["kind"]), at, firing, data["hidden_by"], data["reason"])


def _firing(data: Mapping[str, Any] | None) -> Firing | None:
    if data is None:
        return None
    since, noticed_at = _when(data["since"]), _when(data["noticed_at"])
    if since is None or noticed_at is None:
        raise ValueError("a firing without a time")
    return Firing(
        seq=data["seq"],
        since=since,
        best=Decimal(data["best"]),
        worst=Decimal(data["worst"]),
        notified=data["notified"],
        noticed_at=noticed_at,
        hidden_by=data["hidden_by"],
        acknowledged_at=_when(data["acknowledged_at"]),
        acknowledged_by=data["acknowledged_by"],
    )


def _offered(mark: str, times: int, held_us: int, away_us: int) -> Offered:
    held, away = timedelta(microseconds=held_us), timedelta(microseconds=away_us)
    return Offered(Mark(mark), times, held, away)


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat()


def _when(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def _us(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)

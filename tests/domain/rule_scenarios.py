"""A rule's samples as a line of letters, one every five minutes, and its events as short lines.

e  at or below enter     .  stale         S  a silence begins with the next sample
d  in the dead band      ?  suspect       s  it ends before the next sample
x  at or above exit      -  nobody looks  (blanks only divide)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tracker.domain.rule import Event, Health, Policy, Sample, State, step

D = Decimal
MINUTE = timedelta(minutes=1)
START = datetime(2026, 3, 1, tzinfo=UTC)
INTERVAL = 5 * MINUTE
VALUES = {"e": D("0.9"), "d": D("1"), "x": D("1.1")}
SILENCE = "silence 12"

# Half an hour and three evaluations to fire, half an hour to clear; no cooldown unless asked for.
PLAIN = Policy(cooldown=timedelta(0))


@dataclass(frozen=True)
class Evaluation:
    """One evaluation of a rule: when, of what, under which silence."""

    at: datetime
    sample: Sample
    silence: str | None = None


def good(value: Decimal | str) -> Sample:
    return Sample(Health.GOOD, Decimal(value))


STALE = Sample(Health.STALE, reason="vastai has not answered since 00:00")
SUSPECT = Sample(Health.SUSPECT, reason="the cheapest offer is far below all others")


def evaluations(line: str, *, start: datetime = START) -> list[Evaluation]:
    """What the letters of *line* stand for."""
    found: list[Evaluation] = []
    now, silence = start, None
    for letter in line.replace(" ", "").replace("\n", ""):
        if letter in "Ss":
            silence = SILENCE if letter == "S" else None
            continue
        if letter != "-":
            bad = {".": STALE, "?": SUSPECT}.get(letter)
            found.append(Evaluation(now, bad or good(VALUES[letter]), silence))
        now += INTERVAL
    return found


def run(
    policy: Policy, trace: Sequence[Evaluation], state: State | None = None
) -> tuple[State, list[Event]]:
    """Step through *trace*."""
    state = state or State()
    events: list[Event] = []
    for one in trace:
        state, new = step(policy, state, one.sample, one.at, silence=one.silence)
        events += new
    return state, events


def told(events: Sequence[Event], *, start: datetime = START) -> list[str]:
    """``6 fired``: the event of the seventh interval, ``6 fired (cooldown)`` where kept back."""
    return [
        f"{(event.at - start) // INTERVAL} {event.kind.value}"
        + (f" ({event.suppressed_by})" if event.suppressed_by else "")
        for event in events
    ]

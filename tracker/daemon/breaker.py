"""When a provider is asked next, and when it is left alone for a while. Pure.

A poll that worked brings the next one after the interval, give or take a tenth. A failed one is
repeated sooner at first, then ever later. After OPEN_AFTER failures in a row the breaker opens:
the provider is probed slowly until it answers. A refused credential opens it at once, because
asking again with the same key cannot help. Who was never reached (no name, no connection) was not
asked either: its floor is UNREACHED_FLOOR, so that hours between polls do not become hours offline.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

JITTER = 0.1  # of the interval, either way: daemons that were started together drift apart
OPEN_AFTER = 5  # failures in a row
LONGEST_PROBE = timedelta(hours=6)  # between two probes, for intervals that are shorter
LONGEST_WAIT = timedelta(hours=24)  # that a Retry-After is believed
FIRST_SPREAD = timedelta(minutes=1)  # over which the first polls after an installation are spread
UNREACHED_FLOOR = timedelta(minutes=5)  # between polls that reach nobody, for longer floors
MAX_DOUBLINGS = 16
CREDENTIAL = "credential refused"

Breaker = Literal["closed", "open", "half_open"]
Verdict = Literal["ok", "unusable", "failed", "credential"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a provider is polled when all is well, and how often at most."""

    every: timedelta
    at_least: timedelta

    def __post_init__(self) -> None:
        if not timedelta() < self.at_least <= self.every:
            raise ValueError("an interval must be positive, and not below the provider's own floor")


@dataclass(frozen=True, slots=True)
class Standing:
    """How things stand with a provider.

    ``failures`` counts polls in a row without usable prices; ``outage_since`` is when the first of
    them began, ``reason`` what the last of them said. ``half_open``: a probe is under way.
    """

    next_due_at: datetime
    failures: int = 0
    breaker: Breaker = "closed"
    outage_since: datetime | None = None
    reason: str | None = None

    @property
    def credential(self) -> bool:
        """Whether the provider has refused the key, so that a new one should be tried at once."""
        return self.breaker != "closed" and (self.reason or "").startswith(CREDENTIAL)


@dataclass(frozen=True, slots=True)
class Attempt:
    """How a poll went, as far as it matters here.

    ``unusable``: the provider answers, but its answer is not believed (empty, shrunk). Then it is
    neither hurried nor left alone: the next ordinary poll confirms or corrects it. ``reached``:
    whether anything was answered at all.
    """

    began_at: datetime
    verdict: Verdict
    reason: str | None = None
    retry_after: timedelta | None = None
    reached: bool = True


def verdict_of(status: str, http_status: int | None) -> Verdict:
    """The verdict on a poll that ended with *status* (of ``PollOutcome``)."""
    if status in {"complete", "partial", "late", "duplicate"}:
        return "ok"
    if status != "failed":
        return "unusable"
    return "credential" if http_status in (401, 403) else "failed"


def first(provider: str, pace: Pace, now: datetime) -> Standing:
    """The standing of a provider that was never polled: due within a minute, each at its own
    moment, the same at every start."""
    digest = hashlib.sha256(provider.encode()).digest()
    part = int.from_bytes(digest[:4], "big") / 2**32
    return Standing(now + part * min(FIRST_SPREAD, pace.every))


def resumed(standing: Standing, pace: Pace, now: datetime, *, updated_at: datetime) -> Standing:
    """A standing that was kept, when a daemon begins to lead (or its configuration changes).

    What is overdue stays so, and is polled once. No wait is longer than one that ``after`` could
    ask for: the interval may have become shorter, the clock may have been wrong. A refused
    credential may have been replaced meanwhile: it is tried again as soon as the floor allows.
    """
    latest = now + _longest(standing, pace)
    if standing.credential:
        soonest = min(updated_at, now) + pace.at_least
        latest = min(latest, max(now, soonest))
    breaker: Breaker = "open" if standing.breaker == "half_open" else standing.breaker
    return replace(standing, next_due_at=min(standing.next_due_at, latest), breaker=breaker)


def begun(standing: Standing, pace: Pace, now: datetime) -> Standing:
    """The standing while a poll is under way: should this process die, the next one does not ask
    sooner than the floor allows."""
    breaker: Breaker = "closed" if standing.breaker == "closed" else "half_open"
    return replace(standing, next_due_at=now + pace.at_least, breaker=breaker)


def after(
    standing: Standing, attempt: Attempt, pace: Pace, now: datetime, rng: random.Random
) -> Standing:
    """The standing after a poll. Never due before *now*, nor sooner than the floor and a
    Retry-After allow."""
    failures = 0 if attempt.verdict == "ok" else standing.failures + 1
    breaker: Breaker = "closed"
    if attempt.verdict == "credential" or (attempt.verdict == "failed" and failures >= OPEN_AFTER):
        breaker = "open"
    floor = pace.at_least
    if attempt.verdict == "failed" and not attempt.reached:
        floor = min(floor, UNREACHED_FLOOR)
    wait = _wait(attempt.verdict, failures, breaker, replace(pace, at_least=floor), rng)
    due = max(attempt.began_at + max(wait, floor), now)
    if attempt.verdict == "ok":
        return Standing(due)
    if attempt.retry_after is not None:
        due = max(due, now + min(attempt.retry_after, LONGEST_WAIT))
    reason = attempt.reason or "no usable prices"
    if attempt.verdict == "credential" and not reason.startswith(CREDENTIAL):
        reason = f"{CREDENTIAL}: {reason}"
    return Standing(due, failures, breaker, standing.outage_since or attempt.began_at, reason)


def _wait(
    verdict: Verdict, failures: int, breaker: Breaker, pace: Pace, rng: random.Random
) -> timedelta:
    """From the beginning of one poll to that of the next, floors apart."""
    if verdict in ("ok", "unusable"):
        return pace.every * rng.uniform(1 - JITTER, 1 + JITTER)
    if breaker == "open":
        probe = max(pace.every, LONGEST_PROBE)
        if verdict != "credential":
            doubled = min(failures - OPEN_AFTER + 1, MAX_DOUBLINGS)
            probe = min(probe, pace.every * 2**doubled)
        return probe * rng.uniform(1 - JITTER, 1 + JITTER)
    # Back off from the floor to the interval, with jitter over the upper half.
    doubled = int(min(failures - 1, MAX_DOUBLINGS))
    backoff: timedelta = min(pace.every, pace.at_least * 2**doubled)
    return backoff * rng.uniform(0.5, 1)


def _longest(standing: Standing, pace: Pace) -> timedelta:
    """The longest wait that ``after`` gives to a provider that stands so."""
    if standing.failures:  # its last answer may have asked for any pause that is believed
        return max(pace.every, LONGEST_PROBE, LONGEST_WAIT) * (1 + JITTER)
    return max(pace.every * (1 + JITTER), pace.at_least)

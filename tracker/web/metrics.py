"""Prometheus metrics: what the daemon tells as it works, and what the database says at a scrape."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Protocol

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, exposition
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tracker import __version__
from tracker.store.errors import StoreError
from tracker.store.gauges import RuleGauge
from tracker.web import families as f
from tracker.web.figures import Figures

log = logging.getLogger(__name__)

POLL_BUCKETS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 900.0)
EVALUATION_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0)

# Reasons are written by providers' modules: few, unless one of them puts a value into its text.
MOST_REASONS = 30
REASON_LENGTH = 80
OTHER_REASON = "other"

# A rule that was not evaluated for so long says nothing about now.
RATIO_HOLDS = timedelta(hours=1)
COMPARES_BILLS = re.compile(r"\s*cost\s*\([^)]*\)\s*<\s*cost\s*\([^)]*\)\s*", re.IGNORECASE)


class PollResult(Protocol):
    """What is told of a poll: tracker.collect's PollOutcome."""

    @property
    def provider(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def rejected(self) -> Mapping[str, int]: ...
    @property
    def seconds(self) -> float: ...


class Metrics:
    """The metrics of one daemon. All methods may be called from any thread.

    ``figures`` reads the database at a scrape (a StoreFigures); None: there is none to read.
    Scrapes within *cache_seconds* share one reading, one that failed included.
    """

    def __init__(
        self,
        figures: Callable[[], Figures] | None = None,
        *,
        cache_seconds: float = 5.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._reasons: dict[str, set[str]] = {}
        self._lock = threading.Lock()
        self._build = self._gauge(f.BUILD_INFO)
        self._build.labels(__version__).set(1)
        self._leader = self._gauge(f.LEADER)
        self._breaker = self._gauge(f.BREAKER)
        self._polls = self._counter(f.POLLS)
        self._missed = self._counter(f.POLLS_MISSED)
        self._rejected = self._counter(f.ROWS_REJECTED)
        self._poll_seconds = self._histogram(f.POLL_DURATION, POLL_BUCKETS)
        self._evaluations = self._counter(f.EVALUATIONS)
        self._evaluation_seconds = self._histogram(f.EVALUATION_DURATION, EVALUATION_BUCKETS)
        self._notices = self._counter(f.NOTICES)
        prometheus_client.ProcessCollector(registry=self.registry)
        if figures is not None:
            self.registry.register(_StoreCollector(figures, cache_seconds, monotonic))

    # -- told by the daemon ----------------------------------------------------------------------

    def poll_finished(self, outcome: PollResult, seconds: float | None = None) -> None:
        """A poll has ended. *seconds* default to those that the outcome names."""
        name = outcome.provider
        self._polls.labels(name, outcome.status).inc()
        self._poll_seconds.labels(name).observe(outcome.seconds if seconds is None else seconds)
        for reason, count in outcome.rejected.items():
            self._rejected.labels(name, self._reason(name, reason)).inc(count)

    def job_missed(self, provider: str) -> None:
        """A poll was due and did not start."""
        self._missed.labels(provider).inc()

    def breaker(self, provider: str, state: str) -> None:
        """The provider's circuit breaker is now ``closed``, ``half_open`` or ``open``."""
        for known in f.BREAKERS:
            self._breaker.labels(provider, known).set(known == state)

    def forget_provider(self, provider: str) -> None:
        """The provider is not polled any more: what it is like now must not be told for ever."""
        for state in f.BREAKERS:
            with suppress(KeyError):
                self._breaker.remove(provider, state)

    def evaluated(self, results: Iterable[tuple[str, str]], seconds: float) -> None:
        """Rules were evaluated together: each one's name and the health of its data."""
        for rule, health in results:
            self._evaluations.labels(rule, health).inc()
        self._evaluation_seconds.observe(seconds)

    def delivered(self, channel: str, result: str) -> None:
        """An attempt to send a notice came to *result*: ``sent``, ``retry`` or ``dead``."""
        self._notices.labels(channel, result).inc()

    def leader(self, leads: bool) -> None:
        """Whether this process leads. Who does not lead knows nothing of breakers."""
        self._leader.set(leads)
        if not leads:
            self._breaker.clear()

    # -- asked for by Prometheus -----------------------------------------------------------------

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics as text, and its content type, in a format that *accept* allows."""
        encode, content_type = exposition.choose_encoder(accept)
        return encode(self.registry), content_type

    # -- making them -----------------------------------------------------------------------------

    def _gauge(self, family: f.Family) -> Gauge:
        return Gauge(family.name, family.help, family.labels, registry=self.registry)

    def _counter(self, family: f.Family) -> Counter:
        return Counter(family.name, family.help, family.labels, registry=self.registry)

    def _histogram(self, family: f.Family, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(
            family.name, family.help, family.labels, registry=self.registry, buckets=buckets
        )

    def _reason(self, provider: str, reason: str) -> str:
        """*reason* as a label: short, and never one of too many."""
        short = reason[:REASON_LENGTH]
        with self._lock:
            known = self._reasons.setdefault(provider, set())
            if short not in known and len(known) >= MOST_REASONS:
                return OTHER_REASON
            known.add(short)
        return short


class _StoreCollector(Collector):
    """What the database says, as metrics. What is not known has no series, rather than a zero."""

    def __init__(
        self, figures: Callable[[], Figures], cache_seconds: float, monotonic: Callable[[], float]
    ) -> None:
        self._figures = figures
        self._cache_seconds = cache_seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._last: tuple[float, Figures | None] | None = None
        self._complained = False

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The names, for the registry; does not read the database."""
        return (_new(family) for family in f.OF_STORE)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All families with their values."""
        figures = self._read()
        found = {family: _new(family) for family in f.OF_STORE}
        found[f.DATABASE_UP].add_metric((), figures is not None)
        if figures is not None:
            _providers(found, figures)
            _prices(found, figures)
            _rules(found, figures)
            _outbox(found, figures)
        return iter(found.values())

    def _read(self) -> Figures | None:
        """The figures, or None when the database does not answer; read again when too old."""
        with self._lock:
            if self._last is not None and self._monotonic() - self._last[0] < self._cache_seconds:
                return self._last[1]
            try:
                figures = self._figures()
                self._complained = False
            except StoreError as error:
                if not self._complained:  # one line for an outage, not one for every scrape
                    log.warning("the metrics of the database are missing: %s", error)
                self._complained, figures = True, None
            self._last = (self._monotonic(), figures)
            return figures


Found = Mapping[f.Family, GaugeMetricFamily]


def _new(family: f.Family) -> GaugeMetricFamily:
    return GaugeMetricFamily(family.name, family.help, labels=family.labels)


def _providers(found: Found, figures: Figures) -> None:
    for health in figures.providers:
        p, label = health.provider, (health.provider.slug,)
        if p.last_ok_at is not None:
            found[f.LAST_SUCCESS].add_metric(label, p.last_ok_at.timestamp())
        if p.every_seconds is not None:
            found[f.INTERVAL].add_metric(label, p.every_seconds)
        found[f.FAILURES].add_metric(label, p.consecutive_failures)
        found[f.STALE].add_metric(label, health.stale)
        if not health.stale:
            found[f.OFFERS].add_metric(label, p.offers)
        if health.usual_offers is not None:
            found[f.USUAL].add_metric(label, health.usual_offers)
        found[f.QUARANTINED].add_metric(label, p.quarantined)
        found[f.UNMAPPED].add_metric(label, p.unmapped)


def _prices(found: Found, figures: Figures) -> None:
    for price in figures.prices.gpus:
        stats = {"min": price.minimum, "p10": price.p10, "median": price.median}
        for stat, usd in stats.items():
            found[f.PRICE].add_metric((price.gpu, price.market, stat), float(usd))
    for cost in figures.prices.jobs:
        bound = "true" if cost.lower_bound else "false"
        found[f.JOB_COST].add_metric((cost.workload, cost.gpu, bound), float(cost.usd))


def _rules(found: Found, figures: Figures) -> None:
    for rule in figures.rules:
        for phase in f.PHASES:
            found[f.ALERT_STATE].add_metric((rule.name, phase), phase == rule.phase)
        for health in f.HEALTHS:
            found[f.ALERT_HEALTH].add_metric((rule.name, health), health == rule.health)
        if rule.evaluated_at is not None:
            found[f.LAST_EVALUATION].add_metric((rule.name,), rule.evaluated_at.timestamp())
        if (
            rule.value is not None
            and COMPARES_BILLS.fullmatch(rule.when)
            and _holds(rule, figures.at)
        ):
            found[f.JOB_COST_RATIO].add_metric((rule.name,), float(rule.value))


def _holds(rule: RuleGauge, at: datetime) -> bool:
    """Whether the rule's last evaluation says something about now."""
    recent = rule.evaluated_at is not None and at - rule.evaluated_at < RATIO_HOLDS
    return recent and rule.health == "good"


def _outbox(found: Found, figures: Figures) -> None:
    for channel in figures.outbox:
        label = (channel.channel,)
        waited = 0.0 if channel.oldest_at is None else _seconds(figures.at - channel.oldest_at)
        found[f.OUTBOX_PENDING].add_metric(label, channel.waiting)
        found[f.OUTBOX_OLDEST].add_metric(label, waited)
        found[f.OUTBOX_DEAD].add_metric(label, channel.dead)


def _seconds(age: timedelta) -> float:
    return max(age.total_seconds(), 0.0)

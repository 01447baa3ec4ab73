"""What the daemon is to do, read and checked as a whole before any of it is taken up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracker import registry
from tracker.alert.doubts import doubts
from tracker.alert.rules import Rule
from tracker.app import App, enabled, job_names
from tracker.collect import interval
from tracker.daemon.breaker import Pace
from tracker.domain.job import Job
from tracker.notify import Channel
from tracker.provider import Provider, ProviderConfig
from tracker.store import status
from tracker.store.engine import read_connection

PRICE_BOOK = "pricebook"


@dataclass(frozen=True, slots=True)
class Polled:
    """A provider that is polled, how, and how often."""

    provider: Provider[Any]
    config: ProviderConfig
    pace: Pace

    @property
    def name(self) -> str:
        """Its slug."""
        return self.provider.name


@dataclass(frozen=True, slots=True)
class Plan:
    """One reading of the configuration.

    ``left_out``: the providers that cannot be polled, and why; ``problems``: what is wrong with
    alert rules and channels, each in one line; ``broken``: the names of the rules that cannot be
    read, and are left as they are. ``jobs`` are those whose bills the metrics tell.
    """

    app: App
    polled: Mapping[str, Polled]
    left_out: tuple[tuple[str, str], ...]
    rules: tuple[Rule, ...]
    channels: Mapping[str, Channel]
    problems: tuple[str, ...]
    broken: frozenset[str]
    jobs: tuple[Job, ...]


def make_plan(app: App) -> Plan:
    """Read the configuration of *app*. A mistake in one provider, rule or channel stops no other.

    Raises SettingsError, UnknownProvider.
    """
    chosen, left_out = enabled(app, None)
    polled = {
        provider.name: Polled(
            provider, config, Pace(interval(provider, config), provider.facts.min_every)
        )
        for provider, config in chosen
    }
    channels, unusable = app.channels
    rules, wrong = app.alert_rules()
    # Estimated jobs are about every GPU there is: metrics tell them only where a rule asks.
    jobs = {name: job for name in job_names() if (job := app.job(name)).task is None}
    jobs |= {rule.job.name: rule.job for rule in rules if rule.job is not None}
    problems = tuple(app.redactor(str(problem)) for problem in (*unusable, *wrong))
    return Plan(
        app, polled, tuple(left_out), rules, channels, problems,
        frozenset(problem.rule for problem in wrong), tuple(jobs.values()),
    )  # fmt: skip


def doubts_of(plan: Plan, url: str) -> tuple[str, ...]:
    """What of the rules of *plan* is most likely a mistake, a line each.

    The providers that a rule may name are those installed and those in the database at *url*.
    Raises StoreError.
    """
    with read_connection(url) as connection:
        stored = {row.slug: row for row in status.providers(connection)}
    known: set[str] | None = {*registry.names(), *stored}
    book = stored.get(PRICE_BOOK)
    if PRICE_BOOK in plan.polled and (book is None or book.last_ok_at is None):
        known = None  # who sells in it is not known yet
    return tuple(plan.app.redactor(str(doubt)) for doubt in doubts(plan.rules, known))

"""Polling for as long as we lead: each provider at its own pace, and none in another's way."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

from tracker.collect import Collector, PollOutcome
from tracker.collect.collector import GRACE_S
from tracker.daemon import breaker
from tracker.daemon.breaker import Attempt, Standing
from tracker.daemon.outages import Outages, lasted
from tracker.daemon.plan import Plan, Polled
from tracker.daemon.schedule import AlarmClock
from tracker.store.errors import StoreError
from tracker.store.schedule import Schedule, StoredStanding

if TYPE_CHECKING:
    from tracker.web.metrics import Metrics

log = logging.getLogger(__name__)

# Beyond a poll's own deadline, for parsing and recording: the database's limits end a statement
# before this does. After it the poll counts as failed, whatever its thread still does.
RECORDING_S = 120.0
HUNG_S = 60.0  # overdue, or beyond its limit, for so long: this process does not work any more


@dataclass(slots=True)
class _Running:
    task: asyncio.Task[None]
    ends_at: float  # monotonic, at the latest


@dataclass(slots=True)
class Poller:
    """Polls the providers of ``plan``. ``on_recorded`` is told of every poll that was recorded,
    ``on_trouble`` of every error of the database; both in the event loop."""

    plan: Plan
    collector: Collector
    schedule: Schedule
    metrics: Metrics
    outages: Outages
    on_recorded: Callable[[PollOutcome], None]
    on_trouble: Callable[[StoreError], None]
    rng: random.Random = field(default_factory=random.Random)
    utc_now: Callable[[], datetime] = lambda: datetime.now(UTC)
    standings: dict[str, Standing] = field(default_factory=dict)
    outcomes: dict[str, PollOutcome] = field(default_factory=dict)  # the last of each
    _clock: AlarmClock = field(init=False)
    _running: dict[str, _Running] = field(default_factory=dict)
    _began: dict[str, datetime] = field(default_factory=dict)
    _overdue: dict[str, float] = field(default_factory=dict)  # since when, monotonic
    _known: frozenset[str] = frozenset()  # those that have been polled before
    _stopping: bool = False
    _ended: int = 0

    def __post_init__(self) -> None:
        self._clock = AlarmClock(self._ring, self.metrics.job_missed)

    async def start(self) -> None:
        """Take up the schedule where it was left. Raises StoreError."""
        await self.load()
        self._clock.start()
        for name, standing in self.standings.items():
            self._arm(name, standing)

    async def load(self) -> None:
        """Read the schedule. Raises StoreError."""
        kept = await asyncio.to_thread(self.schedule.load)
        now = self.utc_now()
        for name, polled in self.plan.polled.items():
            self.standings[name] = _standing(kept.get(name), polled, now)
        self._known = frozenset(kept)

    async def poll_due(self) -> list[PollOutcome | None]:
        """Poll what is due, side by side, after ``load``. As ``poll``, but once for all.

        Whoever calls this every ten minutes must not poll every twenty because of the jitter: the
        last part of an interval counts as over. What was never polled is due.
        """
        now = self.utc_now()
        due = [
            name
            for name, standing in self.standings.items()
            if name not in self._known
            or standing.next_due_at <= now
            or (not standing.failures and standing.next_due_at <= now + self._slack(name))
        ]
        return list(await asyncio.gather(*map(self.poll, due)))

    def _slack(self, name: str) -> timedelta:
        return 2 * breaker.JITTER * self.plan.polled[name].pace.every

    async def stop(self, grace_s: float = 0.0) -> None:
        """Start no more polls, and give those under way *grace_s* seconds to end."""
        self._stopping = True
        self._clock.stop()
        tasks = [running.task for running in self._running.values()]
        if tasks and grace_s > 0:
            await asyncio.wait(tasks, timeout=grace_s)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def follow(self, plan: Plan, collector: Collector) -> None:
        """Go by another plan from now on. A poll under way ends as it began."""
        before, self.plan, self.collector = self.plan, plan, collector
        now = self.utc_now()
        for name in before.polled.keys() - plan.polled.keys():
            self._clock.unset(name)
            self.standings.pop(name, None)
            self.outcomes.pop(name, None)
            self.metrics.forget_provider(name)
        for name, polled in plan.polled.items():
            old = before.polled.get(name)
            if old is None:
                standing = breaker.first(name, polled.pace, now)
            elif old.config == polled.config and old.pace == polled.pace:
                continue
            else:
                # What kept it from answering may be what was changed.
                soonest = max(now, self._began.get(name, now) + polled.pace.at_least)
                standing = self.standings[name]
                latest = soonest if standing.failures else now + polled.pace.every
                standing = replace(standing, next_due_at=min(standing.next_due_at, latest))
            self.standings[name] = standing
            if name not in self._running:
                self._arm(name, standing)

    def tick(self) -> None:
        """Look at the clock; to be called every few seconds."""
        self._clock.check()
        now, monotonic = self.utc_now(), time.monotonic()
        late = {name for name, due in self._clock.due.items() if due < now}
        self._overdue = {name: self._overdue.get(name, monotonic) for name in late}

    def clock_was_set(self, by: timedelta) -> None:
        """The wall clock was set back: what was due in an hour still is."""
        for name, standing in list(self.standings.items()):
            self.standings[name] = replace(standing, next_due_at=standing.next_due_at + by)
        self._clock.shift(by)

    @property
    def hung(self) -> list[str]:
        """The providers whose poll neither ends nor starts, although it should have."""
        now = time.monotonic()
        stuck = {name for name, running in self._running.items() if now > running.ends_at + HUNG_S}
        late = {name for name, since in self._overdue.items() if now > since + HUNG_S}
        return sorted(stuck | late)

    @property
    def running(self) -> list[str]:
        """The providers that are being polled."""
        return sorted(self._running)

    def take_ended(self) -> int:
        """How many polls have ended since the last call."""
        ended, self._ended = self._ended, 0
        return ended

    # -- one poll ----------------------------------------------------------------------------------

    async def poll(self, name: str) -> PollOutcome | None:
        """Poll one provider now; None when the database was not there to record it."""
        polled = self.plan.polled[name]
        began_at = self._began[name] = self.utc_now()
        before = self.standings[name]
        try:
            begun = breaker.begun(before, polled.pace, began_at)
            await self._keep(name, begun)
            outcome = await self._outcome(polled)
            self.outages.works("recording")
            standing = breaker.after(
                before, _attempt(outcome, began_at), polled.pace, self.utc_now(), self.rng
            )
            now_planned = self.plan.polled.get(name)
            if standing.failures and now_planned and now_planned.config != polled.config:
                # Refused with a key that has been replaced meanwhile, perhaps.
                soonest = began_at + now_planned.pace.at_least
                standing = replace(standing, next_due_at=min(standing.next_due_at, soonest))
            self.metrics.poll_finished(outcome)
            self._tell(name, before, standing, outcome)
            if now_planned:
                self.outcomes[name] = outcome
                await self._keep(name, standing)
        except StoreError as error:
            # Not the provider's fault; but its answer is lost, and it is not asked again at once.
            soonest = began_at + polled.pace.at_least
            if name in self.plan.polled:
                self.standings[name] = replace(before, next_due_at=max(before.next_due_at, soonest))
            self.outages.store_failed("recording", error)
            self.on_trouble(error)
            return None
        self.on_recorded(outcome)
        return outcome

    async def _outcome(self, polled: Polled) -> PollOutcome:
        """The poll itself. Raises StoreError, and nothing else."""
        app = self.plan.app
        limit_s = polled.provider.poll_deadline.total_seconds() + GRACE_S + RECORDING_S
        try:
            async with asyncio.timeout(limit_s):
                return await self.collector.poll(
                    polled.provider, polled.config, app.settings.poll_deadline_seconds
                )
        except StoreError:
            raise
        except TimeoutError:
            reason = f"not read and recorded within {limit_s:.0f} s: given up"
        except Exception as error:
            log.debug("a poll failed", exc_info=error)
            reason = f"internal error: {app.redactor.error(error)}; please report it"
        return PollOutcome(polled.name, "failed", reason)

    async def _keep(self, name: str, standing: Standing) -> None:
        row = StoredStanding(
            name, standing.next_due_at, standing.failures, standing.breaker,
            standing.outage_since, standing.reason, self.utc_now(),
        )  # fmt: skip
        await asyncio.to_thread(self.schedule.save, row)
        if name in self.plan.polled:  # it may have been taken out meanwhile
            self.standings[name] = standing
            self.metrics.breaker(name, standing.breaker)

    def _tell(self, name: str, before: Standing, standing: Standing, outcome: PollOutcome) -> None:
        """One line when an outage begins, one when it ends."""
        facts = {"provider": name, "status": outcome.status, "offers": outcome.accepted}
        log.debug("polled in %.1f s", outcome.seconds, extra=facts)
        now = self.utc_now()
        if standing.failures and not before.failures:
            wait = lasted((standing.next_due_at - now).total_seconds())
            log.warning("%s: no usable prices: %s; next try in %s", name, standing.reason, wait,
                        extra=facts)  # fmt: skip
        elif before.failures and not standing.failures:
            since = before.outage_since or now
            log.warning("%s: works again after %s and %d failed polls", name,
                        lasted((now - since).total_seconds()), before.failures,
                        extra=facts)  # fmt: skip

    # -- when --------------------------------------------------------------------------------------

    def _arm(self, name: str, standing: Standing) -> None:
        self.metrics.breaker(name, standing.breaker)
        if not self._stopping:
            self._clock.set(name, standing.next_due_at)

    def _ring(self, name: str, due: datetime) -> None:
        if self._stopping or name not in self.plan.polled:
            return
        if name in self._running:
            self.metrics.job_missed(name)
            return
        late_s = (self.utc_now() - due).total_seconds()
        log.debug("begins", extra={"provider": name, "late_seconds": round(late_s, 3)})
        provider = self.plan.polled[name].provider
        limit_s = provider.poll_deadline.total_seconds() + GRACE_S + RECORDING_S
        task = asyncio.create_task(self._run(name), name=f"poll {name}")
        self._running[name] = _Running(task, time.monotonic() + limit_s)

    async def _run(self, name: str) -> None:
        try:
            await self.poll(name)
        except Exception as error:  # a mistake of ours must not end the polls of this provider
            log.error("%s: internal error: %s", name, self.plan.app.redactor.error(error))
            log.debug("details", exc_info=error)
            if name in self.plan.polled and name in self.standings:
                soonest = self.utc_now() + self.plan.polled[name].pace.at_least
                self.standings[name] = replace(self.standings[name], next_due_at=soonest)
        finally:
            self._running.pop(name, None)
            self._ended += 1
            if name in self.plan.polled and name in self.standings:
                self._arm(name, self.standings[name])


def _standing(kept: StoredStanding | None, polled: Polled, now: datetime) -> Standing:
    if kept is None:
        return breaker.first(polled.name, polled.pace, now)
    standing = Standing(
        kept.next_due_at, kept.failures, cast("breaker.Breaker", kept.breaker),
        kept.outage_since, kept.reason,
    )  # fmt: skip
    return breaker.resumed(standing, polled.pace, now, updated_at=kept.updated_at)


def _attempt(outcome: PollOutcome, began_at: datetime) -> Attempt:
    asked = outcome.retry_after_s
    return Attempt(
        began_at,
        breaker.verdict_of(outcome.status, outcome.http_status),
        outcome.reason,
        None if asked is None else timedelta(seconds=min(max(asked, 0), 10**7)),
        reached=outcome.requests == 0 or outcome.http_status is not None or outcome.bytes > 0,
    )

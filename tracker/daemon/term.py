"""One term of office: everything that this process does while it leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tracker.alert.deliver import Deliverer
from tracker.collect import Collector, PollOutcome
from tracker.daemon.alerting import Alerting
from tracker.daemon.database import Link
from tracker.daemon.outages import Outages
from tracker.daemon.plan import Plan
from tracker.daemon.polling import Poller
from tracker.http import HostGate
from tracker.store import retention
from tracker.store.errors import StoreError
from tracker.store.outbox import Outbox
from tracker.store.polls import Recorder
from tracker.store.responses import StoredResponses
from tracker.store.schedule import Schedule

if TYPE_CHECKING:
    from tracker.web.metrics import Metrics

log = logging.getLogger(__name__)

HOUSEKEEPING_S = 24 * 3600.0
HOUSEKEEPING_FIRST_S = 60.0  # not while everything else begins
HOUSEKEEPING_AGAIN_S = 600.0  # after the database did not answer
PACKS_AT_ONCE = 50  # months of a GPU that are packed before the term may end
LET_GO_S = 2.0  # that cancelled work gets to end


class Term:
    """Polls, evaluates, sends and tidies up from ``begin`` to ``end``.

    Every write is refused once another leads. *on_trouble* is told of errors of the database.
    """

    def __init__(
        self, plan: Plan, link: Link, deliverer: Deliverer, metrics: Metrics, outages: Outages,
        gates: dict[str, HostGate], on_trouble: Callable[[StoreError], None], *,
        utc_now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:  # fmt: skip
        self.plan = plan
        self._url, self._gates, self._utc_now = link.url, gates, utc_now
        self._outages, self._on_trouble = outages, on_trouble
        engine, guard = link.engine, link.leadership.guard
        self._recorder = Recorder(engine, guard)
        self._responses = StoredResponses(engine)
        self._outbox = Outbox(engine, guard)
        self.alerting = Alerting(plan, link, deliverer, metrics, outages, on_trouble, utc_now)
        self.poller = Poller(
            plan, self._collector(plan), Schedule(engine, guard), metrics, outages,
            self._recorded, on_trouble, utc_now=utc_now,
        )  # fmt: skip
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Start to work. Raises StoreError."""
        await self.poller.start()
        self.alerting.start()
        self._tasks = [asyncio.create_task(self._tidy(), name="housekeeping")]

    async def once(self) -> list[PollOutcome | None]:
        """Instead of ``begin``: one round of everything; how the polls went. Raises StoreError."""
        await self.poller.load()
        outcomes = await self.poller.poll_due()
        await self.alerting.once()
        await self._keep_up()
        return outcomes

    async def end(self, grace_s: float = 0.0) -> None:
        """Stop: polls and notices under way get *grace_s* seconds to come to their end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self.poller.stop(grace_s), self.alerting.stop(grace_s))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LET_GO_S)

    def follow(self, plan: Plan) -> None:
        """Go by another plan from now on."""
        self.plan = plan
        self.poller.follow(plan, self._collector(plan))
        self.alerting.follow(plan)

    def tick(self) -> None:
        """Look at the clock; to be called every few seconds."""
        self.poller.tick()

    def clock_was_set(self, by: timedelta) -> None:
        """The wall clock was set back."""
        self.poller.clock_was_set(by)

    def _collector(self, plan: Plan) -> Collector:
        return plan.app.collector_on(self._url, self._recorder, self._responses, self._gates)

    def _recorded(self, outcome: PollOutcome) -> None:
        if outcome.ok:
            self.alerting.wake()

    async def _tidy(self) -> None:
        """Once a day, forget what is older than it is kept and bring the history in order."""
        pause = HOUSEKEEPING_FIRST_S
        while True:
            await asyncio.sleep(pause)
            pause = HOUSEKEEPING_S
            try:
                await self._keep_up()
            except StoreError as error:
                self._outages.store_failed("tidying up", error)
                self._on_trouble(error)
                pause = HOUSEKEEPING_AGAIN_S
            else:
                self._outages.works("tidying up")

    async def _keep_up(self) -> None:
        await asyncio.to_thread(self._forget)
        now = self._utc_now()
        months = self.plan.app.settings.retention.span_months
        done = await asyncio.to_thread(retention.keep_up, self._url, now, months)
        if done.rebuilt:
            log.info("built the price floor of %s", ", ".join(done.rebuilt))
        if done.forgotten:
            log.info("forgot %d months of single offers' prices", len(done.forgotten))
        while await asyncio.to_thread(retention.build_packs, self._url, now, PACKS_AT_ONCE):
            pass

    def _forget(self) -> None:
        """Delete providers' answers and ended notices that were kept long enough."""
        app, now = self.plan.app, self._utc_now()
        answers = self._responses.forget_older_than(now - app.archive_retention)
        notices = self._outbox.prune(now - timedelta(days=app.settings.alerts.keep_days))
        log.debug("forgot %d answers and %d notices", answers, notices)

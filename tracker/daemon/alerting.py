"""Evaluating the alert rules and sending notices, for as long as we lead."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tracker.alert.deliver import Deliverer, Pace
from tracker.alert.engine import AlertEngine
from tracker.alert.estimates import EstimateKeeper
from tracker.daemon.database import Link
from tracker.daemon.outages import Outages
from tracker.daemon.plan import Plan
from tracker.http import outgoing
from tracker.store.errors import StoreError

if TYPE_CHECKING:
    from tracker.web.metrics import Metrics

log = logging.getLogger(__name__)

TICK_S = 15.0  # rules have timers, which run out without a poll
AGAIN_S = 5.0  # after something went wrong
HEARTBEAT_S = 10.0  # that a dead man's switch may take to answer
LET_GO_S = 2.0
BEATS_APART_S = 30.0


class Alerting:
    """Evaluates after polls and every few seconds; sends what is in the outbox meanwhile.

    *deliverer* may have worked before: it remembers what it has sent and could not mark as sent.
    """

    def __init__(
        self, plan: Plan, link: Link, deliverer: Deliverer, metrics: Metrics, outages: Outages,
        on_trouble: Callable[[StoreError], None], utc_now: Callable[[], datetime],
    ) -> None:  # fmt: skip
        self._plan, self._link, self._deliverer = plan, link, deliverer
        self._metrics, self._outages = metrics, outages
        self._on_trouble, self._utc_now = on_trouble, utc_now
        self._wake, self._stop = asyncio.Event(), asyncio.Event()
        self._sent_beat = -BEATS_APART_S
        self._tasks: list[asyncio.Task[None]] = []
        self._alerts, self._estimates = self._engine(), self._keeper()

    def start(self) -> None:
        """Begin, with what the last term left."""
        self._wake.set()
        self._tasks = [
            asyncio.create_task(self._evaluate_for_ever(), name="alerts"),
            asyncio.create_task(self._deliver_for_ever(), name="delivery"),
        ]

    async def once(self) -> None:
        """One round of both, without ``start``."""
        await self.evaluate()
        try:
            await self._deliverer.run_once()
        except StoreError as error:
            self._trouble("delivery", error)

    def wake(self) -> None:
        """New prices are recorded."""
        self._wake.set()

    async def stop(self, grace_s: float = 0.0) -> None:
        """Send nothing new; what is being sent gets *grace_s* seconds."""
        self._stop.set()
        if self._tasks and grace_s > 0:
            await asyncio.wait(self._tasks, timeout=grace_s)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LET_GO_S)

    def follow(self, plan: Plan) -> None:
        """Go by other rules and channels from now on."""
        self._plan = plan
        self._alerts, self._estimates = self._engine(), self._keeper()
        self._deliverer.reload(plan.channels, templates(plan))
        self._wake.set()

    # -- evaluating --------------------------------------------------------------------------------

    async def _evaluate_for_ever(self) -> None:
        while not self._stop.is_set():
            await _first(self._wake, self._stop, TICK_S)
            self._wake.clear()
            if not self._stop.is_set() and not await self.evaluate():
                await _first(self._stop, self._stop, AGAIN_S)

    async def evaluate(self) -> bool:
        """Evaluate the rules that are due; whether that went well."""
        began = time.monotonic()
        try:
            found = await asyncio.to_thread(self._alerts.evaluate, self._utc_now())
            await asyncio.to_thread(self._estimates.record, self._utc_now())
        except StoreError as error:
            self._trouble("alerts", error)
            return False
        except Exception as error:
            self._mistake("alerts", error)
            return False
        self._outages.works("alerts")
        for one in found:
            what = f"alert rule {one.rule}"
            if one.problem is None:
                self._outages.works(what)
            else:
                self._outages.failed(what, one.problem)
        if found:
            results = [(one.rule, str(one.health)) for one in found]
            self._metrics.evaluated(results, time.monotonic() - began)
            self._deliverer.wake()
        await self._beat()
        return True

    async def _beat(self) -> None:
        """Tell the dead man's switch that rules are still evaluated."""
        url = self._plan.app.settings.daemon.heartbeat_url
        if url is None or time.monotonic() - self._sent_beat < BEATS_APART_S:
            return
        self._sent_beat = time.monotonic()
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                # Whoever set it may well run the switch at home.
                reply = await outgoing.post(
                    url.get_secret_value(), b"", {}, now=self._utc_now(), allow_private=True
                )
            problem = None if reply.status < 300 else f"HTTP {reply.status}"
        except Exception as error:
            problem = self._plan.app.redactor.error(error)
        if problem is None:
            self._outages.works("heartbeat")
        else:
            self._outages.failed("heartbeat", problem)

    # -- delivering --------------------------------------------------------------------------------

    async def _deliver_for_ever(self) -> None:
        while not self._stop.is_set():
            try:
                await self._deliverer.run(self._stop)
                self._outages.works("delivery")
            except Exception as error:
                self._mistake("delivery", error)
                await _first(self._stop, self._stop, AGAIN_S)

    # -- how ---------------------------------------------------------------------------------------

    def _engine(self) -> AlertEngine:
        plan = self._plan
        return AlertEngine(
            self._link.engine, plan.rules, plan.app.catalogue,
            guard=self._link.leadership.guard, sources=plan.polled.keys(),
            left_out=[name for name, _ in plan.left_out], broken=plan.broken,
            channels=plan.channels.keys(),
        )  # fmt: skip

    def _keeper(self) -> EstimateKeeper:
        plan = self._plan
        return EstimateKeeper(
            self._link.engine, plan.rules, plan.app.catalogue, self._link.leadership.guard
        )

    def _trouble(self, what: str, error: StoreError) -> None:
        self._outages.store_failed(what, error)
        self._on_trouble(error)

    def _mistake(self, what: str, error: Exception) -> None:
        told = self._plan.app.redactor.error(error)
        self._outages.failed(what, f"internal error: {told}; please report it")
        log.debug("details", exc_info=error)


def make_deliverer(
    plan: Plan, link: Link, metrics: Metrics, outages: Outages,
    on_trouble: Callable[[StoreError], None], *, group_wait_s: float | None = None,
) -> Deliverer:  # fmt: skip
    """What sends the notices of *plan*. *group_wait_s* overrides how long one waits for others."""

    def on_store(error: StoreError | None) -> None:
        if error is None:
            outages.works("delivery")
        else:
            outages.store_failed("delivery", error)
            on_trouble(error)

    alerts, app = plan.app.settings.alerts, plan.app
    wait_s = alerts.group_wait_seconds if group_wait_s is None else group_wait_s
    return Deliverer(
        link.engine, plan.channels, redactor=app.redactor, guard=link.leadership.guard,
        templates=templates(plan),
        pace=Pace(
            group_wait=timedelta(seconds=wait_s), give_up=timedelta(hours=alerts.give_up_hours),
            drain=timedelta(seconds=app.settings.daemon.drain_seconds),
        ),
        on_result=lambda channel, result, _: metrics.delivered(channel, result),
        on_store=on_store,
    )  # fmt: skip


def templates(plan: Plan) -> dict[str, str]:
    """The rules' own templates, by rule."""
    return {rule.name: rule.template for rule in plan.rules if rule.template is not None}


async def _first(one: asyncio.Event, other: asyncio.Event, seconds: float) -> None:
    """Wait for either, but not longer than that."""
    waits = [asyncio.create_task(event.wait()) for event in {one, other}]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()

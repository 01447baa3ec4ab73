"""The daemon: it waits for the database, leads or stands by, reloads, and ends in order.

One loop asks every few seconds whether this process leads. While it does, a ``Term`` polls,
evaluates and sends; with the first doubt the term ends, and another may begin.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tracker.alert.deliver import Deliverer
from tracker.app import App
from tracker.daemon import memory, site
from tracker.daemon.alerting import make_deliverer, templates
from tracker.daemon.database import Database, Link, may_pass
from tracker.daemon.outages import Outages, lasted
from tracker.daemon.plan import Plan, doubts_of, make_plan
from tracker.daemon.reloading import Reloads, only_at_start, read_again
from tracker.daemon.status import DaemonStatus
from tracker.daemon.systemd import Notifier
from tracker.daemon.term import Term
from tracker.daemon.wallclock import WallClock
from tracker.http import HostGate
from tracker.registry import UnknownProvider
from tracker.settings import SettingsError
from tracker.store.errors import StoreError
from tracker.store.leader import NotLeading
from tracker.telemetry import setup_logging
from tracker.web.app import make_web
from tracker.web.figures import StoreFigures
from tracker.web.metrics import Metrics
from tracker.web.server import serve

log = logging.getLogger(__name__)

CYCLE_S = 3.0  # between two looks at who leads and what time it is
SLOWEST_CYCLE_S = 90.0  # with every time limit of the database used up
DOUBTS_S = 15.0
STARTING_S = 60.0  # that the service manager is asked to wait for the database, again and again
THREADS = 24  # a poll whose thread never ends must leave enough of them for the others
AT_LAST_S = 5.0  # after a second signal the process ends, whatever still runs
AT_ONCE_S = 2.0  # that tasks get to notice that they are cancelled
# That the database gets to take the lead back, and an embedded one to end. deploy/gpucost.service
# allows for it beside drain_seconds; one that hangs must not keep the process.
GIVE_BACK_S = 30.0

# They tell of their own lives; the pool writes a traceback for every connection that was lost.
_TALKATIVE = {
    "alembic": logging.WARNING, "apscheduler": logging.WARNING, "uvicorn": logging.WARNING,
    "sqlalchemy.pool": logging.CRITICAL,
}  # fmt: skip


class Daemon:
    """One daemon, for one ``run``. *config* and *env* are where its settings come from."""

    def __init__(
        self, config: str | Path | None = None, env: Mapping[str, str] | None = None, *,
        cycle_s: float = CYCLE_S, utc_now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:  # fmt: skip
        """Reads the configuration. Raises SettingsError, UnknownProvider."""
        self._config, self._env = config, env
        self._cycle_s, self._utc_now = cycle_s, utc_now
        app = App(config, env)
        _log_as(app)
        self.plan = make_plan(app)
        self.settings = app.settings.daemon
        self.holder = f"{socket.gethostname()}:{os.getpid()}"
        self.outages = Outages()
        self.notifier = Notifier(os.environ if env is None else env)
        self.term: Term | None = None
        self.stopping = False
        self.reload_error: str | None = None
        self.doubts: tuple[str, ...] = ()
        self.status = DaemonStatus(self)
        self.metrics = Metrics(
            StoreFigures(self.status.database_url, app.catalogue, lambda: self.plan.jobs)
        )
        self.database = Database(app, self.holder)
        # It outlives terms: it knows what was sent and could not be marked as sent.
        self._deliverer: tuple[Link, Deliverer] | None = None
        self._gates: dict[str, HostGate] = {}
        self._connected = False
        self._ready = False
        self._ticked = time.monotonic()
        self._stop, self._at_once, self._hurry = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._exit_code = 0
        self._reloads = Reloads(self._reload)
        self._upkeep = memory.Upkeep()

    # -- living ------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Run until a signal ends it; the exit code. Raises StoreError and CannotListen at the
        start, when waiting cannot help."""
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(THREADS, thread_name_prefix="gpucost"))
        self._listen_to_signals(loop)
        stop_web = asyncio.Event()
        tasks: list[asyncio.Task[None]] = []
        try:
            tasks.append(await self._start_web(stop_web))
            tasks.append(_task(self._feed_watchdog(), "watchdog"))
            await self._cycle_until_stopped()
        finally:
            self.stopping = True
            self.notifier.stopping()
            await self._end()
            stop_web.set()
            await _ended(tasks)
            await self._give_back()
        log.info("stopped")
        return self._exit_code

    async def _cycle_until_stopped(self) -> None:
        cycle = _task(self._cycles(), "cycle")
        stopped = _task(self._stop.wait(), "stop")
        try:
            await asyncio.wait({cycle, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if cycle.done():
                cycle.result()
        finally:
            await _ended([cycle, stopped])

    async def _cycles(self) -> None:
        clock = WallClock(self._utc_now)
        while True:
            self._hurry.clear()
            await self._cycle()
            if (by := clock.jump()) is not None:
                self._clock_was_set(by)
            if self.term is not None:
                self.term.tick()
            if self._upkeep.due(self.term.poller if self.term is not None else None):
                await asyncio.to_thread(memory.give_back)
            self._ticked = time.monotonic()
            pause = self._cycle_s * random.uniform(0.8, 1.2)  # noqa: S311 - contenders drift apart
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._hurry.wait()
                    await asyncio.sleep(self._cycle_s / 10)  # not faster, however much is wrong

    async def _cycle(self) -> None:
        """Lead if nobody else does. Raises StoreError when that can never become better."""
        try:
            if not self._connected:
                await asyncio.to_thread(self.database.open)
                self._connected = True
            if (link := self.database.link) is None:
                return
            if self.term is not None:
                await asyncio.to_thread(link.leadership.verify)
            elif await asyncio.to_thread(link.leadership.acquire):
                await self._begin(link)
        except NotLeading as error:
            log.warning("standing by: %s", error)
            await self._resign()
        except StoreError as error:
            if not self._ready and not may_pass(error):
                raise
            self.outages.store_failed("leading", error)
            self._connected = False
            await self._resign()
            if not self._ready:
                self.notifier.starting(f"waiting for the database: {error}", STARTING_S)
        else:
            self.outages.works("database")
            self.outages.works("leading")
            await self._say_ready()

    async def _begin(self, link: Link) -> None:
        if self._deliverer is None or self._deliverer[0] is not link:
            made = make_deliverer(
                self.plan, link, self.metrics, self.outages, lambda _: self._hurry.set()
            )
            self._deliverer = link, made
        deliverer = self._deliverer[1]
        deliverer.reload(self.plan.channels, templates(self.plan))
        term = Term(
            self.plan, link, deliverer, self.metrics, self.outages, self._gates,
            lambda _: self._hurry.set(), utc_now=self._utc_now,
        )  # fmt: skip
        try:
            await term.begin()
        except BaseException:
            await term.end()
            raise
        if term.plan is not self.plan:  # it was reloaded meanwhile
            term.follow(self.plan)
        self.term = term
        self._upkeep.ask()
        self.metrics.leader(True)
        log.info("leading as %s, term %s; polling %s", self.holder, link.leadership.epoch,
                 ", ".join(self.plan.polled) or "nobody")  # fmt: skip

    async def _resign(self) -> None:
        """Stop all work at once: somebody else may have begun."""
        term, self.term = self.term, None
        self.metrics.leader(False)
        if term is not None:
            await term.end()
        if self.database.link is not None:
            await asyncio.to_thread(self.database.link.leadership.release)

    async def _say_ready(self) -> None:
        if self._ready:
            return
        self._ready = True
        await self.look_for_doubts(self.plan)
        if self.term is None:
            log.info("standing by as %s: another daemon leads", self.holder)
        if not self.plan.polled:
            log.warning("no provider is configured: nothing will be polled")
        self.tell_what_is_wrong()
        self.notifier.ready("leading" if self.term is not None else "standing by")

    async def look_for_doubts(self, plan: Plan) -> None:
        """Compare what the rules of *plan* name with what the database knows, if it answers."""
        self.doubts = ()
        if (link := self.database.link) is not None:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(DOUBTS_S):  # a reload waits for it, and others for that
                    self.doubts = await asyncio.to_thread(doubts_of, plan, link.url)

    def tell_what_is_wrong(self) -> None:
        """One line for everything of the configuration that is left out, or is doubtful."""
        for name, reason in self.plan.left_out:
            log.warning("%s is left out: %s", name, reason)
        for problem in self.plan.problems:
            log.warning("left out: %s", problem)
        for doubt in self.doubts:
            log.warning("doubtful: %s", doubt)

    def _clock_was_set(self, by: timedelta) -> None:
        seconds = by.total_seconds()
        if seconds > 0:
            log.warning("%s are missing: the machine slept, or its clock was set; what is overdue "
                        "is done once", lasted(seconds))  # fmt: skip
        else:
            log.warning("the clock was set back by %s", lasted(-seconds))
            if self.term is not None:
                self.term.clock_was_set(by)

    # -- ending ------------------------------------------------------------------------------------

    async def _end(self) -> None:
        """Let what is under way end, for as long as it may take; at once after a second signal."""
        self._reloads.cancel()
        if self.term is not None:
            draining = _task(self.term.end(self.settings.drain_seconds), "drain")
            hurried = _task(self._at_once.wait(), "second signal")
            await asyncio.wait(
                {draining, hurried}, return_when=asyncio.FIRST_COMPLETED,
                timeout=self.settings.drain_seconds + 2 * AT_ONCE_S,
            )  # fmt: skip
            await _ended([draining, hurried])
            self.term = None
        self.metrics.leader(False)

    async def _give_back(self) -> None:
        """Let go of the lead and the database. Raises StoreError."""
        try:
            async with asyncio.timeout(GIVE_BACK_S):
                await asyncio.to_thread(self.database.close)
        except TimeoutError:
            # A server frees the lead by itself once it sees that the connection has ended.
            log.warning("the database has not answered for %g s: ending without it", GIVE_BACK_S)

    # -- signals -----------------------------------------------------------------------------------

    def _listen_to_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._reloads.ask)

    def _told_to_stop(self, number: signal.Signals) -> None:
        if self._stop.is_set():
            log.warning("%s again: stopping at once", number.name)
            self._exit_code = 128 + number
            self._at_once.set()
            # Should a thread keep us, that waits for something that does not come.
            end = threading.Timer(AT_LAST_S, os._exit, (self._exit_code,))
            end.daemon = True
            end.start()
            return
        busy = ", ".join(self.term.poller.running) if self.term is not None else ""
        waiting = f"; up to {self.settings.drain_seconds:g} s for {busy}" if busy else ""
        log.info("%s: stopping%s", number.name, waiting)
        self._stop.set()

    async def _reload(self) -> None:
        """Read the configuration anew; keep the old one when anything in it is wrong."""
        self.notifier.reloading()
        try:
            plan = await asyncio.to_thread(read_again, self.plan, self._config, self._env)
        except (SettingsError, UnknownProvider) as error:
            self.reload_error = self.plan.app.redactor(str(error))
            log.error("the configuration is not reloaded, the old one stays: %s", error)
        else:
            self.reload_error = None
            await self.look_for_doubts(plan)
            self._take_up(plan)
        self.notifier.ready("leading" if self.term is not None else "standing by")

    def _take_up(self, plan: Plan) -> None:
        before, self.plan = self.plan, plan
        self._upkeep.ask()
        _log_as(plan.app)
        for name in sorted(only_at_start(before, plan)):
            log.warning("%s has changed: restart the daemon for it", name)
        if self.term is not None:
            self.term.follow(plan)
        log.info("configuration reloaded; polling %s", ", ".join(plan.polled) or "nobody")
        self.tell_what_is_wrong()

    # -- being watched -----------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        """Whether the loop goes round and no provider's poll hangs."""
        going = time.monotonic() - self._ticked < SLOWEST_CYCLE_S + self._cycle_s
        return self.stopping or (going and not (self.term and self.term.poller.hung))

    async def _feed_watchdog(self) -> None:
        seconds = self.notifier.watchdog_seconds
        while seconds is not None:
            if self.alive:
                self.notifier.alive()
            await asyncio.sleep(seconds / 3)

    async def _start_web(self, stop: asyncio.Event) -> asyncio.Task[None]:
        """Serve, if that is wanted, and return once connections are accepted."""
        if not self.settings.serve:
            return _task(asyncio.sleep(0), "web")
        listening = asyncio.Event()

        def on_port(port: int) -> None:
            where = self.settings.listen
            log.info("serving /livez, /metrics, /api and pages on %s port %d", where, port)
            listening.set()

        asked_for = "listen" in self.settings.model_fields_set
        beside = site.routes(lambda: self.plan, self.status.database_url, self._config, self._env)
        app = make_web(self.status, self.metrics, beside, self.settings.allow_hosts)
        web = _task(
            serve(app, self.settings.listen, self.settings.port, stop, on_port, remote=asked_for),
            "web",
        )
        waiting = _task(listening.wait(), "listening")
        await asyncio.wait({web, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if web.done():
            waiting.cancel()
            web.result()
        return web


def _log_as(app: App) -> None:
    """A daemon tells what it does, unless the level was set to say less."""
    settings = app.settings
    level = settings.log_level if "log_level" in settings.model_fields_set else "info"
    setup_logging(level, settings.log_format, redactor=app.redactor)
    for name, quiet in _TALKATIVE.items():
        logging.getLogger(name).setLevel(logging.NOTSET if level == "debug" else quiet)


def _task(work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
    return asyncio.create_task(work, name=name)


async def _ended(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel what still runs and wait until it has noticed, but not for ever."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=AT_ONCE_S)

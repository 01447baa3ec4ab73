"""Moments at which a daemon can be killed, and how to hit them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

import psycopg
from psycopg import sql

from tests.daemon.world import PATIENCE_S, Running, until
from tests.e2e.stage import CHANNELS, CHEAP, DEAR, Noted, Stage, noted, settled, under_way
from tests.support.replay import Answer, Request

# A daemon that wants to write to one of these waits while a test holds it: it is then in the
# middle of recording a poll, of evaluating, of taking a message, of marking it, or of planning.
HELD = ("offer_now", "poll", "schedule", "alert_rule", "alert_event", "alert_outbox", "leader")

_BLOCKED = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
AND application_name LIKE 'gpucost%%' AND wait_event_type = 'Lock'
"""
SHORT_S = 20.0  # after which a moment that does not come is given up


def moments() -> list[str]:
    """All of them: at some time, at a request of a poll, with a message under way, and inside."""
    return ["time", "poll", *CHANNELS, *(f"in {table}" for table in HELD)]


class Reaper:
    """Kills *victim* at the moment it is told to. ``cut_short`` counts the messages that were
    under way, ``kills`` the moments hit."""

    def __init__(self, stage: Stage, rng: random.Random) -> None:
        self.stage, self.rng = stage, rng
        self.cut_short: Counter[tuple[str, str]] = Counter()
        self.kills: Counter[str] = Counter()

    def kill(self, victim: Running, moment: str) -> None:
        """Wait for *moment*, or for a while in vain, and kill."""
        assert victim.process.poll() is None, "\n".join(victim.log)
        if moment == "time":
            time.sleep(self.rng.uniform(0, 2.5))
        elif moment == "poll":
            self._at_a_request(victim)
        elif moment in CHANNELS:
            moment += "" if self._at_a_message(victim, moment) else " in vain"
        else:
            moment += "" if self._inside(victim, moment.removeprefix("in ")) else " in vain"
        victim.process.kill()
        victim.ends()
        self.kills[moment] += 1
        self.cut_short.update(under_way(self.stage.url()))

    def _at_a_request(self, victim: Running) -> None:
        """Shortly after a provider was asked: its answer is being read and recorded."""
        requests = self.stage.server.requests
        wanted = len(requests) + self.rng.randint(1, 4)
        with suppress(AssertionError):
            until(lambda: len(requests) >= wanted, patience_s=SHORT_S)
        time.sleep(self.rng.uniform(0, 0.3))

    def _at_a_message(self, victim: Running, channel: str) -> bool:
        """A message has come, and its sender does not hear of it, or just did."""
        before, late = len(self.stage.arrived(channel)), self.rng.random() < 0.3
        with nullcontext() if late else self._shot(victim, channel):
            with suppress(AssertionError):
                until(lambda: len(self.stage.arrived(channel)) > before, patience_s=SHORT_S)
                if late:
                    time.sleep(self.rng.uniform(0, 0.03))
            return len(self.stage.arrived(channel)) > before

    @contextmanager
    def _shot(self, victim: Running, channel: str) -> Iterator[None]:
        """The receiver kills whoever brings a message, before it answers."""

        def shoot() -> None:
            victim.process.kill()
            victim.process.wait()

        def take(_: Request) -> Answer:
            shoot()
            return Answer(b"ok")

        hook, mail = self.stage.hook, self.stage.mail
        if channel == "hook":
            hook.on_post = take
        else:
            mail.on_mail = shoot
        try:
            yield
        finally:
            hook.on_post = mail.on_mail = None

    def _inside(self, victim: Running, table: str) -> bool:
        """In the middle of a transaction that writes to *table*."""
        lock = sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(sql.Identifier(table))
        url = self.stage.url()
        with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as watcher:
            holder.execute(lock)
            with suppress(AssertionError):
                until(lambda: watcher.execute(_BLOCKED).fetchall() != [(0,)],
                      patience_s=SHORT_S)  # fmt: skip
                victim.process.kill()
                victim.process.wait()
                return True
        return False


class Script:
    """The prices, that cross each time the crossing before is in the books, and not earlier."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.crossings = stage, 0

    def turn(self) -> None:
        """The next crossing."""
        self.crossings += 1
        self.stage.ask(CHEAP if self.crossings % 2 else DEAR)

    def booked(self) -> bool:
        """Whether the last crossing is recorded as an event."""
        return len(self._events()) >= self.crossings

    def told(self) -> bool:
        """Whether everything that happened has been told."""
        events = self._events()
        return len(events) >= self.crossings and all(map(settled, events))

    def _events(self) -> list[Noted]:
        """None while the database is away."""
        with suppress(psycopg.OperationalError):
            return noted(self.stage.url())
        return []

    def wait(
        self, met: Callable[[], bool], *daemons: Running, patience_s: float = PATIENCE_S
    ) -> None:
        """Wait until *met*; what *daemons* have logged is shown if that does not happen."""
        try:
            until(met, patience_s=patience_s)
        except AssertionError as error:
            logs = "\n\n".join("\n".join(daemon.log) for daemon in daemons)
            state = f"crossing {self.crossings}, {noted(self.stage.url())}"
            raise AssertionError(f"{state}\n{logs}") from error

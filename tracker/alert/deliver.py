"""The deliverer: takes notices from the outbox, sends them, and marks what came of it.

Nothing is sent inside a transaction. A crash between sending and marking sends the same message
again, under the same id: at least once, and no notice is lost. One channel's trouble is never
another's: each is served by a task of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tracker.alert import message, words
from tracker.notify.channel import Channel, Notice, Permanent, SendError, Transient
from tracker.store.errors import StoreError
from tracker.store.outbox import MAX_GROUP, MAX_WAIT, TEST, Claim, Guard, Outbox, Progress
from tracker.telemetry import Redactor, one_line

if TYPE_CHECKING:
    from sqlalchemy import Engine

log = logging.getLogger(__name__)

# Full jitter: each pause is drawn from nothing to an upper end that doubles up to half an hour.
BACKOFF = timedelta(seconds=15)
MAX_BACKOFF = timedelta(minutes=30)
MIN_PAUSE = timedelta(seconds=1)
PERMANENT_TRIES = 2  # a wrong answer once may be a deployment under way; twice it is an answer
LEAST_TRIES = 3  # before giving up for age: after a long stop, or a clock that jumped
UNKNOWN_TRIES = 3  # without an answer to what was handed over: each may be one more copy

SEND_TIMEOUT = timedelta(minutes=15)  # above what any channel allows itself
LEASE = timedelta(minutes=5)  # renewed while a message is under way
MESSAGES_PER_MINUTE = 20  # to one channel; what is beyond waits, and goes out in groups


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of notices, counted in rows of the outbox."""

    sent: int = 0
    retried: int = 0
    dead: int = 0

    def __add__(self, other: Delivered) -> Delivered:
        return Delivered(
            self.sent + other.sent, self.retried + other.retried, self.dead + other.dead
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """How delivery is timed. ``group_wait``: how long a notice waits for others that go to the
    same channel. ``give_up``: the age after which a failing notice is parked. ``poll``: how often
    the outbox is looked at. ``drain``: what a message under way may take after a stop."""

    group_wait: timedelta = timedelta(seconds=30)
    give_up: timedelta = timedelta(hours=24)
    poll: timedelta = timedelta(seconds=5)
    drain: timedelta = timedelta(seconds=10)


def holder_name() -> str:
    """A name for this process, that no other has."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}".replace(" ", "-")


class Deliverer:
    """Delivers to *channels*. One for a process, used from one event loop.

    *guard* is asked in every claim (so only the leader takes notices). *templates* are the rules'
    own, by rule. *on_result* is told of every message: channel, "sent", "retry" or "dead", and
    the number of notices in it. *on_store* is told by ``run`` how reading the outbox went: what
    was wrong, or None (unless given, that is logged). *clock* and *rng* are for tests.
    """

    def __init__(
        self,
        engine: Engine,
        channels: Mapping[str, Channel],
        *,
        redactor: Redactor,
        guard: Guard | None = None,
        templates: Mapping[str, str] | None = None,
        pace: Pace | None = None,
        holder: str | None = None,
        on_result: Callable[[str, str, int], None] = lambda channel, result, notices: None,
        on_store: Callable[[StoreError | None], None] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        rng: random.Random | None = None,
    ) -> None:
        self._outbox = Outbox(engine, guard)
        self._channels = dict(channels)
        self._templates = dict(templates or {})
        self._redactor = redactor
        self._pace = pace or Pace()
        self._holder = (holder or holder_name()).replace(" ", "-")
        self._on_result = on_result
        self._on_store = on_store or self._log_store
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - pauses, no secrets
        self._unmarked: dict[str, Callable[[], int]] = {}  # by token: sent, but not marked yet
        self._held: dict[str, datetime] = {}  # channels that asked for a pause, until then
        self._recent: dict[str, deque[datetime]] = {}
        self._down: dict[str, datetime] = {}  # channels that fail, since then
        self._strange: set[str] = set()  # channels with notices that nobody knows
        self._store_down = False
        self._woken = asyncio.Event()

    def reload(
        self, channels: Mapping[str, Channel], templates: Mapping[str, str] | None = None
    ) -> None:
        """Take other channels and templates, from the next message on."""
        self._channels = dict(channels)
        self._templates = dict(templates or {})
        self._strange.clear()

    def wake(self) -> None:
        """Look at the outbox now: something was put there."""
        self._woken.set()

    async def run_once(
        self, now: datetime | None = None, *, event_id: str | None = None
    ) -> Delivered:
        """Send everything that is due, and wait for it. With *event_id*: that event alone, at once.

        *now* stands for the clock. Raises StoreError.
        """
        waiting = await self._waiting(now)
        results = await asyncio.gather(
            *(self._serve(name, now, event_id) for name in waiting), return_exceptions=True
        )
        failures = [result for result in results if isinstance(result, BaseException)]
        if failures:
            raise failures[0]
        return sum((r for r in results if isinstance(r, Delivered)), Delivered())

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until *stop*; then finish what is under way, within ``pace.drain``.

        A database that goes away is waited for. Cancelled, it drops what is under way; its leases
        are given back in either case.
        """
        tasks: dict[str, asyncio.Task[Delivered]] = {}
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                self._woken.clear()
                await self._round(tasks)
                woken = asyncio.create_task(self._woken.wait())
                await asyncio.wait(
                    (stopping, woken), timeout=self._pace.poll.total_seconds(),
                    return_when=asyncio.FIRST_COMPLETED,
                )  # fmt: skip
                woken.cancel()
            if tasks:
                await asyncio.wait(tasks.values(), timeout=self._pace.drain.total_seconds())
        finally:
            stopping.cancel()
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            with contextlib.suppress(StoreError):
                await asyncio.to_thread(self._let_go)

    def _let_go(self) -> None:
        self._flush()
        self._outbox.release_all(self._holder, self._clock())

    async def _round(self, tasks: dict[str, asyncio.Task[Delivered]]) -> None:
        """Start a task for each channel that has something waiting and no task yet."""
        for name in [name for name, task in tasks.items() if task.done()]:
            self._ended(name, tasks.pop(name))
        try:
            for name in await self._waiting(None):
                if name not in tasks:
                    tasks[name] = asyncio.create_task(self._serve(name, None, None))
        except StoreError as error:
            self._on_store(error)
        else:
            self._on_store(None)

    def _ended(self, name: str, task: asyncio.Task[Delivered]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StoreError):
            self._on_store(error)
        elif error is not None:
            log.error("alert channel %s: %s", name, type(error).__name__, exc_info=error)

    def _log_store(self, error: StoreError | None) -> None:
        """One line when the outbox cannot be read, one when it can again."""
        if error is not None and not self._store_down:
            log.warning("alerts: nothing is delivered for now: %s", self._redactor.error(error))
        elif error is None and self._store_down:
            log.info("alerts: the outbox can be read again")
        self._store_down = error is not None

    async def _waiting(self, now: datetime | None) -> list[str]:
        """The channels to serve. Notices for channels that do not exist are marked as such."""
        await asyncio.to_thread(self._flush)
        waiting = await asyncio.to_thread(self._outbox.waiting)
        if set(waiting) - set(self._channels):
            strange = await asyncio.to_thread(
                self._outbox.unknown, list(self._channels), self._now(now), self._pace.give_up
            )
            for name in sorted(set(strange) - self._strange):
                log.error("alerts: no channel is called %r, and notices wait for it", name)
            self._strange.update(strange)
        return [name for name in waiting if name in self._channels]

    def _flush(self) -> None:
        """Mark what could not be marked before."""
        for token, mark in list(self._unmarked.items()):
            mark()
            self._unmarked.pop(token, None)

    async def _serve(self, name: str, now: datetime | None, event_id: str | None) -> Delivered:
        """Send the messages that are due on one channel, one after the other."""
        total = Delivered()
        while (channel := self._channels.get(name)) is not None:
            moment = self._now(now)
            if event_id is None and channel.groups and self._pauses(name, moment):
                break
            claim = await asyncio.to_thread(
                partial(
                    self._outbox.claim, name, holder=self._holder, now=moment, lease=LEASE,
                    group_wait=self._pace.group_wait if channel.groups else timedelta(0),
                    most=MAX_GROUP if channel.groups else 1, event_id=event_id,
                )
            )  # fmt: skip
            if claim is None:
                break
            total += await self._deliver(channel, claim, now)
        return total

    def _now(self, now: datetime | None) -> datetime:
        return self._clock() if now is None else now

    def _pauses(self, name: str, now: datetime) -> bool:
        """Whether the channel has asked for a pause, or has had its share for a minute."""
        if now < self._held.get(name, now) <= now + MAX_WAIT:
            return True
        recent = self._recent.setdefault(name, deque(maxlen=MESSAGES_PER_MINUTE))
        full = len(recent) == MESSAGES_PER_MINUTE
        return full and now - timedelta(minutes=1) < recent[0] <= now

    async def _deliver(self, channel: Channel, claim: Claim, now: datetime | None) -> Delivered:
        """Send one message and mark its rows."""
        began = self._now(now)
        self._recent.setdefault(claim.channel, deque(maxlen=MESSAGES_PER_MINUTE)).append(began)
        try:
            notice = await asyncio.to_thread(self._notice, channel, claim)
            async with self._held_claim(claim, now), asyncio.timeout(SEND_TIMEOUT.total_seconds()):
                await channel.send(notice)
        except SendError as error:
            return await self._failed(claim, error, self._now(now))
        except TimeoutError:
            reason = f"not done within {SEND_TIMEOUT.total_seconds():g} s"
            return await self._failed(claim, Transient(reason, unknown=True), self._now(now))
        except Exception as error:  # a fault of ours must not stop the others
            log.exception("alert channel %s", claim.channel)
            reason = f"cannot be sent ({type(error).__name__})"
            return await self._failed(claim, Transient(reason), self._now(now))
        ended = self._now(now)
        self._held.pop(claim.channel, None)
        since = self._down.pop(claim.channel, None)
        if since is not None:
            length = words.duration((ended - since).total_seconds())
            log.info("alert channel %s works again, after %s", claim.channel, length)
        self._on_result(claim.channel, "sent", len(claim.rows))
        await self._mark(claim, partial(self._outbox.sent, claim, ended))
        return Delivered(sent=len(claim.rows))

    @contextlib.asynccontextmanager
    async def _held_claim(self, claim: Claim, now: datetime | None) -> AsyncIterator[None]:
        """Renew the lease of *claim* as long as its message is under way."""

        async def renew() -> None:
            while True:
                await asyncio.sleep(LEASE.total_seconds() / 3)
                with contextlib.suppress(StoreError):  # then it runs out, as after a crash
                    await asyncio.to_thread(self._outbox.renew, claim, self._now(now), LEASE)

        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    def _notice(self, channel: Channel, claim: Claim) -> Notice:
        return replace(self._worded(channel, claim), told=claim.told)

    def _worded(self, channel: Channel, claim: Claim) -> Notice:
        contexts = [{**row.message, "event_id": row.event_id} for row in claim.rows]
        try:
            return message.notice(
                contexts, claim.batch, redactor=self._redactor,
                max_characters=channel.max_characters, templates=self._templates,
            )  # fmt: skip
        except Exception:  # what cannot be worded must be told all the same
            log.exception("alerts: a notice cannot be worded")
            return _bare(claim)

    async def _failed(self, claim: Claim, error: SendError, now: datetime) -> Delivered:
        """Try again later, or give up. The channel itself is never given up."""
        reason = self._redactor.error(error)
        progress = _progress(claim, error)
        name, tries = claim.channel, max(row.attempts for row in claim.rows)
        asked = error.retry_after_s if isinstance(error, Transient) else None
        wait = self._pause(tries, asked)
        if asked:
            self._held[name] = now + wait
        if name not in self._down:
            log.warning("alert channel %s: %s", name, reason)
            self._down[name] = now
        why = self._given_up(claim, error, tries, now)
        if why is None:
            await self._mark(
                claim, partial(self._outbox.retry, claim, now, now + wait, reason, progress)
            )
            self._on_result(name, "retry", len(claim.rows))
            return Delivered(retried=len(claim.rows))
        events = ", ".join(row.event_id for row in claim.rows)
        log.error("alert channel %s: %s is given up, %s: %s", name, events, why, reason)
        await self._mark(
            claim, partial(self._outbox.dead, claim, now, f"{why}: {reason}", progress)
        )
        self._on_result(name, "dead", len(claim.rows))
        return Delivered(dead=len(claim.rows))

    def _given_up(self, claim: Claim, error: SendError, tries: int, now: datetime) -> str | None:
        """Why the message is parked; None when it is tried again."""
        times = f"after {tries} {'try' if tries == 1 else 'tries'}"
        if all(row.kind == TEST for row in claim.rows):
            return times  # somebody waits for the answer
        if isinstance(error, Permanent):
            return times if tries >= PERMANENT_TRIES else None
        unknown = _progress(claim, error).unknown
        if unknown >= UNKNOWN_TRIES:
            return f"{times}, {unknown} of them without an answer, so that it may have arrived"
        age = now - min(row.created_at for row in claim.rows)
        if age >= self._pace.give_up and tries >= LEAST_TRIES:
            return f"{times} in {words.duration(age.total_seconds())}"
        return None

    def _pause(self, tries: int, asked_s: float | None) -> timedelta:
        """How long to wait after that many tries: full jitter, or what the server asks for."""
        upper = min(MAX_BACKOFF, BACKOFF * 2 ** min(tries - 1, 16))
        drawn = timedelta(seconds=self._rng.uniform(0, upper.total_seconds()))
        asked = timedelta(seconds=min(max(asked_s or 0.0, 0.0), MAX_WAIT.total_seconds()))
        return max(drawn, asked, MIN_PAUSE)

    async def _mark(self, claim: Claim, mark: Callable[[], int]) -> None:
        """Write what came of a message. While the database is away, that is kept in mind: the
        message is out, and must not go out again because of it."""
        try:
            rows = await asyncio.to_thread(mark)
        except StoreError:
            self._unmarked[claim.token] = mark
            raise
        if rows < len(claim.rows):
            log.info("alert channel %s: the lease of a message had run out", claim.channel)


def _progress(claim: Claim, error: SendError) -> Progress:
    """What is known of the message after this attempt."""
    unknown = isinstance(error, Transient) and error.unknown
    return Progress(claim.told | error.told, claim.unknown + unknown)


def _bare(claim: Claim) -> Notice:
    """The least that can be said: which rules, what kind, and where to look."""
    rows = [f"{one_line(row.rule)}: {row.kind}, event {row.event_id}" for row in claim.rows]
    sentence = "Something happened that could not be put into words: see gpucost alerts history."
    events: list[dict[str, Any]] = [
        {"event_id": row.event_id, "rule": row.rule, "kind": row.kind, "seq": row.seq}
        for row in claim.rows
    ]
    return Notice(claim.batch, "gpucost: an alert", "\n".join([sentence, "", *rows]), None,
                  {"events": events})  # fmt: skip

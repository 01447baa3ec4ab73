"""The daemon's alarm clock: APScheduler, used as a clock and nothing else.

When something is due is decided and kept elsewhere (``breaker``, the ``schedule`` table); here one
alarm a provider waits for its moment. An alarm only ever wakes: what takes time runs in tasks of
its own, so that no alarm can keep another from ringing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from apscheduler.events import (  # type: ignore[import-untyped]
    EVENT_JOB_ERROR,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    JobEvent,
)
from apscheduler.schedulers.asyncio import AsyncIOScheduler  # type: ignore[import-untyped]
from apscheduler.triggers.date import DateTrigger  # type: ignore[import-untyped]

log = logging.getLogger(__name__)

AGAIN = timedelta(seconds=1)  # after which an alarm that was lost is set anew


class AlarmClock:
    """One alarm a name. ``ring`` is called in the event loop with the name and the moment that
    the alarm was set to; ``lost`` with the name of an alarm that could not ring in time."""

    def __init__(self, ring: Callable[[str, datetime], None], lost: Callable[[str], None]) -> None:
        self._ring = ring
        self._lost = lost
        self._due: dict[str, datetime] = {}
        # A run that is late, however late (the machine slept), still counts, and counts once.
        self._scheduler = AsyncIOScheduler(
            timezone=UTC,
            job_defaults={"coalesce": True, "misfire_grace_time": None, "max_instances": 1},
        )
        self._scheduler.add_listener(
            self._on_trouble, EVENT_JOB_ERROR | EVENT_JOB_MAX_INSTANCES | EVENT_JOB_MISSED
        )

    def start(self) -> None:
        """Begin to ring; in the event loop."""
        self._scheduler.start()

    def stop(self) -> None:
        """Ring no more."""
        self._due.clear()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def set(self, name: str, due: datetime) -> None:
        """Set the alarm of *name*, in place of an earlier one. What has passed rings at once."""
        self._due[name] = due
        self._scheduler.add_job(
            self._on_time, DateTrigger(due, timezone=UTC), args=(name, due), id=name,
            replace_existing=True,
        )  # fmt: skip

    def unset(self, name: str) -> None:
        """Take the alarm of *name* away."""
        self._due.pop(name, None)
        if self._scheduler.get_job(name) is not None:
            self._scheduler.remove_job(name)

    def check(self) -> None:
        """Look at the wall clock. Timers go by another clock, which stands still while the
        machine sleeps and knows nothing of a time that is set anew."""
        if self._scheduler.running:
            self._scheduler.wakeup()

    def shift(self, by: timedelta) -> None:
        """Move all alarms: the wall clock was set to another time."""
        for name, due in list(self._due.items()):
            self.set(name, due + by)

    @property
    def due(self) -> dict[str, datetime]:
        """The alarms that have not rung."""
        return dict(self._due)

    async def _on_time(self, name: str, due: datetime) -> None:
        # A coroutine, so that the scheduler calls it in the event loop and not in a thread.
        if self._due.get(name) == due:
            del self._due[name]
            self._ring(name, due)

    def _on_trouble(self, event: JobEvent) -> None:
        name = event.job_id
        log.debug("an alarm did not ring", extra={"provider": name, "code": event.code})
        self._lost(name)
        if name in self._due:
            self.set(name, datetime.now(UTC) + AGAIN)

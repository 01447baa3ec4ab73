"""Noticing that the wall clock was set, or that the machine slept."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

CLOCK_JUMP = timedelta(seconds=30)


class WallClock:
    """Notices when the wall clock and the one that only counts disagree."""

    def __init__(self, utc_now: Callable[[], datetime]) -> None:
        self._utc_now = utc_now
        self._last = utc_now(), time.monotonic()

    def jump(self) -> timedelta | None:
        """By how much the clock was set since the last call, None for what is no jump."""
        now, monotonic = self._utc_now(), time.monotonic()
        then, before = self._last
        self._last = now, monotonic
        by = now - then - timedelta(seconds=monotonic - before)
        return by if abs(by) > CLOCK_JUMP else None

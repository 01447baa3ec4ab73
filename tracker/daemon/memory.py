"""Keeping the process as small as what it needs, for months.

Two things make a process grow although nothing leaks. Objects that hold each other in a ring stay
until the collector of cycles comes by, and what is freed in the midst of other things stays with
the C library. Both are looked after here; where the C library is another one than glibc, it does
as it pleases.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

# The command line lets it look for cycles seldom, for commands that end in a second.
THRESHOLDS = (1_000, 10, 10)

EVERY_POLLS = 100
EVERY_S = 3600.0  # alerts are evaluated and questions answered without any poll, too

# Source: malloc.h of glibc.
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_MMAP_BYTES = 256 * 1024  # what is larger is mapped by itself, and given back when it is freed
_ARENAS = 2  # one for each of dozens of threads would keep free memory dozens of times


def settle() -> None:
    """Prepare a process that stays. To be called at its start, before there are many threads."""
    gc.set_threshold(*THRESHOLDS)
    mallopt = _of_libc("mallopt")
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MMAP_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)


def give_back() -> None:
    """Collect cycles and return free memory to the system. Takes a tenth of a second."""
    gc.collect()
    trim = _of_libc("malloc_trim")
    if trim is not None:
        trim(0)


class Polls(Protocol):
    """What ``Upkeep`` needs of a poller."""

    @property
    def running(self) -> Sequence[str]:
        """The providers that are being polled."""
        ...

    def take_ended(self) -> int:
        """How many polls have ended since the last call."""
        ...


class Upkeep:
    """When to ``give_back``: every EVERY_POLLS polls, every EVERY_S seconds, and after ``ask``."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._polls = 0
        self._asked = False
        self._last = monotonic()

    def ask(self) -> None:
        """Much was replaced just now."""
        self._asked = True

    def due(self, polls: Polls | None) -> bool:
        """Whether it is time; if so, it counts as done. Polls that are under way are waited for,
        but not for more than as much again."""
        if polls is not None:
            self._polls += polls.take_ended()
        passed = max(self._polls / EVERY_POLLS, (self._monotonic() - self._last) / EVERY_S)
        busy = polls is not None and bool(polls.running)
        if not (self._asked or passed >= 1) or (busy and passed < 2):
            return False
        self._polls, self._asked, self._last = 0, False, self._monotonic()
        return True


@functools.cache
def _of_libc(name: str) -> Callable[..., Any] | None:
    """A function of the C library that runs us, None when it has none of that name."""
    try:
        function: Callable[..., Any] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError, TypeError):  # musl, macOS; no such thing as None on Windows
        return None
    return function

"""The alarm clock: rings once, however late, and follows a wall clock that is set anew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.daemon.world import until
from tracker.daemon.schedule import AlarmClock
from tracker.daemon.wallclock import WallClock

SECOND = timedelta(seconds=1)


def now() -> datetime:
    return datetime.now(UTC)


class Rung:
    def __init__(self) -> None:
        self.calls: list[tuple[str, datetime]] = []
        self.lost: list[str] = []
        self.clock = AlarmClock(lambda name, due: self.calls.append((name, due)), self.lost.append)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


def with_clock(work: Callable[[Rung], Coroutine[Any, Any, None]]) -> Rung:
    async def main() -> Rung:
        rung = Rung()
        rung.clock.start()
        await work(rung)
        rung.clock.stop()
        await asyncio.sleep(0.05)
        return rung

    return asyncio.run(main())


async def eventually(met: Callable[[], object]) -> None:
    await asyncio.to_thread(until, met)


def test_each_rings_once_at_its_time() -> None:
    async def work(rung: Rung) -> None:
        rung.clock.set("b", now() + 0.3 * SECOND)
        rung.clock.set("a", now() + 0.1 * SECOND)
        rung.clock.set("never", now() + 3600 * SECOND)
        began = time.monotonic()
        await eventually(lambda: len(rung.calls) >= 2)
        assert time.monotonic() - began >= 0.25
        assert set(rung.clock.due) == {"never"}

    assert with_clock(work).names == ["a", "b"]


def test_what_is_overdue_by_days_rings_at_once_and_once() -> None:
    due = now() - timedelta(days=3)

    async def work(rung: Rung) -> None:
        rung.clock.set("a", due)
        await eventually(lambda: rung.calls)
        await asyncio.sleep(0.1)

    assert with_clock(work).calls == [("a", due)]


def test_an_alarm_may_be_set_anew_from_its_own_ring() -> None:
    async def work(rung: Rung) -> None:
        def again(name: str, due: datetime) -> None:
            rung.calls.append((name, due))
            if len(rung.calls) < 5:
                rung.clock.set(name, now())

        rung.clock._ring = again
        rung.clock.set("a", now())
        await eventually(lambda: len(rung.calls) >= 5)

    assert with_clock(work).names == ["a"] * 5


def test_the_last_setting_counts_and_one_that_is_unset_is_gone() -> None:
    async def work(rung: Rung) -> None:
        rung.clock.set("a", now() + 0.05 * SECOND)
        rung.clock.set("a", now() + 3600 * SECOND)
        rung.clock.set("b", now() + 0.05 * SECOND)
        rung.clock.unset("b")
        rung.clock.unset("b")
        rung.clock.set("c", now() + 0.1 * SECOND)
        await eventually(lambda: rung.calls)

    assert with_clock(work).names == ["c"]


def test_alarms_move_with_a_clock_that_was_set_back() -> None:
    async def work(rung: Rung) -> None:
        due = now() + 3600 * SECOND
        rung.clock.set("a", due)
        rung.clock.shift(-3601 * SECOND)
        await eventually(lambda: rung.calls)

    assert with_clock(work).names == ["a"]


def test_an_alarm_that_fails_is_told_and_harms_no_other() -> None:
    async def work(rung: Rung) -> None:
        def ring(name: str, due: datetime) -> None:
            if name == "bad":
                raise RuntimeError("no")
            rung.calls.append((name, due))

        rung.clock._ring = ring
        rung.clock.set("bad", now())
        await eventually(lambda: rung.lost)
        rung.clock.set("good", now())
        await eventually(lambda: rung.calls)

    rung = with_clock(work)
    assert (rung.lost, rung.names) == (["bad"], ["good"])


@pytest.mark.parametrize("hours", [-5, 5, 24 * 400])
def test_a_clock_that_is_set_is_noticed_once(hours: int) -> None:
    moved = timedelta()
    clock = WallClock(lambda: now() + moved)
    assert clock.jump() is None
    moved = timedelta(hours=hours)
    found = clock.jump()
    assert found is not None
    assert abs(found - moved) < SECOND
    assert clock.jump() is None

"""What keeps the process small: how often cycles are looked for, and when memory is given back."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.daemon import memory
from tracker.daemon.memory import EVERY_POLLS, EVERY_S, Upkeep


class Clock:
    """Seconds that the test lets pass."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Polled:
    """A poller of which so many polls have ended since it was asked last."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.ended = 0

    def take_ended(self) -> int:
        ended, self.ended = self.ended, 0
        return ended


@pytest.fixture
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


# -- when ------------------------------------------------------------------------------------------


def test_after_so_many_polls() -> None:
    upkeep, polls = Upkeep(Clock()), Polled()
    for _ in range(3):
        polls.ended = EVERY_POLLS - 1
        assert not upkeep.due(polls)
        polls.ended = 1
        assert upkeep.due(polls)


def test_after_so_many_seconds_without_any_poll() -> None:
    clock = Clock()
    upkeep = Upkeep(clock)
    clock.now += EVERY_S - 1
    assert not upkeep.due(None)
    clock.now += 1
    assert upkeep.due(None)
    assert not upkeep.due(None)


def test_when_asked_but_not_in_the_midst_of_a_poll() -> None:
    upkeep, polls = Upkeep(Clock()), Polled()
    upkeep.ask()
    polls.running = ["alpha"]
    assert not upkeep.due(polls)
    polls.running = []
    assert upkeep.due(polls)
    assert not upkeep.due(polls)


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.floats(0, 900)), max_size=200))
def test_somebody_who_always_polls_is_not_waited_for_for_ever(
    looks: list[tuple[int, bool, float]],
) -> None:
    clock = Clock()
    upkeep, polls = Upkeep(clock), Polled()
    ended, last = 0, clock.now
    for more, busy, seconds in looks:
        clock.now += seconds
        polls.ended, polls.running = more, ["hanging"] * busy
        ended += more
        passed = max(ended / EVERY_POLLS, (clock.now - last) / EVERY_S)
        assert upkeep.due(polls) == (passed >= (2 if busy else 1))
        if passed >= (2 if busy else 1):
            ended, last = 0, clock.now


# -- what ------------------------------------------------------------------------------------------


def test_rings_are_gone_afterwards() -> None:
    class Ring:
        alive = 0

        def __init__(self) -> None:
            self.self = self
            Ring.alive += 1

        def __del__(self) -> None:
            Ring.alive -= 1

    gc.disable()
    try:
        for _ in range(10):
            Ring()
        assert Ring.alive == 10
        memory.give_back()
        assert Ring.alive == 0
    finally:
        gc.enable()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc here")
def test_freed_memory_goes_back_to_the_system() -> None:
    """In a process of its own. A small block on top of 40 MB of others keeps the heap from
    shrinking by itself."""
    code = """
from pathlib import Path
from tracker.daemon import memory
def mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 / 1024
blocks = [bytearray(4000) for _ in range(10_000)]
top = bytearray(4000)
del blocks
before = mb()
memory.give_back()
print(before - mb(), memory._of_libc("malloc_trim") is not None)
"""
    given_back, can = _run(code).split()
    if can == "True":
        assert float(given_back) > 30


def test_a_c_library_without_these_functions_is_none() -> None:
    assert memory._of_libc("gpucost_has_no_such_function") is None


def test_without_glibc_it_only_collects(monkeypatch: pytest.MonkeyPatch, thresholds: None) -> None:
    monkeypatch.setattr(memory, "_of_libc", lambda _: None)
    memory.settle()
    memory.give_back()
    assert gc.get_threshold() == memory.THRESHOLDS


def test_the_command_looks_for_cycles_often() -> None:
    """Although those that end in a second do so seldom."""
    code = """
import gc, sys
from tracker.cli import main
from tracker.daemon import service
class Daemon:
    def __init__(self, config):
        print(*gc.get_threshold())
        raise SystemExit(0)
service.Daemon = Daemon
sys.argv = ["gpucost", "daemon"]
main.main()
"""
    assert tuple(map(int, _run(code).split())) == memory.THRESHOLDS


@pytest.mark.parametrize("command", ["serve", "mcp"])
def test_others_that_stay_do_so_too(command: str) -> None:
    code = f"""
import asyncio, gc, sys
from tracker.cli import main
def run(work, **options):
    work.close()
    print(*gc.get_threshold())
    sys.stdout.flush()
asyncio.run = run
sys.argv = ["gpucost", "{command}"]
main.main()
"""
    assert tuple(map(int, _run(code).split())) == memory.THRESHOLDS


def _run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout

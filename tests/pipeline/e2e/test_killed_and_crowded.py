"""``gpucost poll`` killed at any moment, and several at once, on the embedded PostgreSQL."""

from __future__ import annotations

import itertools
import random
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.pipeline.e2e.world import State, World
from tests.support.clouds import FIVE
from tests.support.pg import reachable_folder
from tests.support.replay import ReplayServer

pytestmark = pytest.mark.e2e

KILLS = 40
REQUESTS = 15  # of one poll of all five


@pytest.fixture
def world() -> Iterator[World]:
    with ReplayServer(etags=True) as server, reachable_folder() as folder:
        made = World(server, folder)
        try:
            yield made
        finally:
            made.embedded.stop()


def _kill_somewhere(world: World, process: subprocess.Popen[str], rng: random.Random) -> str:
    """Kill the process at a random moment, most often around the writing of what it was told."""
    asked = len(world.server.requests)
    if rng.random() < 0.3:
        moment, wait = "time", rng.uniform(0, 3)
    else:
        moment = f"request {rng.randint(1, REQUESTS)}"
        wanted = asked + int(moment.split()[1])
        deadline = time.monotonic() + 60
        while len(world.server.requests) < wanted and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        wait = rng.choice([0.0, rng.uniform(0, 0.1), rng.uniform(0, 0.6)])
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate(timeout=30)
    return f"{moment} + {wait:.3f} s: {process.returncode}"


def test_a_poll_killed_at_any_moment_leaves_one_state_or_the_other(world: World) -> None:
    rng = random.Random(20261130)  # noqa: S311
    states: dict[str, State] = {}
    killed = 0
    for number in itertools.count():  # some polls are over before it is their turn
        if killed == KILLS:
            break
        assert number < 3 * KILLS, f"only {killed} were killed"
        world.turn(number)
        how = _kill_somewhere(world, world.start("poll"), rng)
        killed += how.endswith("-9")
        if number % 3 == 0:  # else the next thing to use the folder is this test itself
            world.run("providers", codes=(0, 3))
        found = world.states()
        for provider in FIVE:
            now = found.get(provider, frozenset())
            allowed = (states.get(provider, frozenset()), world.expected(provider, number))
            assert now in allowed, f"kill {number} at {how}: {provider}"
            states[provider] = now
        if number % 9 == 8:
            rows = world.run("poll")["rows"]
            assert {row["status"] for row in rows} == {"complete"}, rows
            states = {p: world.expected(p, number) for p in FIVE}
            assert world.states() == states
    assert not world.embedded.status().running
    assert world.servers() == []


def test_polls_side_by_side_lose_and_double_nothing(world: World) -> None:
    for number in range(4):
        world.turn(number)
        processes = [world.start("poll", "-o", "json") for _ in range(2 if number else 3)]
        ends = [process.communicate(timeout=120) for process in processes]
        assert [p.returncode for p in processes] == [0] * len(processes), ends
        assert not any(err for _, err in ends)
        assert world.states() == {p: world.expected(p, number) for p in FIVE}
    assert not world.embedded.status().running
    assert world.servers() == []


def test_readers_never_see_half_a_poll(world: World) -> None:
    world.turn(0)
    world.run("poll")
    done = threading.Event()
    seen: list[frozenset[tuple[str, str, str, str]]] = []

    def read() -> None:
        while not done.is_set():
            rows = world.run("offers", "--provider", "azure", "--all", "--market", "any",
                             "--tier", "any")["rows"]  # fmt: skip
            seen.append(frozenset(
                (r["native_id"], r["market"], r["region"], r["price_usd_per_machine_hour"])
                for r in rows
            ))  # fmt: skip

    with world.embedded.running(), ThreadPoolExecutor() as pool:
        reader = pool.submit(read)
        try:
            for number in range(1, 6):
                world.turn(number)
                world.run("poll", "--provider", "azure")
        finally:
            done.set()
        reader.result()
    allowed = {
        frozenset(
            (name, market, region, f"{usd / 1e6:.6f}".rstrip("0").rstrip("."))
            for name, market, _, _, region, usd in world.expected("azure", number)
        )
        for number in range(6)
    }
    assert len(seen) > 3
    assert set(seen) <= allowed

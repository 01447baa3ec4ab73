"""Two daemons on one database; a database that goes away and comes back."""

from __future__ import annotations

import os
import signal
import time

import psycopg
import pytest

from tests.daemon.fleet import sell
from tests.daemon.test_process import Held
from tests.daemon.world import World, polls, until
from tests.support.pg import bindir_of_tests, reachable_folder
from tests.support.replay import ReplayServer
from tracker.store import migrate
from tracker.store.embedded import Embedded

pytestmark = pytest.mark.e2e


def test_another_takes_over_when_the_leader_dies(world: World, database_url: str) -> None:
    with world.daemon() as first:
        first.says("leading as")
        until(lambda: polls(database_url, "alpha") >= 2)
        with world.daemon() as second:
            second.says("standing by as")
            assert not second.status()["leads"]
            assert second.get("/readyz")[0] == 200
            assert "gpucost_leader 0.0" in second.get("/metrics")[1]
            before = polls(database_url, "alpha")
            until(lambda: polls(database_url, "alpha") >= before + 3)
            assert "gpucost_polls_total{" not in second.get("/metrics")[1]  # it asked nobody
            died_at = time.monotonic()
            first.kill()
            second.says("leading as .* term 2")
            before = polls(database_url, "alpha")
            until(lambda: polls(database_url, "alpha") >= before + 2)
            assert second.stop() == 0
    for name in world.names:
        assert any(at > died_at for at in world.asked(name))


def test_one_that_ends_in_order_hands_over_at_once(world: World, database_url: str) -> None:
    with world.daemon() as first:
        first.says("leading as")
        with world.daemon() as second:
            second.says("standing by as")
            assert first.stop() == 0
            second.says("leading as .* term 2", patience_s=20)
            assert second.stop() == 0


def test_a_leader_that_was_cut_off_records_nothing_and_leads_again(
    world: World, database_url: str
) -> None:
    held = Held(world.server, "alpha")
    with world.daemon() as daemon:
        assert held.asked.wait(60)
        with psycopg.connect(database_url, autocommit=True) as admin:
            killed = admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                " application_name = 'gpucost leader' AND datname = current_database()"
            ).fetchall()
            assert killed == [(True,)]
        daemon.says("leading as .* term 2")
        sell(world.server, "alpha")
        held.go.set()
        until(lambda: polls(database_url, "alpha", "complete") >= 1)
        assert daemon.stop() == 0


def test_an_embedded_server_that_is_killed_is_started_again(server: ReplayServer) -> None:
    with reachable_folder() as folder:
        world = World(folder, server, ("alpha", "beta"), {"GPUCOST_DATA_DIR": str(folder / "d")})
        if bindir_of_tests() is not None:
            world.environment["GPUCOST_POSTGRES_BINDIR"] = str(bindir_of_tests())
        embedded = Embedded(folder / "d", bindir=bindir_of_tests())
        with world.daemon() as daemon:
            daemon.says("leading as .* term 1")
            url = until(lambda: embedded.status().url)
            until(lambda: polls(url, "alpha") >= 2)
            for term, number in ((2, signal.SIGQUIT), (3, signal.SIGKILL)):
                os.kill(until(lambda: embedded.status().pid), number)
                daemon.says(f"leading as .* term {term}")
                url = until(lambda: embedded.status().url)
                before = polls(url, "alpha")
                until(lambda url=url, before=before: polls(url, "alpha") >= before + 2)
            assert daemon.stop() == 0
        assert not embedded.status().running
    assert not daemon.lines("Traceback|internal error"), "\n".join(daemon.log)
    assert len(daemon.lines("ERROR ")) == len(daemon.lines("works again")) == 2
    assert not daemon.lines("alpha: |beta: ")  # no provider is blamed


def test_a_server_that_is_away_is_waited_for(server: ReplayServer) -> None:
    with reachable_folder() as folder:
        embedded = Embedded(folder, bindir=bindir_of_tests(), durable=False)
        with embedded.running() as url:
            migrate.upgrade(url)
        world = World(folder, server, ("alpha",), {"GPUCOST_DATABASE_URL": url})
        with world.daemon() as daemon:
            daemon.says("ERROR .*database: cannot reach")
            assert daemon.get("/livez")[0] == 200
            code, body = daemon.get("/readyz")
            assert (code, "database" in body) == (503, True)
            for _ in range(2):
                recovered = len(daemon.lines("database: works again"))
                with embedded.running():
                    until(lambda n=recovered: len(daemon.lines("database: works again")) > n)
                    done = polls(url, "alpha")
                    until(lambda done=done: polls(url, "alpha") >= done + 2)
                    embedded.stop(force=True)
                lost = len(daemon.lines("database: works again"))
                until(lambda n=lost: len(daemon.lines("ERROR .*database: ")) > n)
            assert daemon.get("/livez")[0] == 200
            assert daemon.stop() == 0
    assert len(daemon.lines("ERROR .*database: ")) == 3
    assert not daemon.lines("Traceback|internal error|alpha: |alerts: ")

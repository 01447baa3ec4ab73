"""Starting: what is refused at once, one round for cron, and what the service manager is told."""

from __future__ import annotations

import signal
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from tests.alert.outbox_world import Events, engine_of, statuses
from tests.daemon.fleet import fail, sell
from tests.daemon.test_process import QUICK_RULE
from tests.daemon.world import Running, World, polls, until
from tests.support.pg import TestServer
from tests.support.replay import ReplayServer


def ended(world: World, *arguments: str, **environment: str) -> tuple[int, list[str]]:
    """The exit code and the lines of a daemon that ends by itself."""
    running = Running(world.popen("daemon", *arguments, **environment))
    return running.ends(), running.log


def test_one_round_polls_what_is_due_and_delivers(world: World, database_url: str) -> None:
    sell(world.server, "alpha", h100="0.90", a100="1.20")
    slow = "every_seconds = 3000"
    world.configure(QUICK_RULE, alpha=slow, beta=slow, gamma=slow)
    code, log = ended(world, "--once")
    assert code == 0, log
    assert {name: len(world.asked(name)) for name in world.names} == dict.fromkeys(world.names, 1)
    assert len([line for line in log if "tracker.notify.log" in line]) == 1
    # Nothing is due any more.
    code, log = ended(world, "--once")
    assert code == 0, log
    assert sum(len(world.asked(name)) for name in world.names) == 3
    assert not [line for line in log if "tracker.notify.log" in line]


def test_one_round_forgets_notices_that_were_kept_long_enough(
    world: World, database_url: str
) -> None:
    with engine_of(database_url) as engine:
        for days, rule in ((9, "old"), (11, "older")):
            at = datetime.now(UTC) - timedelta(days=days)
            Events(engine).add("data_problem", rule=rule, channels=["log"], at=at)
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE alert_outbox SET status = 'sent', ended_at = created_at")
    world.configure("[alerts]\nkeep_days = 10")
    code, log = ended(world, "--once")
    assert code == 0, log
    assert statuses(database_url, "log") == {"old-1": "sent"}


def test_one_round_that_nobody_answered(world: World, database_url: str) -> None:
    for name in world.names:
        fail(world.server, name, 503)
    code, log = ended(world, "--once")
    assert code == 6
    assert "no provider that was due gave usable prices" in log[-1]
    assert polls(database_url, "alpha", "failed") == 1
    # That the price book, a file, was read does not make it a good round.
    config = world.config.read_text()
    world.config.write_text(config.replace("[providers.pricebook]\nenabled = false\n", ""))
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE schedule SET next_due_at = now()")
    code, log = ended(world, "--once")
    assert (code, polls(database_url, "pricebook", "complete")) == (6, 1)


@pytest.mark.e2e
def test_one_round_beside_a_daemon_does_nothing(world: World) -> None:
    slow = "every_seconds = 3000"
    world.configure(alpha=slow, beta=slow, gamma=slow)
    with world.daemon() as daemon:
        daemon.says("leading as")
        code, log = ended(world, "--once")
        assert (code, "another daemon leads" in log[-1]) == (0, True)
        assert daemon.stop() == 0


def test_a_wrong_configuration_is_refused_in_one_line(world: World) -> None:
    world.configure("log_level = 'loud'")
    code, log = ended(world)
    assert (code, len(log)) == (2, 1)
    assert "log_level" in log[0]


def test_a_port_that_is_taken_is_refused_in_one_line(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        code, log = ended(world, GPUCOST_DAEMON__PORT=port)
    assert code == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in log[-1]
    assert not [line for line in log if "Traceback" in line]


def test_a_database_without_tables_is_refused(world: World, database_server: TestServer) -> None:
    with database_server.database(migrated=False) as url:
        code, log = ended(world, GPUCOST_DATABASE_URL=url)
    assert code == 5
    assert "gpucost db upgrade" in log[-1]


def test_one_round_does_not_wait_for_a_database(world: World) -> None:
    code, log = ended(world, "--once", GPUCOST_DATABASE_URL="postgresql://x@127.0.0.1:9/x")
    assert code == 5
    assert "cannot reach the database" in log[-1]


def test_the_service_manager_is_told(world: World, database_url: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        told: list[str] = []

        def until_told(word: str) -> None:
            while not told or word not in told[-1]:
                told.append(manager.recv(4096).decode())

        with world.daemon(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="600000") as daemon:
            until_told("READY=1")
            with psycopg.connect(database_url) as connection:  # not before it leads
                assert connection.execute("SELECT epoch FROM leader").fetchall() == [(1,)]
            for _ in range(3):
                told.append("")
                until_told("WATCHDOG=1")
            daemon.send(signal.SIGHUP)
            until_told("RELOADING=1")
            assert "MONOTONIC_USEC=" in told[-1]
            until_told("READY=1")
            daemon.send(signal.SIGTERM)
            until_told("STOPPING=1")
            assert daemon.ends() == 0


def test_it_starts_before_its_database_and_says_so_once(tmp_path: Path) -> None:
    with ReplayServer() as server:
        sell(server, "alpha")
        world = World(tmp_path, server, ["alpha"],
                      {"GPUCOST_DATABASE_URL": "postgresql://x@127.0.0.1:9/x"})  # fmt: skip
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(tmp_path / "notify"))
            manager.settimeout(60)
            with world.daemon(NOTIFY_SOCKET=str(tmp_path / "notify")) as daemon:
                daemon.says("database: cannot reach the database")
                told = [manager.recv(4096).decode() for _ in range(2)]
                assert all("EXTEND_TIMEOUT_USEC" in text for text in told)
                until(lambda: daemon.get("/livez")[0] == 200)
                assert daemon.stop() == 0
        assert len(daemon.lines("cannot reach")) == 1
        assert server.requests == []

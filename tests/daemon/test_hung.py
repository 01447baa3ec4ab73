"""A database whose processes stand still: no answer, and no error either."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.daemon.world import World, polls, until

# The daemon itself, with less patience for a database that it gives back.
IMPATIENT = """
from tracker.cli.main import main
from tracker.daemon import service
service.GIVE_BACK_S = 1.0
main()
"""


@contextmanager
def _standing_still(url: str) -> Iterator[None]:
    """Stop the server's processes that serve daemons."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND application_name LIKE 'gpucost%'"
        ).fetchall()
    stopped = []
    try:
        for (pid,) in found:
            os.kill(pid, signal.SIGSTOP)
            stopped.append(pid)
        yield
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)


def test_it_ends_although_its_database_hangs(world: World, database_url: str) -> None:
    world.command = [sys.executable, "-c", IMPATIENT]
    with world.daemon(GPUCOST_DAEMON__DRAIN_SECONDS="1") as daemon:
        until(lambda: polls(database_url, "beta") >= 1)
        with _standing_still(database_url):
            time.sleep(4)  # until it has asked whether it still leads
            began = time.monotonic()
            daemon.send(signal.SIGTERM)
            assert daemon.ends() == 0
            assert time.monotonic() - began < 25
    assert daemon.lines("the database has not answered for 1 s: ending without it")
    assert not daemon.lines("Traceback")

"""The embedded server's life: started by its first user, stopped with the last one."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.embedded_client import Client, unprivileged_account
from tests.support.pg import bindir_of_tests, reachable_folder
from tracker.store.embedded import Embedded
from tracker.store.embedded.account import choose_account
from tracker.store.errors import EmbeddedError, ServerInUse

BINDIR = bindir_of_tests()


def embedded_in(folder: Path) -> Embedded:
    return Embedded(folder, bindir=BINDIR, durable=False)


def server_pids(folder: Path) -> list[int]:
    """Return the main server processes of ``folder``, by their command line."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            if os.fsencode(folder / "postgres" / "pgdata") in arguments:
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(after_name[1])
    # A child just forked has its parent's command line until it sets its own.
    return [pid for pid, parent in parents.items() if parent not in parents]


def wait_until_gone(folder: Path) -> None:
    deadline = time.monotonic() + 30
    while server_pids(folder):
        assert time.monotonic() < deadline, "the server is still there"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def prepared() -> Iterator[Path]:
    """A data folder with a database: preparing one takes a second."""
    with reachable_folder() as folder:
        with embedded_in(folder).running():
            pass
        yield folder


@pytest.fixture
def folder(prepared: Path) -> Iterator[Path]:
    """The prepared data folder, its server stopped."""
    assert server_pids(prepared) == []
    yield prepared
    embedded_in(prepared).stop(force=True)


@pytest.fixture
def fresh() -> Iterator[Path]:
    """An empty folder. Whatever runs there at the end is stopped."""
    with reachable_folder() as folder:
        yield folder
        embedded_in(folder).stop(force=True)


def test_first_use_makes_a_database_that_outlives_the_server(fresh: Path) -> None:
    embedded = embedded_in(fresh)
    with embedded.running() as url, psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    assert server_pids(fresh) == []
    assert not embedded.status().running
    with embedded.running() as url, psycopg.connect(url) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
        assert connection.info.dbname == "gpucost"


def test_server_is_private(folder: Path) -> None:
    with embedded_in(folder).running() as url, psycopg.connect(url) as connection:
        shown = {
            name: connection.execute(f"SHOW {name}").fetchone()[0]  # type: ignore[index]
            for name in ("listen_addresses", "server_encoding", "timezone", "fsync", "jit")
        }
        socket_dir = Path(connection.execute("SHOW unix_socket_directories").fetchone()[0])  # type: ignore[index]
        rules = connection.execute("SELECT type, auth_method FROM pg_hba_file_rules").fetchall()
    assert shown == {
        "listen_addresses": "",
        "server_encoding": "UTF8",
        "timezone": "UTC",
        "fsync": "off",
        "jit": "off",
    }
    assert socket_dir.stat().st_mode & 0o077 == 0
    assert rules == [("local", "peer")]


def test_is_durable_unless_told_otherwise(folder: Path) -> None:
    with (
        Embedded(folder, bindir=BINDIR).running() as url,
        psycopg.connect(url) as connection,
    ):
        for name in ("fsync", "synchronous_commit", "full_page_writes", "data_checksums"):
            assert connection.execute(f"SHOW {name}").fetchone() == ("on",), name


def test_environment_is_not_handed_to_the_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_SOME_API_KEY", "very-secret")
    embedded = embedded_in(folder)
    with embedded.running():
        pid = embedded.status().pid
        assert b"very-secret" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_one_process_may_lease_it_several_times(folder: Path) -> None:
    embedded = embedded_in(folder)
    with embedded.running() as outer:
        with embedded.running() as inner:
            assert inner == outer
        assert embedded.status().running
    assert not embedded.status().running


def test_processes_share_one_server_and_the_last_one_stops_it(folder: Path) -> None:
    with Client(folder, bindir=BINDIR) as first, Client(folder, bindir=BINDIR) as second:
        assert first.ask("acquire") == second.ask("acquire")
        assert len(server_pids(folder)) == 1
        first.ask("release")
        assert second.ask("sql SELECT 7") == "7"
        assert len(server_pids(folder)) == 1
        second.ask("release")
        assert server_pids(folder) == []


def test_processes_that_start_at_once_make_one_server(fresh: Path) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(fresh, bindir=BINDIR)) for _ in range(4)]
        for client in clients:
            client.send("acquire")
        assert len({client.answer() for client in clients}) == 1
        assert len(server_pids(fresh)) == 1
        for client in clients:
            client.send("release")
        for client in clients:
            assert client.answer() == "None"
    assert server_pids(fresh) == []


def test_kept_server_stays_until_stopped(folder: Path) -> None:
    embedded = embedded_in(folder)
    embedded.start()
    with embedded.running():
        pass
    status = embedded.status()
    assert status.running
    assert status.kept
    assert not status.in_use
    assert embedded.stop() is True
    assert server_pids(folder) == []
    assert embedded.stop() is False


def test_keeping_ends_with_a_crash(folder: Path) -> None:
    embedded = embedded_in(folder)
    embedded.start()
    os.kill(server_pids(folder)[0], signal.SIGKILL)
    wait_until_gone(folder)
    with embedded.running():
        assert not embedded.status().kept
    assert server_pids(folder) == []


def test_stop_is_refused_while_others_use_it_unless_forced(folder: Path) -> None:
    embedded = embedded_in(folder)
    with Client(folder, bindir=BINDIR) as client:
        client.ask("acquire")
        with pytest.raises(ServerInUse, match="end them first"):
            embedded.stop()
        assert embedded.stop(force=True) is True
        assert server_pids(folder) == []
        assert client.ask("release") == "None"


def test_killed_server_recovers_what_was_committed(folder: Path) -> None:
    embedded = embedded_in(folder)
    with embedded.running() as url:
        with psycopg.connect(url) as connection:
            connection.execute("DROP TABLE IF EXISTS kept")
            connection.execute("CREATE TABLE kept AS SELECT g FROM generate_series(1, 1000) g")
        os.kill(server_pids(folder)[0], signal.SIGKILL)
        wait_until_gone(folder)
        with Client(folder, bindir=BINDIR) as other:
            assert other.ask("sql SELECT count(*) FROM kept") == "1000"
        with embedded.running() as again, psycopg.connect(again) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1000,)
    assert server_pids(folder) == []


def test_whole_server_killed_at_once_recovers(folder: Path) -> None:
    embedded = embedded_in(folder)
    with embedded.running() as url, psycopg.connect(url) as connection:
        connection.execute("DROP TABLE IF EXISTS kept")
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
        connection.commit()
        main = server_pids(folder)[0]
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        for pid in (main, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until_gone(folder)
        with embedded.running() as again, psycopg.connect(again) as second:
            assert second.execute("SELECT n FROM kept").fetchone() == (1,)
    assert server_pids(folder) == []


def test_a_killed_server_that_still_takes_connections_is_not_running(folder: Path) -> None:
    embedded = embedded_in(folder)
    with embedded.running() as url:
        os.kill(server_pids(folder)[0], signal.SIGKILL)
        wait_until_gone(folder)
        # What a process leaves for a moment while the kernel takes it apart: a queue that takes
        # connections, and nobody who will ever answer them.
        left = folder / "postgres" / "run" / ".s.PGSQL.5432"
        left.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as queue:
            queue.bind(os.fspath(left))
            queue.listen()
            closing = threading.Timer(0.3, queue.close)
            closing.start()
            assert embedded.acquire() == url
            with psycopg.connect(url) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
            closing.join()
        embedded.release()


def test_killed_client_leaves_a_server_that_the_next_one_stops(folder: Path) -> None:
    with Client(folder, bindir=BINDIR) as victim:
        victim.ask("acquire")
        victim.kill()
    pids = server_pids(folder)
    assert len(pids) == 1
    embedded = embedded_in(folder)
    with embedded.running():
        assert server_pids(folder) == pids
    assert server_pids(folder) == []


def test_client_killed_while_it_prepares_the_data(fresh: Path) -> None:
    base = fresh / "postgres"
    with Client(fresh, bindir=BINDIR) as victim:
        victim.send("acquire")
        deadline = time.monotonic() + 30
        while not list(base.glob("pgdata.new-*/PG_VERSION")):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        victim.kill()
    assert not (base / "pgdata").exists()
    with embedded_in(fresh).running() as url, psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert list(base.glob("pgdata.new-*")) == []


def test_stale_pid_file_that_names_another_program(folder: Path) -> None:
    embedded = embedded_in(folder)
    with embedded.running():
        pid_file = folder / "postgres/pgdata/postmaster.pid"
        lines = pid_file.read_text().splitlines()
        os.kill(int(lines[0]), signal.SIGKILL)
        wait_until_gone(folder)
        account = choose_account(embedded_owner(folder))
        # The very account's process: PostgreSQL takes any such for a server of this data.
        other = subprocess.Popen(
            ["sleep", "60"], user=account.uid if account.switch else None, start_new_session=True
        )
        try:
            pid_file.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
            with embedded.running() as url, psycopg.connect(url) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
            assert other.poll() is None
        finally:
            other.kill()
            other.wait()


def embedded_owner(folder: Path) -> int:
    return (folder / "postgres/pgdata").stat().st_uid


def test_server_that_cannot_start_tells_why(folder: Path) -> None:
    broken = Embedded(folder, bindir=BINDIR, settings={"shared_buffers": "nonsense"})
    with pytest.raises(EmbeddedError) as caught:
        broken.acquire()
    assert "did not start" in str(caught.value)
    assert "server.log" in str(caught.value)
    assert "\n" not in str(caught.value)
    with embedded_in(folder).running():
        pass


def test_log_stays_small(folder: Path) -> None:
    log = folder / "postgres/server.log"
    log.write_bytes(b"x" * 1_500_000)
    with embedded_in(folder).running():
        assert log.stat().st_size < 10_000
    assert (folder / "postgres/server.log.1").stat().st_size == 1_500_000


def test_status_touches_nothing(fresh: Path) -> None:
    status = Embedded(fresh / "absent").status()
    assert not status.running
    assert status.url is None
    assert status.major is None
    assert not (fresh / "absent").exists()


def test_works_as_an_ordinary_user(fresh: Path) -> None:
    account = unprivileged_account()
    home = fresh / "home"
    home.mkdir(mode=0o700)
    os.chown(home, account.uid, account.gid)
    for _ in ("first", "again"):
        with Client(home / "data", bindir=BINDIR, account=account) as client:
            assert client.ask("sql SELECT current_user") == "gpucost"
        assert server_pids(home / "data") == []
    assert embedded_owner(home / "data") == account.uid

"""Who leads, on a real PostgreSQL: one at a time, and nobody writes who no longer does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.daemon.pooler import Pooler
from tests.support.offers import make_poll
from tracker.store.engine import make_engine
from tracker.store.errors import DatabaseUnreachable, StoreError
from tracker.store.leader import Leadership, NotLeading, PooledConnection
from tracker.store.polls import Recorder
from tracker.store.schedule import Schedule, StoredStanding, standings


@contextmanager
def contender(url: str, name: str = "one:1") -> Iterator[Leadership]:
    leadership = Leadership(url, name)
    try:
        yield leadership
    finally:
        leadership.release()


@pytest.fixture
def one(database_url: str) -> Iterator[Leadership]:
    with contender(database_url, "one:1") as leadership:
        yield leadership


@pytest.fixture
def two(database_url: str) -> Iterator[Leadership]:
    with contender(database_url, "two:2") as leadership:
        yield leadership


def kill_session(url: str) -> None:
    """End the leader's connection from the server's side."""
    with psycopg.connect(url, autocommit=True) as admin:
        killed = admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'gpucost leader' AND datname = current_database()"
            " AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')"
        ).fetchall()
        assert killed == [(True,)]


def row(url: str) -> tuple[Any, ...]:
    with psycopg.connect(url) as connection:
        [found] = connection.execute("SELECT epoch, holder FROM leader").fetchall()
        return found


def guarded(url: str, leadership: Leadership) -> None:
    """A write as a leader makes it."""
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        leadership.guard(cursor)
        cursor.execute(
            "INSERT INTO schedule (provider, next_due_at, updated_at) VALUES (%s, now(), now())"
            " ON CONFLICT DO NOTHING",
            ("acme",),
        )


def written(url: str) -> int:
    with psycopg.connect(url) as connection:
        return len(standings(connection))


def test_one_of_two_leads(database_url: str, one: Leadership, two: Leadership) -> None:
    assert one.acquire()
    assert not two.acquire()
    one.verify()
    assert (one.epoch, two.epoch) == (1, None)
    assert row(database_url) == (1, "one:1")
    assert two.current() == "one:1"
    with pytest.raises(NotLeading):
        two.verify()


def test_the_other_takes_over_when_the_first_gives_up(
    database_url: str, one: Leadership, two: Leadership
) -> None:
    assert one.acquire()
    assert one.acquire()  # asking again changes nothing
    one.release()
    assert two.acquire()
    assert row(database_url) == (2, "two:2")
    assert not one.acquire()


def test_a_leader_that_was_cut_off_learns_it_and_may_write_no_more(
    database_url: str, one: Leadership, two: Leadership
) -> None:
    assert one.acquire()
    guarded(database_url, one)
    assert written(database_url) == 1
    kill_session(database_url)
    assert two.acquire()
    with psycopg.connect(database_url) as connection:
        connection.execute("DELETE FROM schedule")
    # It believes that it leads: it has not looked yet.
    assert one.epoch == 1
    with pytest.raises(NotLeading):
        guarded(database_url, one)
    assert written(database_url) == 0
    with pytest.raises(StoreError):
        one.verify()
    assert one.epoch is None
    guarded(database_url, two)
    assert written(database_url) == 1


def test_a_leader_that_was_cut_off_may_write_until_another_leads(
    database_url: str, one: Leadership
) -> None:
    assert one.acquire()
    kill_session(database_url)
    guarded(database_url, one)  # nobody else could: no harm
    with pytest.raises(DatabaseUnreachable):
        one.verify()
    assert one.acquire()
    assert one.epoch == 2


def test_a_new_leader_waits_for_the_writes_of_the_old_one(
    database_url: str, one: Leadership, two: Leadership
) -> None:
    assert one.acquire()
    with psycopg.connect(database_url) as connection, connection.cursor() as cursor:
        one.guard(cursor)
        kill_session(database_url)
        took: list[bool] = []
        thread = threading.Thread(target=lambda: took.append(two.acquire()))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        cursor.execute("INSERT INTO schedule (provider, next_due_at, updated_at)"
                       " VALUES ('acme', now(), now())")  # fmt: skip
        connection.commit()
        thread.join(10)
    assert took == [True]
    assert written(database_url) == 1


def test_the_leader_s_own_heartbeat_does_not_wait_for_its_writes(
    database_url: str, one: Leadership
) -> None:
    assert one.acquire()
    one._beat_at -= 3600  # due
    with psycopg.connect(database_url) as connection, connection.cursor() as cursor:
        one.guard(cursor)
        one.verify()
    with psycopg.connect(database_url) as connection:
        [(beat, acquired)] = connection.execute(
            "SELECT beat_at, acquired_at FROM leader"
        ).fetchall()
    assert beat > acquired


def test_whoever_restores_an_old_row_does_not_lead(database_url: str, one: Leadership) -> None:
    assert one.acquire()
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE leader SET epoch = epoch + 1")
    with pytest.raises(NotLeading, match="taken over"):
        one.verify()


def test_many_contenders_have_one_winner(database_url: str) -> None:
    contenders = [Leadership(database_url, f"{n}:{n}") for n in range(6)]
    gate, won = threading.Barrier(6), []

    def run(it: Leadership) -> None:
        gate.wait()
        won.append(it.acquire())

    threads = [threading.Thread(target=run, args=(it,)) for it in contenders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for it in contenders:
        it.release()
    assert sorted(won) == [False] * 5 + [True]


def test_a_recorder_and_a_schedule_that_lost_the_lead_write_nothing(
    database_url: str, one: Leadership, two: Leadership
) -> None:
    engine = make_engine(database_url)
    try:
        recorder = Recorder(engine, one.guard)
        schedule = Schedule(engine, one.guard)
        now = datetime.now(UTC)
        standing = StoredStanding("acme", now, 2, "open", now, "why", now)
        with pytest.raises(NotLeading):
            recorder.record(make_poll(0, {"a": "1"}))
        with pytest.raises(NotLeading):
            schedule.save(standing)
        assert one.acquire()
        recorder.record(make_poll(0, {"a": "1"}))
        schedule.save(standing)
        schedule.save(standing._replace(failures=3))
        assert schedule.load() == {"acme": standing._replace(failures=3)}
        one.release()
        assert two.acquire()
        with pytest.raises(NotLeading):
            recorder.record(make_poll(1, {"a": "2"}))
        with pytest.raises(NotLeading):
            schedule.save(standing._replace(failures=4, next_due_at=now + timedelta(hours=1)))
        assert schedule.load()["acme"].failures == 3
        with psycopg.connect(database_url) as connection:
            assert connection.execute("SELECT count(*) FROM poll").fetchall() == [(1,)]
    finally:
        engine.dispose()


def test_a_pooler_that_shares_sessions_is_refused(database_url: str) -> None:
    with Pooler(database_url, shared=True) as pooler:
        with pytest.raises(PooledConnection, match="lock_database_url"):
            Leadership(pooler.url, "one:1").acquire()
        with psycopg.connect(database_url) as connection:
            assert connection.execute("SELECT count(*) FROM leader").fetchall() == [(0,)]


def test_a_pooler_that_gives_each_client_a_session_is_fine(database_url: str) -> None:
    with (
        Pooler(database_url, shared=False) as pooler,
        contender(pooler.url) as one,
        contender(pooler.url) as two,
    ):
        assert one.acquire()
        assert not two.acquire()
        one.verify()


def test_keepalives_are_asked_of_the_server_and_a_url_s_own_win(database_url: str) -> None:
    with Pooler(database_url, shared=False) as tcp:
        url = f"{tcp.url}&keepalives_idle=77"
        with contender(url) as one:
            assert one.acquire()
            assert one._connection is not None
            asked = one._connection.info.get_parameters()
    assert asked["keepalives_idle"] == "77"
    assert asked["tcp_user_timeout"] == "30000"

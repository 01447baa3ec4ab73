"""Connections: what a session is set to, and what is said when there is none."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st

from tracker.store import engine as module
from tracker.store.engine import connect, make_engine, read_connection, transaction, translated
from tracker.store.errors import (
    AccessDenied,
    DatabaseBusy,
    DatabaseFailed,
    DatabaseReadOnly,
    DatabaseUnreachable,
    DiskFull,
    InvalidUrl,
    SchemaOutdated,
    ServerTooOld,
    StoreError,
    from_os_error,
    scrub,
    translate,
)

SECRET = "hunter2-secret"


def one_line(caught: pytest.ExceptionInfo[StoreError]) -> str:
    text = str(caught.value)
    assert "\n" not in text
    assert SECRET not in text
    return text


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[sqlalchemy.Engine]:
    made = make_engine(empty_database_url, application_name="gpucost test")
    yield made
    made.dispose()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_usual_scheme_works(empty_database_url: str, scheme: str) -> None:
    url = empty_database_url.replace("postgresql://", f"{scheme}://")
    made = make_engine(url)
    with made.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SELECT 1")) == 1
    made.dispose()
    with read_connection(url) as bare:
        assert bare.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "gpucost",
        f"mysql://user:{SECRET}@host/name",
        f"postgresql+asyncpg://user:{SECRET}@host/name",
        f"postgresql://user:{SECRET}@[::1/name",
        f"postgresql://user:{SECRET}@host:port/name",
        f"postgresql://user:{SECRET}/with-slash@host/name",
        f"postgresql://user:{SECRET}@host/name?no_such_option=1",
    ],
)
def test_wrong_url_is_one_line_without_the_password(url: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        connect(url)
    assert "URL" in one_line(caught)
    with pytest.raises(InvalidUrl) as caught:
        make_engine(url)
    one_line(caught)


def test_session_limits(engine: sqlalchemy.Engine) -> None:
    with engine.connect() as connection:
        shown = {
            name: connection.scalar(sqlalchemy.text(f"SHOW {name}"))
            for name in (
                "timezone",
                "statement_timeout",
                "lock_timeout",
                "client_connection_check_interval",
                "idle_in_transaction_session_timeout",
                "application_name",
            )
        }
    assert shown == {
        "timezone": "UTC",
        "statement_timeout": "1min",
        "lock_timeout": "10s",
        "client_connection_check_interval": "10s",
        "idle_in_transaction_session_timeout": "2min",
        "application_name": "gpucost test",
    }


def test_options_of_the_url_win(empty_database_url: str) -> None:
    url = f"{empty_database_url}&options=-c%20statement_timeout%3D1234"
    with read_connection(url) as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("1234ms",)
        assert connection.execute("SHOW lock_timeout").fetchone() == ("10s",)
    made = make_engine(url)
    with made.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SHOW statement_timeout")) == "1234ms"
        assert connection.scalar(sqlalchemy.text("SHOW timezone")) == "UTC"
    made.dispose()


def test_reads_see_one_snapshot(empty_database_url: str) -> None:
    with connect(empty_database_url, autocommit=True) as writer:
        writer.execute("CREATE TABLE t (n int)")
        with read_connection(empty_database_url) as reader:
            assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)
            writer.execute("INSERT INTO t VALUES (1)")
            assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)
        with read_connection(empty_database_url) as reader:
            assert reader.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_reads_cannot_write(empty_database_url: str) -> None:
    with (
        pytest.raises(DatabaseReadOnly) as caught,
        read_connection(empty_database_url) as reader,
    ):
        reader.execute("CREATE TABLE t (n int)")
    assert "read-only" in one_line(caught)


def test_engine_survives_a_server_that_dropped_its_connections(
    engine: sqlalchemy.Engine, empty_database_url: str
) -> None:
    with engine.connect() as connection:
        pid = connection.scalar(sqlalchemy.text("SELECT pg_backend_pid()"))
    with connect(empty_database_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    with engine.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SELECT 1")) == 1


def test_lock_of_another_process_is_not_waited_for_for_ever(empty_database_url: str) -> None:
    with connect(empty_database_url) as holder:
        holder.execute("CREATE TABLE t (n int)")
        holder.commit()
        holder.execute("LOCK TABLE t")
        with (
            connect(empty_database_url, lock_timeout_s=0.05) as other,
            pytest.raises(DatabaseBusy) as caught,
            translated(),
        ):
            other.execute("SELECT * FROM t")
    assert "retry" in one_line(caught)


def test_long_statement_is_cancelled(empty_database_url: str) -> None:
    with (
        connect(empty_database_url, statement_timeout_s=0.05) as connection,
        pytest.raises(DatabaseBusy, match="too long"),
        translated(),
    ):
        connection.execute("SELECT pg_sleep(30)")


def test_nothing_listens(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: refused
        port = taken.getsockname()[1]
        for url in (
            f"postgresql://user:{SECRET}@127.0.0.1:{port}/name",
            f"postgresql://user:{SECRET}@/name?host={tmp_path}",
        ):
            with pytest.raises(DatabaseUnreachable) as caught:
                connect(url)
            assert "cannot reach the database" in one_line(caught)
            made = make_engine(url)
            with pytest.raises(DatabaseUnreachable) as caught, translated():
                made.connect()
            one_line(caught)


def test_server_that_is_not_postgresql() -> None:
    """Something answers there, but not in PostgreSQL's words."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            accepted, _ = server.accept()
            with accepted:
                accepted.recv(100)
                accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        port = server.getsockname()[1]
        with pytest.raises(DatabaseUnreachable) as caught:
            connect(f"postgresql://user:{SECRET}@127.0.0.1:{port}/name?sslmode=prefer")
        thread.join()
    one_line(caught)


def test_database_or_user_that_does_not_exist(empty_database_url: str) -> None:
    start, _, query = empty_database_url.partition("?")
    with pytest.raises(DatabaseUnreachable, match="does not exist: create it"):
        connect(f"{start.rpartition('/')[0]}/no_such_database?{query}")
    with pytest.raises(DatabaseUnreachable, match="refuses the user or password"):
        connect(f"postgresql://no_such_user@/gpucost?{query}")


def test_old_server_is_refused_and_its_connection_closed(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server below 14 is at hand: the limit is raised above this one instead."""
    monkeypatch.setattr(module, "OLDEST_SERVER", 990000)
    with pytest.raises(ServerTooOld, match="gpucost needs 99 or newer") as caught:
        connect(empty_database_url)
    one_line(caught)
    made = make_engine(empty_database_url)
    with pytest.raises(ServerTooOld), translated():
        made.connect()
    made.dispose()


def test_errors_of_statements_become_ours(engine: sqlalchemy.Engine) -> None:
    with engine.connect() as connection:
        for statement, kind in (
            ("SELECT * FROM missing", SchemaOutdated),
            ("SELECT missing FROM pg_class", SchemaOutdated),
            ("SELECT 1/0", DatabaseFailed),
        ):
            with pytest.raises(kind) as caught, translated():
                connection.execute(sqlalchemy.text(statement))
            one_line(caught)
            connection.rollback()
        connection.execute(sqlalchemy.text("CREATE ROLE weak_of_test"))
        connection.execute(sqlalchemy.text("SET ROLE weak_of_test"))
        with pytest.raises(AccessDenied), translated():
            connection.execute(sqlalchemy.text("SELECT * FROM pg_authid"))


def test_parameters_of_a_failed_statement_are_not_shown(engine: sqlalchemy.Engine) -> None:
    with engine.connect() as connection:
        query = sqlalchemy.text("SELECT CAST(:a AS text), 1/0")
        with pytest.raises(sqlalchemy.exc.DataError) as caught:
            connection.execute(query, {"a": SECRET})
    assert SECRET not in str(caught.value)


def test_errors_that_are_not_the_databases_pass() -> None:
    with pytest.raises(KeyError), translated():
        raise KeyError("mine")
    with pytest.raises(DiskFull, match="as it is"), translated():
        raise DiskFull("as it is")


def test_full_disk_of_the_server_is_named() -> None:
    error = psycopg.errors.DiskFull('could not extend file "base/1": No space left on device')
    assert isinstance(translate(error), DiskFull)
    assert isinstance(from_os_error(OSError(28, "No space left on device"), "/x"), DiskFull)


@given(st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=600))
def test_scrubbed_text_is_one_short_line(text: str) -> None:
    line = scrub(text)
    assert len(line.splitlines()) == 1
    assert 0 < len(line) <= 300


@pytest.mark.parametrize(
    "text",
    [
        f"could not connect to postgresql://user:{SECRET}@host/name",
        f"host=a password={SECRET} user=b",
        f"host=a password='{SECRET} with space' user=b",
        f"postgresql://host/name?user=a&password={SECRET}&x=1",
    ],
)
def test_passwords_are_scrubbed(text: str) -> None:
    assert SECRET not in scrub(text)
    assert SECRET not in str(translate(RuntimeError(text)))


def test_read_path_imports_no_sqlalchemy() -> None:
    code = (
        "import sys; import tracker.store.engine, tracker.store.migrate, tracker.store.embedded;"
        "heavy = {'sqlalchemy', 'alembic', 'psycopg', 'pydantic'} & set(sys.modules);"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- transactions ----------------------------------------------------------------------------------


def _served_by(cursor: psycopg.Cursor[Any]) -> int:
    return cursor.connection.info.backend_pid


def test_a_lost_connection_is_not_used_again_and_said_once(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine, lost = make_engine(database_url), []

    def lose() -> None:
        with transaction(engine) as cursor:
            lost.append(_served_by(cursor))
            with connect(database_url, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s)", lost)
            cursor.execute("SELECT 1")

    try:
        with pytest.raises(DatabaseUnreachable):
            lose()
        with transaction(engine) as cursor:
            assert _served_by(cursor) not in lost
    finally:
        engine.dispose()
    assert caplog.records == []


def test_what_fails_is_undone_and_its_connection_used_again(database_url: str) -> None:
    engine = make_engine(database_url)

    def refuse(_: object) -> None:
        raise StoreError("no")

    def fail() -> None:
        with transaction(engine) as cursor:
            cursor.execute("INSERT INTO kept VALUES (1)")
            raise ZeroDivisionError

    try:
        with transaction(engine) as cursor:
            cursor.execute("CREATE TABLE kept (n int)")
            served = _served_by(cursor)
        with pytest.raises(ZeroDivisionError):
            fail()
        with pytest.raises(StoreError, match="no"), transaction(engine, refuse) as cursor:
            pytest.fail("the guard was not asked first")
        with transaction(engine) as cursor:
            assert cursor.execute("SELECT count(*) FROM kept").fetchone() == (0,)
            assert _served_by(cursor) == served
    finally:
        engine.dispose()

"""Connections: a SQLAlchemy engine to write and migrate, a bare one for the command line's reads.

Limits are set on the server's side, so that a killed client cannot hold a lock for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tracker.store.dsn import libpq_url
from tracker.store.errors import URL_NOT_VALID, InvalidUrl, ServerTooOld, StoreError, translate

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy

OLDEST_SERVER = 140000  # PostgreSQL 14: client_connection_check_interval, date_part on partitions

_CONNECT_TIMEOUT_S = 10


def session_options(
    *,
    statement_timeout_s: float = 60,
    lock_timeout_s: float = 10,
    read_only: bool = False,
) -> str:
    """Return libpq's ``options`` for a session: limits (seconds, 0 = none) and UTC."""
    settings = {
        "timezone": "UTC",
        "statement_timeout": f"{round(statement_timeout_s * 1000)}",
        "lock_timeout": f"{round(lock_timeout_s * 1000)}",
        # An abandoned transaction must not hold the provider's row for ever.
        "idle_in_transaction_session_timeout": "120000",
        "client_connection_check_interval": "10000",
    }
    if read_only:
        settings["default_transaction_read_only"] = "on"
        settings["default_transaction_isolation"] = r"repeatable\ read"
    return " ".join(f"-c {name}={value}" for name, value in settings.items())


def make_engine(
    url: str,
    *,
    application_name: str = "gpucost",
    statement_timeout_s: float = 60,
    lock_timeout_s: float = 10,
    pool_size: int = 5,
) -> sqlalchemy.Engine:
    """Return an engine for ``url``; it connects on first use.

    Errors of a connection come as SQLAlchemy's; ``translated()`` turns them into one line.
    Raises InvalidUrl.
    """
    import sqlalchemy
    from sqlalchemy import event

    target = _sqlalchemy_url(url)
    options = session_options(
        statement_timeout_s=statement_timeout_s, lock_timeout_s=lock_timeout_s
    )
    engine = sqlalchemy.create_engine(
        target,
        pool_pre_ping=True,
        pool_size=pool_size,
        max_overflow=pool_size,
        hide_parameters=True,
        connect_args=_connect_arguments(target.query.get("options"), options, application_name),
    )

    @event.listens_for(engine, "connect")
    def refuse_old(connection: Any, _record: object) -> None:
        try:
            _refuse_old_server(connection.info.server_version)
        except ServerTooOld:
            connection.close()
            raise

    return engine


def _sqlalchemy_url(url: str) -> sqlalchemy.URL:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    normal = libpq_url(url)
    _options_of(normal)
    try:
        return make_url(normal).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):
        raise InvalidUrl(URL_NOT_VALID) from None


def _options_of(url: str) -> object:
    """Return the URL's ``options``. Raises InvalidUrl if libpq does not understand the URL."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        return conninfo_to_dict(url).get("options")
    except psycopg.Error:
        # libpq quotes what it stumbled over, which may be a part of the password.
        raise InvalidUrl(URL_NOT_VALID) from None


def _connect_arguments(given: object, options: str, application_name: str) -> dict[str, Any]:
    # `options` of the URL come last, so that they win.
    return {
        "options": f"{options} {given}" if isinstance(given, str) else options,
        "application_name": application_name,
        "connect_timeout": _CONNECT_TIMEOUT_S,
    }


def _refuse_old_server(version: int) -> None:
    if version < OLDEST_SERVER:
        raise ServerTooOld(
            f"the database server is PostgreSQL {version // 10000}, gpucost needs "
            f"{OLDEST_SERVER // 10000} or newer: upgrade it, or use another database_url"
        )


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of SQLAlchemy and psycopg inside the block into StoreError."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        if not _is_of_the_database(error):
            raise
        raise translate(error) from error


@contextmanager
def transaction(
    engine: sqlalchemy.Engine, guard: Callable[[psycopg.Cursor[Any]], None] | None = None
) -> Iterator[psycopg.Cursor[Any]]:
    """A cursor whose work is committed at the end of the block. *guard* is asked first.

    The driver's own: SQLAlchemy's share of a small transaction would be the larger one. A lost
    connection does not go back to the pool. Errors of the database become StoreError.
    """
    with translated():
        pooled = engine.raw_connection()
        try:
            connection: psycopg.Connection[Any] = pooled.driver_connection  # type: ignore[assignment]
            try:
                with connection.cursor() as cursor:
                    if guard is not None:
                        guard(cursor)
                    yield cursor
                connection.commit()
            except BaseException:
                if connection.broken or connection.closed:
                    pooled.invalidate()
                else:
                    connection.rollback()
                raise
        finally:
            pooled.close()


def _is_of_the_database(error: Exception) -> bool:
    return any(
        re.match(r"(sqlalchemy|psycopg)(\.|$)", kind.__module__) for kind in type(error).__mro__
    )


def connect(
    url: str,
    *,
    application_name: str = "gpucost",
    statement_timeout_s: float = 60,
    lock_timeout_s: float = 10,
    read_only: bool = False,
    autocommit: bool = False,
) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a bare psycopg connection, without SQLAlchemy. Close it.

    Raises InvalidUrl, ServerTooOld, DatabaseUnreachable and the like.
    """
    import psycopg

    options = session_options(
        statement_timeout_s=statement_timeout_s,
        lock_timeout_s=lock_timeout_s,
        read_only=read_only,
    )
    target = libpq_url(url)
    arguments = _connect_arguments(_options_of(target), options, application_name)
    try:
        connection = psycopg.connect(target, autocommit=autocommit, **arguments)
    except psycopg.Error as error:
        raise translate(error) from error
    try:
        _refuse_old_server(connection.info.server_version)
    except ServerTooOld:
        connection.close()
        raise
    return connection


@contextmanager
def read_connection(
    url: str, *, application_name: str = "gpucost", statement_timeout_s: float = 30
) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Give a connection for one answer: read-only, one snapshot for all its statements.

    Errors of the database inside the block become StoreError. Nothing is ever committed.
    """
    with translated():
        connection = connect(
            url,
            application_name=application_name,
            statement_timeout_s=statement_timeout_s,
            read_only=True,
        )
        try:
            yield connection
        finally:
            connection.close()

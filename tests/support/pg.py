"""A real PostgreSQL for tests: one embedded server a worker, one clean database a test.

A database with gpucost's tables is used again when it can be made as good as new, which costs a
tenth of making another: see ``cleaned``.

``GPUCOST_TEST_BINDIR`` names the folder of another PostgreSQL's programs to run the tests on.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tracker.store import migrate
from tracker.store.embedded import Embedded
from tracker.store.embedded.account import choose_account
from tracker.store.errors import StoreError

_PREFIX = "gpucost-test-"
_OWNER_LOCK = "owner.lock"
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - mkdtemp makes a private folder there
_TEMPLATE = "gpucost_template"


def bindir_of_tests() -> Path | None:
    """Return the programs to test on, None for those that gpucost finds by itself."""
    setting = os.environ.get("GPUCOST_TEST_BINDIR")
    return Path(setting) if setting else None


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """Give a short, fresh folder that the server's account can enter, and remove it.

    pytest's own folders are closed to other accounts and long, and socket paths are limited.
    """
    account = choose_account(None)
    roots = [Path(tempfile.gettempdir()), *map(Path, _TEMPORARY)]
    root = next(r for r in roots if r.is_dir() and len(str(r)) < 40 and account.can_enter(r))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
    if account.switch:
        folder.chmod(0o711)
    with (folder / _OWNER_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
        shutil.rmtree(folder)


def remove_leftovers() -> None:
    """Stop the servers and remove the folders of test runs that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # The lock tells the folders of runs that live: the kernel frees it with the process.
        with suppress(OSError, StoreError), (folder / _OWNER_LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            Embedded(folder).stop(force=True)
            shutil.rmtree(folder)


class TestServer:
    """One server with a migrated template database; makes and drops databases."""

    __test__ = False

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = itertools.count(1)
        self._shape: str | None = None  # of a database that has just been migrated
        self._clean: list[str] = []
        self._admin = psycopg.connect(url, autocommit=True)
        # Copying files is faster than logging pages, for small databases; 14 knows no choice.
        recent = self._admin.info.server_version >= 150000
        self._strategy = sql.SQL(" STRATEGY file_copy" if recent else "")

    def close(self) -> None:
        """Close the connection that makes databases."""
        self._admin.close()

    @contextmanager
    def database(self, *, migrated: bool) -> Iterator[str]:
        """Give the URL of a clean database, with gpucost's tables or without, for a while."""
        if migrated and self._clean:
            name = self._clean.pop()
        else:
            name = f"test_{next(self._numbers)}"
            self._create(name, self._template() if migrated else "template0")
        try:
            yield self._url_of(name)
        finally:
            if migrated and self._cleaned(name):
                self._clean.append(name)
            else:
                drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
                self._admin.execute(drop.format(sql.Identifier(name)))

    def _cleaned(self, name: str) -> bool:
        """Whether database *name* is now as it was made."""
        self._admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s",
            (name,),
        )
        altered = "SELECT 1 FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase"
        if self._admin.execute(f"{altered} WHERE d.datname = %s", (name,)).fetchone():
            return False
        with psycopg.connect(self._url_of(name), autocommit=True) as connection:
            return cleaned(connection, self._shape)

    def _template(self) -> str:
        if self._shape is None:
            self._create(_TEMPLATE, "template0")
            migrate.upgrade(self._url_of(_TEMPLATE))
            with psycopg.connect(self._url_of(_TEMPLATE)) as connection:
                self._shape = shape_of(connection)
        return _TEMPLATE

    def _create(self, name: str, template: str) -> None:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(template)
        )
        self._admin.execute(statement + self._strategy)

    def _url_of(self, database: str) -> str:
        return urlsplit(self._url)._replace(path=f"/{database}").geturl()


def shape_of(connection: psycopg.Connection[Any]) -> str:
    """Stands for all tables, columns, constraints, indexes, triggers, sequences and functions."""
    [(shape,)] = connection.execute(_SHAPE_SQL).fetchall()
    return str(shape)


def cleaned(connection: psycopg.Connection[Any], shape: str | None) -> bool:
    """Empty every table and start every sequence anew; False if the schema is not *shape*.

    The revision of the schema stays, and so must nothing else: partitions are dropped.
    """
    for (table,) in connection.execute(_PARTITIONS_SQL).fetchall():
        connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(table)))
    if shape_of(connection) != shape:
        return False
    if used := [table for (table,) in connection.execute(_USED_SQL).fetchall()]:
        names = sql.SQL(", ").join(map(sql.Identifier, used))
        connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(names))
    connection.execute(_SEQUENCES_SQL)
    return True


# Partitions are made while testing; they are not part of a schema that is just migrated.
_PARTITIONS_SQL = "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'"
_SHAPE_SQL = """
SELECT md5(string_agg(what, ' ' ORDER BY what)) FROM (
    SELECT format('%s %s %s %s %s', c.relname, c.relkind, c.relpersistence, c.reloptions,
                  array_agg(format('%s %s %s %s', a.attname, a.atttypid, a.attnotnull,
                                   a.attisdropped) ORDER BY a.attnum)) AS what
    FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
    WHERE c.relnamespace = 'public'::regnamespace GROUP BY c.oid
    UNION ALL
    SELECT format('%s %s', conname, convalidated) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT format('%s %s', tgname, tgenabled) FROM pg_trigger
    UNION ALL SELECT format('%s %s', proname, prosrc) FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT nspname::text FROM pg_namespace WHERE nspname !~ '^pg_'
    UNION ALL SELECT version_num::text FROM public.alembic_version
) all_of_it
"""
_USED_SQL = """
SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
AND relname <> 'alembic_version' AND pg_relation_size(oid) > 0
"""
_SEQUENCES_SQL = """
SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)
FROM pg_sequences WHERE last_value IS NOT NULL
"""


@contextmanager
def running_server() -> Iterator[TestServer]:
    """Run one server for a test session, and see to it that none is left."""
    remove_leftovers()
    with reachable_folder() as folder:
        embedded = Embedded(folder, bindir=bindir_of_tests(), durable=False)
        with embedded.running() as url:
            server = TestServer(url)
            try:
                yield server
            finally:
                server.close()
        status = embedded.status()
        assert not status.running, f"a server was left behind: {status}"

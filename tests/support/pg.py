"""A real PostgreSQL for tests: one embedded server a worker, one fresh database a test.

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
        self._migrated = False
        self._admin = psycopg.connect(url, autocommit=True)
        # Copying files is faster than logging pages, for small databases; 14 knows no choice.
        recent = self._admin.info.server_version >= 150000
        self._strategy = sql.SQL(" STRATEGY file_copy" if recent else "")

    def close(self) -> None:
        """Close the connection that makes databases."""
        self._admin.close()

    @contextmanager
    def database(self, *, migrated: bool) -> Iterator[str]:
        """Give the URL of a fresh database, with gpucost's tables or without, and drop it."""
        name = f"test_{next(self._numbers)}"
        self._create(name, self._template() if migrated else "template0")
        try:
            yield self._url_of(name)
        finally:
            self._admin.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )

    def _template(self) -> str:
        if not self._migrated:
            self._create(_TEMPLATE, "template0")
            migrate.upgrade(self._url_of(_TEMPLATE))
            self._migrated = True
        return _TEMPLATE

    def _create(self, name: str, template: str) -> None:
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(template)
        )
        self._admin.execute(statement + self._strategy)

    def _url_of(self, database: str) -> str:
        return urlsplit(self._url)._replace(path=f"/{database}").geturl()


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

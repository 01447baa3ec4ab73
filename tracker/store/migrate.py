"""Migrations: bring a database to this release's schema, and tell whether it is there.

``check`` is on the path of every answer, so it imports neither Alembic nor SQLAlchemy: it reads
the revision graph from the first lines of the migration files.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracker.store.engine import connect, make_engine, translated
from tracker.store.errors import SchemaOutdated, SchemaTooNew, StoreError, translate

if TYPE_CHECKING:
    import psycopg
    from alembic.config import Config
    from sqlalchemy import Connection

VERSION_TABLE = "alembic_version"

_REVISION = re.compile(r"^revision\s*(?::[^=]+)?=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)
_PARENT = re.compile(r"^down_revision\s*(?::[^=]+)?=\s*(?:['\"]([^'\"]+)['\"]|None)", re.MULTILINE)


def script_location() -> Path:
    """Return the folder of the migrations: the installed package's, else the checkout's."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


@cache
def _graph(folder: Path) -> tuple[str | None, frozenset[str]]:
    """Return (head, all revisions) of the migration files. Raises StoreError if they fork."""
    parents: dict[str, str | None] = {}
    for file in sorted((folder / "versions").glob("*.py")):
        text = file.read_text(encoding="utf-8")
        revision, parent = _REVISION.search(text), _PARENT.search(text)
        if revision is None or parent is None:
            raise StoreError(f"{file} is not a migration: reinstall gpucost")
        parents[revision[1]] = parent[1]
    heads = set(parents) - set(parents.values())
    if len(heads) > 1:
        raise StoreError(f"the migrations fork at {', '.join(sorted(heads))}: reinstall gpucost")
    return next(iter(heads), None), frozenset(parents)


def head() -> str | None:
    """Return the revision this release needs; None if it has no migrations."""
    return _graph(script_location())[0]


def current(url: str) -> str | None:
    """Return the revision of the database, None if it holds no tables of ours yet.

    Raises StoreError if it cannot be asked.
    """
    with translated(), connect(url, read_only=True) as connection:
        return read_revision(connection)


def read_revision(connection: psycopg.Connection[Any]) -> str | None:
    """Return the revision of the database that ``connection`` is in; see ``current``."""
    found = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (VERSION_TABLE,)).fetchone()
    if found is None or not found[0]:
        return None
    row = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()  # noqa: S608
    return str(row[0]) if row else None


def check(url: str) -> None:
    """Raise SchemaOutdated or SchemaTooNew unless the database is at ``head()``."""
    check_revision(current(url))


def check_revision(revision: str | None) -> None:
    """Raise SchemaOutdated or SchemaTooNew unless ``revision`` is ``head()``."""
    wanted, known = _graph(script_location())
    if revision == wanted:
        return
    if revision is None:
        raise SchemaOutdated("the database holds no gpucost tables yet: run gpucost db upgrade")
    if revision in known:
        raise SchemaOutdated(
            f"the database is at version {revision}, this gpucost needs {wanted}: "
            "run gpucost db upgrade"
        )
    raise SchemaTooNew(
        f"the database is at version {revision}, which this gpucost does not know: "
        "install the newer gpucost that wrote it"
    )


def config(connection: Connection | None = None) -> Config:
    """Return Alembic's configuration, made here: no alembic.ini to find or to ship."""
    from alembic.config import Config

    made = Config()
    # The configuration parser interpolates %.
    made.set_main_option("script_location", str(script_location()).replace("%", "%%"))
    made.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    made.set_main_option("path_separator", "os")
    made.attributes["connection"] = connection
    return made


def upgrade(url: str, revision: str = "head", *, lock_timeout_s: float = 60) -> None:
    """Bring the database to ``revision``; does nothing if it is there.

    Safe to run in several processes at once: an advisory lock lets one work, the others find the
    work done. Each migration is a transaction. Raises SchemaTooNew, DatabaseBusy and others.
    """
    from alembic import command
    from alembic.util.exc import CommandError

    if revision == "head":
        found = current(url)
        if found is not None and found not in _graph(script_location())[1]:
            check_revision(found)
    engine = make_engine(
        url,
        application_name="gpucost migrate",
        statement_timeout_s=0,
        lock_timeout_s=lock_timeout_s,
        pool_size=1,
    )
    try:
        with translated(), engine.connect() as connection:
            command.upgrade(config(connection), revision)
    except CommandError as error:
        raise translate(error) from error
    finally:
        engine.dispose()

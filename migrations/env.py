"""Alembic's entry: one connection given by tracker.store.migrate, one upgrade at a time."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, text

from tracker.store.engine import make_engine
from tracker.store.schema_history import metadata

# Any number will do, as long as every release uses the same: "gpucost" read as hexadecimal bytes.
ADVISORY_LOCK = 0x677075636F7374


def run(connection: Connection) -> None:
    """Run the migrations asked for, alone: others wait here, and then find nothing to do."""
    # A session lock, not a transaction's: each migration commits by itself.
    connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": ADVISORY_LOCK})
    connection.commit()
    try:
        partitions = set(
            connection.scalars(text("SELECT relname FROM pg_class WHERE relispartition"))
        )
        connection.rollback()
        # Less patient than for the advisory lock: who waits for a table makes others wait behind.
        connection.execute(text("SET lock_timeout = '10s'"))
        connection.commit()
        context.configure(
            connection=connection,
            target_metadata=metadata,
            transaction_per_migration=True,
            compare_type=True,
            compare_server_default=True,
            # Partitions come and go with the months: they are data, not schema.
            include_name=lambda name, kind, _parents: kind != "table" or name not in partitions,
        )
        with context.begin_transaction():
            context.run_migrations()
        connection.commit()
    finally:
        # A failed migration leaves an aborted transaction, in which unlocking would fail too.
        connection.rollback()
        connection.execute(text("RESET lock_timeout"))
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": ADVISORY_LOCK})
        connection.commit()


def main() -> None:
    """Use the caller's connection, or (alembic's own command line) the URL of ``-x url=``."""
    given = context.config.attributes.get("connection")
    if given is not None:
        run(given)
        return
    url = context.get_x_argument(as_dictionary=True).get("url")
    if url is None:
        raise SystemExit(
            "give the database: alembic -c migrations/alembic.ini -x url=postgresql://…"
        )
    engine = make_engine(url, application_name="gpucost migrate", statement_timeout_s=0)
    try:
        with engine.connect() as connection:
            run(connection)
    finally:
        engine.dispose()


main()

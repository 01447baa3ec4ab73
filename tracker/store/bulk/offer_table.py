"""The rows in ``offer`` of those offers whose spans are in staged months, with the ids set aside.

Where history begins with an import, they are half of what it waits for: each row goes into three
indexes that stand. ``add_first`` does without these while there is nobody whom that could disturb.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection

import psycopg

from tracker.store.bulk.months import build_alone
from tracker.store.imports import IDENTITY, Connection, Cursor, Run

# Fewer are not worth it; more would have a provider's first poll wait for too long.
_FEWEST, _MOST = 20_000, 1_000_000
# Somebody uses the table, or has one of his own that refers to it.
_IN_THE_WAY = (psycopg.errors.LockNotAvailable, psycopg.errors.DependentObjectsStillExist)


def add_first(connection: Connection, run: Run, doubted: Collection[int] = ()) -> bool:
    """``add`` many offers to none at once, in a transaction of its own; whether that was done.

    The indexes are made when the rows are there. Nobody can read ``offer`` meanwhile, so nothing is
    done where it holds a row already, where somebody uses it right now, a table of his refers to
    it, or he has changed an index. Should the import end here, its offers stay, without prices:
    another import or a poll that brings them finds them.
    """
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(
            f"SELECT count(*) BETWEEN %s AND %s FROM {run.stage}_offer", (_FEWEST, _MOST)
        )
        if cursor.fetchall() != [(True,)]:
            return False
        try:
            with connection.transaction():
                cursor.execute("LOCK TABLE offer IN ACCESS EXCLUSIVE MODE NOWAIT")
                cursor.execute("SELECT EXISTS (SELECT FROM offer)")
                if cursor.fetchall() == [(True,)] or _made_by_hand(cursor):
                    raise psycopg.Rollback
                again = _drop_indexes(cursor)
                cursor.execute(_statement(run), _values(doubted))
                build_alone(connection, local=True)
                for statement in again:
                    cursor.execute(statement)
                cursor.execute("ANALYZE offer (id, key, source_id, seller_id)")
                return True
        except _IN_THE_WAY:
            pass
    return False


def _made_by_hand(cursor: Cursor) -> bool:
    """Whether an index has what the statement that makes it does not say."""
    cursor.execute(
        """
SELECT EXISTS (
    SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid = 'offer'::regclass AND (
        i.indisreplident OR i.indisclustered OR NOT i.indisvalid OR c.reltablespace <> 0
        OR c.reloptions IS NOT NULL OR EXISTS (
            SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attstattarget >= 0
        ) OR EXISTS (
            SELECT FROM pg_description d LEFT JOIN pg_constraint o ON o.conindid = c.oid
            WHERE d.objoid IN (c.oid, o.oid)
        )
    )
)
"""
    )
    return bool(cursor.fetchall()[0][0])


def _drop_indexes(cursor: Cursor) -> list[str]:
    """Drop the indexes of ``offer``; the statements that make them again, under their names."""
    cursor.execute(
        "SELECT quote_ident(conname), pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid = 'offer'::regclass AND contype IN ('p', 'u', 'x') ORDER BY contype"
    )
    constraints = cursor.fetchall()
    again = [f"ALTER TABLE offer ADD CONSTRAINT {name} {what}" for name, what in constraints]
    for name, _ in constraints:
        cursor.execute(f"ALTER TABLE offer DROP CONSTRAINT {name}")
    cursor.execute(
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index"
        " WHERE indrelid = 'offer'::regclass ORDER BY 1"
    )
    for name, what in cursor.fetchall():
        cursor.execute(f"DROP INDEX {name}")
        again.append(what)
    return again


def add(cursor: Cursor, run: Run, doubted: Collection[int] = ()) -> bool:
    """Add all but the offers with the numbers *doubted*; whether all of them could be made. What
    others have made meanwhile stays as it is."""
    # At first without ON CONFLICT, which looks at the index twice for each row.
    statement, values = _statement(run), _values(doubted)
    try:
        with cursor.connection.transaction():
            cursor.execute(statement, values)
            made = cursor.rowcount
    except psycopg.errors.UniqueViolation:  # another import has made some of them meanwhile
        cursor.execute(statement + " ON CONFLICT (key) DO NOTHING", values)
        made = cursor.rowcount
    cursor.execute(f"SELECT count(*) FROM {run.stage}_offer s WHERE {_wanted(run)}", values)
    return cursor.fetchall() == [(made,)]


def _statement(run: Run) -> str:
    names = ", ".join(IDENTITY)
    staged = ", ".join(f"s.{name}" for name in IDENTITY)
    return f"""
INSERT INTO offer (id, key, source_id, seller_id, {names}, gpu_raw, source_url, notes,
    first_seen_at)
OVERRIDING SYSTEM VALUE
SELECT s.id, s.key, a.id, b.id, {staged}, s.gpu_raw, s.source_url, s.notes, s.first_at
FROM {run.stage}_offer s JOIN provider a ON a.slug = s.source JOIN provider b ON b.slug = s.seller
WHERE {_wanted(run)}
"""


def _wanted(run: Run) -> str:
    return (
        f"NOT s.had AND s.n NOT IN (SELECT n FROM {run.stage}_odd)"
        " AND s.n NOT IN (SELECT unnest(%(doubted)s::int[]))"
    )


def _values(doubted: Collection[int]) -> dict[str, list[int]]:
    return {"doubted": list(doubted)}

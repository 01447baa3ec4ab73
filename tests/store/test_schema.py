"""The migrations make exactly the tables that the metadata describes."""

from __future__ import annotations

from typing import Any

from tests.store.worlds import recording_engine, rows
from tracker.domain.offer import Extras, Terms
from tracker.store.schema import offer_now
from tracker.store.schema_history import metadata

_COLUMNS = """
SELECT table_name, ordinal_position, column_name, data_type, udt_name, is_nullable,
       column_default, is_identity
FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2
"""
_CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND contype <> 'n' ORDER BY 1, 2
"""
_INDEXES = """
SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2
"""
_OPTIONS = """
SELECT relname, relkind::text, reloptions, pg_get_partkeydef(oid) FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1
"""


def described(url: str) -> dict[str, list[tuple[Any, ...]]]:
    return {
        statement: [row for row in rows(url, statement) if row[0] != "alembic_version"]
        for statement in (_COLUMNS, _CONSTRAINTS, _INDEXES, _OPTIONS)
    }


def test_migrations_and_metadata_agree(database_url: str, empty_database_url: str) -> None:
    with recording_engine(empty_database_url) as engine:
        metadata.create_all(engine)
    migrated, declared = described(database_url), described(empty_database_url)
    for statement, expected in declared.items():
        assert migrated[statement] == expected


def test_every_term_and_extra_has_a_column() -> None:
    fields = {*Terms.__dataclass_fields__, *Extras.__dataclass_fields__}
    assert fields <= set(offer_now.c.keys())

"""Measurements of jobs: written once, never changed; the newest version is in force.

Plain psycopg, so that an answer needs no more than reading prices does.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import psycopg

from tracker.domain.measurement import Measurement

Connection = psycopg.Connection[Any]
Cursor = psycopg.Cursor[Any]

_COLUMNS = "job, subject, gpu, gpus, version, hours, measured_at, unit, amount, utilisation, note"


def of_job(connection: Connection, job: str) -> list[Measurement]:
    """All measurements of the job called *job*, oldest first."""
    cursor = connection.execute(
        f"SELECT {_COLUMNS} FROM measurement WHERE job = %s ORDER BY id",  # noqa: S608
        (job,),
    )
    return [_measurement(row) for row in cursor]


def add(cursor: Cursor, one: Measurement) -> int:
    """Write *one* as the next version of its job, GPU and count, and return that version."""
    # One after the other: two at once would take the same version.
    cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"measure {one.job}",))
    row = cursor.execute(
        "INSERT INTO measurement (job, subject, gpu, gpus, version, hours, unit, amount,"
        " utilisation, note, measured_at)"
        " SELECT %(job)s, %(subject)s, %(gpu)s, %(gpus)s, coalesce(max(version), 0) + 1, %(hours)s,"
        " %(unit)s, %(amount)s, %(utilisation)s::jsonb, %(note)s, %(measured_at)s"
        " FROM measurement WHERE job = %(job)s AND gpu = %(gpu)s AND gpus = %(gpus)s"
        " RETURNING version",
        {
            **one._asdict(),
            "utilisation": json.dumps({k: str(v) for k, v in one.utilisation.items()}),
        },
    ).fetchone()
    return int(row[0]) if row else 0


def _measurement(row: tuple[Any, ...]) -> Measurement:
    found = Measurement(*row)
    told = {name: Decimal(value) for name, value in (found.utilisation or {}).items()}
    return found._replace(utilisation=told)

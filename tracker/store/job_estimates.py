"""The estimates that a job had, by version: written when they change, never altered."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import psycopg

Connection = psycopg.Connection[Any]
Cursor = psycopg.Cursor[Any]


class RecordedEstimate(NamedTuple):
    """The ways to run a job on machines with so many GPUs, as they were known from a moment on.

    ``ways`` are plain values (tracker/report/history/versions.py); none: it had no estimate.
    ``version`` counts the versions of a job, a GPU and a size of machine from 1 on.
    """

    gpu_key: str
    machine_gpus: int
    ways: list[dict[str, Any]]
    version: str
    recorded_at: datetime


def of_job(connection: Connection, digest: bytes) -> list[RecordedEstimate]:
    """All that is on record of the job with *digest*, oldest first."""
    cursor = connection.execute(
        "SELECT gpu_key, machine_gpus, way, version, recorded_at FROM job_estimate"
        " WHERE job_digest = %s ORDER BY recorded_at, id",
        (digest,),
    )
    return [RecordedEstimate(*row) for row in cursor]


def add(cursor: Cursor, digest: bytes, estimates: Iterable[RecordedEstimate]) -> int:
    """Record those of *estimates* that differ from the newest on record; how many those were.

    Their ``version`` is given here.
    """
    # One after the other: two at once would take the same version.
    cursor.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"estimate {digest.hex()}",)
    )
    cursor.execute(
        "SELECT DISTINCT ON (gpu_key, machine_gpus) gpu_key, machine_gpus, way, version"
        " FROM job_estimate WHERE job_digest = %s"
        " ORDER BY gpu_key, machine_gpus, recorded_at DESC, id DESC",
        (digest,),
    )
    newest = {(row[0], row[1]): (row[2], int(row[3])) for row in cursor}
    written = 0
    for one in estimates:
        ways, version = newest.get((one.gpu_key, one.machine_gpus), (None, 0))
        if ways == one.ways:
            continue
        cursor.execute(
            "INSERT INTO job_estimate (job_digest, gpu_key, machine_gpus, way, version,"
            " recorded_at) VALUES (%s, %s, %s, %s::jsonb, %s, %s)",
            (digest, one.gpu_key, one.machine_gpus, json.dumps(one.ways), str(version + 1),
             one.recorded_at),
        )  # fmt: skip
        written += 1
    return written

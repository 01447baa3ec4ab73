"""The estimates that a job had, by version: written when they change, never altered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import psycopg

Connection = psycopg.Connection[Any]
Cursor = psycopg.Cursor[Any]

_COLUMNS = "gpu_key, machine_gpus, way, version, recorded_at, provenance"


class RecordedEstimate(NamedTuple):
    """The ways to run a job on machines with so many GPUs, as they were known from a moment on.

    ``ways`` are plain values (tracker/report/history/versions.py); none: it had no estimate.
    ``version`` counts the versions of a job, a GPU and a size of machine from 1 on. ``provenance``
    (tracker/report/history/provenance.py): what they rest on; None where that was not kept yet.
    """

    gpu_key: str
    machine_gpus: int
    ways: list[dict[str, Any]]
    version: str
    recorded_at: datetime
    provenance: Mapping[str, Any] | None = None


def digests(connection: Connection) -> frozenset[bytes]:
    """The digests of all jobs that have estimates on record."""
    rows = connection.execute("SELECT DISTINCT job_digest FROM job_estimate")
    return frozenset(bytes(row[0]) for row in rows)


def of_job(connection: Connection, digest: bytes) -> list[RecordedEstimate]:
    """All that is on record of the job with *digest*, oldest first."""
    cursor = connection.execute(
        f"SELECT {_COLUMNS} FROM job_estimate"  # noqa: S608
        " WHERE job_digest = %s ORDER BY recorded_at, id",
        (digest,),
    )
    return [RecordedEstimate(*row) for row in cursor]


def newest(connection: Connection, digest: bytes) -> list[RecordedEstimate]:
    """The version in force of each GPU and size of machine, in their order."""
    cursor = connection.execute(
        f"SELECT DISTINCT ON (gpu_key, machine_gpus) {_COLUMNS} FROM job_estimate"  # noqa: S608
        " WHERE job_digest = %s ORDER BY gpu_key, machine_gpus, recorded_at DESC, id DESC",
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
    known = {(one.gpu_key, one.machine_gpus): one for one in newest(cursor.connection, digest)}
    written = 0
    for one in estimates:
        before = known.get((one.gpu_key, one.machine_gpus))
        if before is not None and before.ways == one.ways:
            continue
        version = 1 if before is None else int(before.version) + 1
        cursor.execute(
            "INSERT INTO job_estimate (job_digest, gpu_key, machine_gpus, way, version,"
            " recorded_at, provenance) VALUES (%s, %s, %s, %s::jsonb, %s, %s, %s::jsonb)",
            (digest, one.gpu_key, one.machine_gpus, json.dumps(one.ways), str(version),
             one.recorded_at, None if one.provenance is None else json.dumps(one.provenance)),
        )  # fmt: skip
        written += 1
    return written

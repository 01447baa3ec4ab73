"""Jobs with what was measured of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracker.domain.job import Job

if TYPE_CHECKING:
    import psycopg


def measured(connection: psycopg.Connection[Any], job: Job) -> Job:
    """*job* with the measurements that the database has of it."""
    from tracker.store import measurements

    found = measurements.of_job(connection, job.name)
    if not found:
        return job
    from tracker.domain.measurement import with_measurements

    return with_measurements(job, found)

"""Estimates on record worked out anew: for whom, and written or not."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from tracker.app.jobs import listed_jobs
from tracker.domain.job import Job

if TYPE_CHECKING:
    from tracker.app.root import App
    from tracker.report.history.recomputed import Recomputed


class Recomputing(NamedTuple):
    """What was looked at and what has changed. ``unrecorded``: jobs asked for that have nothing on
    record; ``nameless``: how many jobs on record no name leads to here."""

    found: tuple[Recomputed, ...]
    written: int
    unrecorded: tuple[str, ...]
    nameless: int

    @property
    def changed(self) -> tuple[Recomputed, ...]:
        """Those for which there is a new version."""
        return tuple(one for one in self.found if one.changed)


def known_jobs(app: App) -> list[Job]:
    """The jobs that a name leads to: those of the alert rules, the built-in and the kept ones."""
    watched = [rule.job for rule in app.alert_rules()[0] if rule.job is not None]
    listed = [one.job for one in listed_jobs(app) if one.job is not None]
    by_name: dict[str, Job] = {}
    for job in (*watched, *listed):
        by_name.setdefault(job.name, job)
    return list(by_name.values())


def recompute(app: App, jobs: Iterable[Job], now: datetime, *, write: bool) -> Recomputing:
    """Work the estimates on record of *jobs* out anew (of none: of all that are known); with
    *write* put what has changed on record. Raises StoreError, and NothingRecorded."""
    from tracker.report.history.recomputed import recomputed
    from tracker.report.history.versions import digest_of
    from tracker.store import job_estimates, migrate
    from tracker.store.engine import make_engine, transaction

    asked = list(jobs)
    wanted = asked or known_jobs(app)
    if not write:
        with app.reading() as connection:
            found = [recomputed(connection, job, app.catalogue, now) for job in wanted]
            return _told(asked, wanted, found, job_estimates.digests(connection), 0)
    with app.database(upgrade=True) as url:
        migrate.check(url)
        engine = make_engine(url)
        try:
            with transaction(engine) as cursor:
                connection = cursor.connection
                found, written = [], 0
                for job in wanted:
                    of_job = recomputed(connection, job, app.catalogue, now)
                    fresh = [one.fresh for one in of_job if one.changed]
                    if fresh:
                        written += job_estimates.add(cursor, digest_of(job), fresh)
                    found.append(of_job)
                on_record = job_estimates.digests(connection)
        finally:
            engine.dispose()
    return _told(asked, wanted, found, on_record, written)


def _told(
    asked: list[Job], wanted: list[Job], found: list[list[Recomputed]],
    on_record: frozenset[bytes], written: int,
) -> Recomputing:  # fmt: skip
    from tracker.report.history.versions import digest_of

    known = {digest_of(job) for job in wanted}
    return Recomputing(
        found=tuple(one for of_job in found for one in of_job),
        written=written,
        unrecorded=tuple(
            job.name for job, of_job in zip(wanted, found, strict=True) if asked and not of_job
        ),
        nameless=0 if asked else len(on_record - known),
    )

"""The estimates of the jobs that rules watch, put on record when they change.

So that a past moment can be priced with what was known then (tracker/report/history/versions.py).
They change with a release of gpucost, an edited job and a measurement: looking once an hour, and
whenever the rules are read, is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tracker.alert.rules import Rule
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job
from tracker.report.history.versions import digest_of, estimates_now
from tracker.report.measured import measured
from tracker.store import job_estimates, reads
from tracker.store.engine import transaction

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy import Engine

    Guard = Callable[[psycopg.Cursor[Any]], None]

EVERY = timedelta(hours=1)


class EstimateKeeper:
    """Records the estimates of the jobs of *rules*. *guard*: see ``AlertEngine``."""

    def __init__(
        self, engine: Engine, rules: Iterable[Rule], catalogue: Catalogue,
        guard: Guard | None = None,
    ) -> None:  # fmt: skip
        self._engine, self._catalogue, self._guard = engine, catalogue, guard
        self._jobs: dict[str, tuple[Job, set[str]]] = {}
        for rule in rules:
            if rule.job is not None:
                _, keys = self._jobs.setdefault(rule.job.name, (rule.job, set()))
                keys.update(*rule.gpus.values())
        self._looked_at: datetime | None = None

    def record(self, now: datetime) -> int:
        """Record what has changed, when it is time to look; how many estimates that were.

        Raises StoreError; it is then looked again at the next call.
        """
        since = None if self._looked_at is None else now - self._looked_at
        if since is not None and timedelta() <= since < EVERY:
            return 0
        written = sum(self._of_job(job, keys, now) for job, keys in self._jobs.values())
        self._looked_at = now
        return written

    def _of_job(self, job: Job, gpu_keys: Collection[str], now: datetime) -> int:
        with transaction(self._engine, self._guard) as cursor:
            connection = cursor.connection
            known = measured(connection, job)
            offers = reads.live_offers(connection, gpu_keys=gpu_keys)
            found = estimates_now(known, offers, self._catalogue, now)
            return job_estimates.add(cursor, digest_of(job), found)

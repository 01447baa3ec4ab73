"""Measurements in the database: versioned, and never changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal

from tests.store.worlds import recording_engine
from tracker.domain.measurement import Measurement
from tracker.store import measurements
from tracker.store.engine import read_connection, transaction

ONE = Measurement(
    "j", "hpc", "H100-SXM-80GB", 2, 0, Decimal("3.900000001"),
    datetime(2026, 11, 30, 12, tzinfo=UTC), "tokens", Decimal(10) ** 12,
    {"gpu_percent": Decimal("87.5")}, "night run",
)  # fmt: skip


def _add(url: str, *wanted: Measurement) -> list[int]:
    with recording_engine(url) as engine:
        versions = []
        for one in wanted:
            with transaction(engine) as cursor:
                versions.append(measurements.add(cursor, one))
        return versions


def _of(url: str, job: str) -> list[Measurement]:
    with read_connection(url) as connection:
        return measurements.of_job(connection, job)


def test_what_is_written_is_read_back_exactly(database_url: str) -> None:
    assert _add(database_url, ONE) == [1]
    assert _of(database_url, "j") == [ONE._replace(version=1)]
    assert _of(database_url, "another") == []


def test_versions_count_per_job_gpu_and_count(database_url: str) -> None:
    other_gpu, other_count = ONE._replace(gpu="A100-SXM-80GB"), ONE._replace(gpus=4)
    bare = ONE._replace(unit=None, amount=None, utilisation={}, note=None)
    assert _add(database_url, ONE, other_gpu, other_count, bare, ONE._replace(job="k")) == [
        1, 1, 1, 2, 1,
    ]  # fmt: skip
    assert [one.version for one in _of(database_url, "j")] == [1, 1, 1, 2]
    assert _of(database_url, "j")[-1] == bare._replace(version=2)


def test_two_at_once_get_versions_of_their_own(database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: _add(database_url, ONE)[0], range(8)))
    assert sorted(found) == list(range(1, 9))

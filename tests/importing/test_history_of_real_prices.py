"""Job cost over time on recorded prices: dates and bills worked out by hand from the series."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.importing.worlds import OBSERVATIONS, imported
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.domain.crossings import Side
from tracker.domain.job import Job
from tracker.domain.job_text import parse_hours
from tracker.report.filters import Filters
from tracker.report.history.answer import HistoryReport, Question, history_report
from tracker.report.history.steps import step_at
from tracker.report.history.versus import Versus, versus
from tracker.store.engine import connect

HISTORY = SHARED / "history"
pytestmark = pytest.mark.skipif(not HISTORY.is_dir(), reason=NO_SHARED)

NOW = datetime(2026, 9, 1, tzinfo=UTC)
A100, H100 = "A100-SXM-40GB", "H100-SXM-80GB"

# Of the series file: per-GPU prices of the date x 12 h on one A100, x 4 h on one H100. Until
# 2024-09-19 the H100 was sold eight at a time only, and a machine is billed whole: 8 x as much.
BY_HAND = {
    "2024-06-14": ("17.63", "249.63"),  # 1.469355 x 12; 7.801053 x 4 x 8
    "2024-07-26": ("17.63", "195.07"),  # 6.095868 x 4 x 8
    "2024-11-01": ("17.63", "17.80"),  # 4.449126 x 4: 17 cents apart
    "2025-01-31": ("15.52", "17.70"),  # 1.293355 x 12; 4.424469 x 4
    "2025-03-12": ("15.52", "17.70"),  # the day before
    "2025-03-14": ("17.32", "10.21"),  # 1.442955 x 12; 2.552879 x 4
    "2025-09-26": ("17.32", "10.18"),  # 2.545687 x 4
    "2026-01-23": ("19.91", "11.73"),  # 1.659445 x 12; 2.931264 x 4
    "2026-03-20": ("21.65", "14.86"),  # 1.803850 x 12; 3.713916 x 4
    "2026-05-15": ("21.65", "18.06"),  # 4.514198 x 4
    "2026-07-03": ("23.14", "21.90"),  # 1.928020 x 12; 5.475550 x 4
    "2026-07-10": ("23.14", "24.09"),  # 6.023206 x 4
    "2026-07-31": ("23.14", "25.30"),  # 6.326193 x 4
}


def _wanted(row: dict[str, str]) -> bool:
    """GCP's spot prices in one region; and the two list prices that make an exact tie."""
    if row["provider"] == "gcp":
        return row["region"] == "us-central1" and row["kind"] == "spot"
    listed = (row["provider"], row["instance_type"], row["price_usd_hour_total"])
    return listed in {("aws", "h100-sxm", "98.32"), ("azure", "a100-sxm-80", "32.77")}


@pytest.fixture(scope="module")
def prices(database_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    table = tmp_path_factory.mktemp("prices") / "prices.csv"
    with (
        gzip.open(HISTORY / "observations.csv.gz", "rt") as file,
        Path(table).open("w", newline="") as out,
    ):
        rows = csv.DictReader(file)
        writer = csv.DictWriter(out, rows.fieldnames or [])
        writer.writeheader()
        writer.writerows(row for row in rows if _wanted(row))
    with database_server.database(migrated=True) as url:
        imported(url, "csv", table, mapping=OBSERVATIONS)
        yield url


def _read(url: str, hours: str, since: datetime, **filters: Any) -> HistoryReport:
    job = Job("job", parse_hours(hours, catalogue()))
    names = tuple(job.hours)
    question = Question(job, Filters(gpus=names, **filters), since, NOW, names)
    with closing(connect(url, autocommit=True)) as connection:
        return history_report(connection, question, catalogue(), NOW)


@pytest.fixture(scope="module")
def spot(prices: str) -> Versus:
    report = _read(
        prices, f"{A100}=12,{H100}=4", datetime(2024, 5, 1, tzinfo=UTC),
        markets=("spot",), providers=("gcp",), regions=("us-central1",),
    )  # fmt: skip
    return versus(report, H100, A100)


@pytest.mark.parametrize("day", BY_HAND)
def test_the_bill_of_a_day_is_the_one_worked_out_by_hand(spot: Versus, day: str) -> None:
    moment = datetime.fromisoformat(f"{day}T00:00:00+00:00")
    bills = []
    for name in (A100, H100):
        step = step_at(spot.report.series[name], moment)
        assert step is not None
        bills.append(str(round(step.usd, 2)))
    assert tuple(bills) == BY_HAND[day]


def test_the_h100_is_the_cheaper_one_between_two_dates(spot: Versus) -> None:
    changes = spot.crossings.changes
    assert spot.crossings.initial is Side.RIGHT
    assert [(one.at.date().isoformat(), one.to, one.gap) for one in changes] == [
        ("2025-03-13", Side.LEFT, False), ("2026-07-09", Side.RIGHT, False),
    ]  # fmt: skip
    assert [(round(one.left, 2), round(one.right, 2)) for one in changes] == [
        (Decimal("10.21"), Decimal("17.32")), (Decimal("24.09"), Decimal("23.14")),
    ]  # fmt: skip
    assert spot.crossings.left_lower.days == 483  # 2025-03-13 to 2026-07-09


def test_the_floor_tells_the_same_as_single_offers(prices: str, spot: Versus) -> None:
    """Without the region the floor is read; only one region is there."""
    floor = _read(
        prices, f"{A100}=12,{H100}=4", datetime(2024, 5, 1, tzinfo=UTC),
        markets=("spot",), providers=("gcp",),
    )  # fmt: skip
    for name in (A100, H100):
        told, again = ([(s.start, s.end, s.usd) for s in r.series[name]]
                       for r in (floor, spot.report))  # fmt: skip
        assert told == again


def test_list_prices_that_tie_are_no_crossing(prices: str) -> None:
    report = _read(prices, "A100-SXM-80GB=12,H100-SXM-80GB=4", datetime(2026, 7, 1, tzinfo=UTC))
    found = versus(report, "H100-SXM-80GB", "A100-SXM-80GB")
    assert {(step.left.usd, step.right.usd) for step in found.steps} == {
        (Decimal("393.28"), Decimal("393.24")),  # 8 x 49.16 and 8 x 49.155
    }  # fmt: skip
    assert found.crossings.changes == []
    assert found.share(Side.TIE) == 1
    even = found.steps[0].break_even_usd
    assert even is not None
    assert round(even, 5) == Decimal("12.28875")  # 393.24 / (4 h x 8)

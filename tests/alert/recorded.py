"""Vast.ai's real asks of 2026, recorded as polls: one a day, of all that trackers saw that day."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tests.support.fixtures import SHARED
from tests.support.offers import make_offer, make_poll
from tracker.domain.gpu import Gpu
from tracker.domain.offer import Offer
from tracker.store.engine import make_engine
from tracker.store.polls import Poll, Recorder

OBSERVATIONS = SHARED / "history" / "observations.csv.gz"
DAY = timedelta(days=1)
# Most trackers do not say how much memory an A100 of Vast has. The series compares "any A100": all
# are filed under one part.
GPUS = {
    "H100": Gpu("H100-SXM-80GB", "H100", "SXM", 80),
    "A100": Gpu("A100-SXM-80GB", "A100", "SXM", 80),
}


def vast_by_day() -> dict[datetime, dict[tuple[str, str], tuple[Decimal, Decimal]]]:
    """For the end of each day: (GPU, machine) → (the lowest price per machine-hour, GPUs)."""
    found: dict[datetime, dict[tuple[str, str], tuple[Decimal, Decimal]]] = {}
    with gzip.open(OBSERVATIONS, "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            if (row["provider"], row["kind"]) != ("vastai", "on_demand") or row["gpu"] not in GPUS:
                continue
            seen = datetime.fromisoformat(row["observed_at"])
            day = datetime(seen.year, seen.month, seen.day, 23, 59, tzinfo=UTC)
            key = row["gpu"], f"{row['instance_type']} {row['region']}".strip()
            price = Decimal(row["price_usd_hour_total"]), Decimal(row["gpu_count"])
            asks = found.setdefault(day, {})
            asks[key] = min(asks.get(key, price), price)
    return dict(sorted(found.items()))


def ratios() -> Iterator[tuple[datetime, Decimal]]:
    """Cheapest H100 machine for 4 hours against cheapest A100 machine for 12, on the days that have
    both. Machines are rented whole."""
    for day, asks in vast_by_day().items():
        least = {
            gpu: min((usd for (of, _), (usd, _) in asks.items() if of == gpu), default=None)
            for gpu in GPUS
        }
        if least["H100"] is not None and least["A100"] is not None:
            yield day, least["H100"] * 4 / (least["A100"] * 12)


def polls() -> Iterator[Poll]:
    """The days as complete polls of a provider that is polled daily."""
    for day, asks in vast_by_day().items():
        offers = [_offer(gpu, name, usd, n) for (gpu, name), (usd, n) in asks.items()]
        yield make_poll(
            0, offers, source="vastai", started_at=day, polled_at=day,
            every_seconds=int(DAY.total_seconds()),
        )  # fmt: skip


def _offer(gpu: str, name: str, usd: Decimal, count: Decimal) -> Offer:
    return make_offer(name, usd, source="vastai", gpu=GPUS[gpu], gpu_count=count)


def record_vast(url: str) -> None:
    """All of it into the database at *url*."""
    engine = make_engine(url)
    try:
        recorder = Recorder(engine)
        for poll in polls():
            recorder.record(poll)
    finally:
        engine.dispose()

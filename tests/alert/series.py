"""Series of the ratio of two bills: one of the past, one made up."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from tests.support.fixtures import SHARED

GCP_SPOT = SHARED / "history" / "series_gcp_spot_us-central1.csv"
A100_HOURS, H100_HOURS = 12, 4  # BERT-Large, as published: one GPU of each

Point = tuple[datetime, Decimal | None]

START = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(minutes=5)


def gcp_spot(a100: str) -> list[Point]:
    """H100 job / A100 job on the spot market of GCP us-central1, about weekly from 2024-05-17 to
    2026-07-30. *a100* names the column of its price."""
    points: list[Point] = []
    with GCP_SPOT.open(newline="") as lines:
        for row in csv.DictReader(lines):
            at = datetime.fromisoformat(row["observed_at"])
            challenger = Decimal(row["h100_per_gpu"]) * H100_HOURS
            points.append((at, challenger / (Decimal(row[a100]) * A100_HOURS)))
    return points


@dataclass(frozen=True)
class Marketplace:
    """A made-up marketplace: the ratio of its cheapest offers, whenever it changes."""

    points: list[Point]
    start: datetime
    end: datetime
    moves: list[datetime]  # when the market itself goes below 1

    @property
    def crossings(self) -> int:
        """How often the ratio goes from one side of 1 to the other."""
        sides = [value <= 1 for _, value in self.points if value is not None]
        return sum(a is not b for a, b in pairwise(sides))


def marketplace(*, seed: int, days: int = 125, crossings: int = 40) -> Marketplace:
    """A minimum that crosses 1 *crossings* times (an even number) in *days* days.

    As on a real marketplace most crossings are no news: a single cheap machine that is rented
    within minutes, or a minimum that sits near the line for hours and moves by cents. Twice the
    market itself moves, for three days. Asks come and go all the time, within one percent.
    """
    rng = random.Random(seed)  # noqa: S311
    count = days * 288
    level = [Decimal("1.08")] * count
    trips = crossings // 2
    real, moves = rng.sample(range(1, trips + 1), 2), list[datetime]()
    for i in range(1, trips + 1):
        at = count * i // (trips + 2) + rng.randrange(60)
        if i in real:
            length, to = 288 * 3, Decimal("0.93")
            moves.append(START + at * STEP)
        elif rng.random() < 0.5:
            length, to = rng.randint(1, 5), Decimal("0.80")
        else:
            length, to = rng.randint(20, 200), Decimal("0.988")
        level[at : at + length] = [to] * length
    points: list[Point] = []
    noise = Decimal(0)
    for i, value in enumerate(level):
        if rng.random() < 0.4:
            noise = Decimal(rng.randint(-50, 50) + rng.randint(-50, 50)) / 10_000
        if not points or points[-1][1] != value + noise:
            points.append((START + i * STEP, value + noise))
    return Marketplace(points, START, START + (count - 1) * STEP, moves)

"""The list prices of a table by day, in as little memory as they fit into: a million rows."""

from __future__ import annotations

from collections import defaultdict
from datetime import date

from tracker.collect.importing.observation import Report
from tracker.collect.importing.rules import FAR_BELOW, Week, far_below, monday_of, unconfirmed
from tracker.domain.gpu import Gpu

_DAYS = 10_000_000  # more than any ordinal of a date
_ROWS = 1 << 20  # more rows than an offer has on one day


class Days:
    """What ``far_below`` needs to know of all list prices of whole GPUs."""

    def __init__(self) -> None:
        self._lowest: dict[Week, dict[str, int]] = defaultdict(dict)
        self._of: dict[int, tuple[Gpu, str]] = {}
        # offer and day → lowest price and rows, two numbers in one: objects would take 500 bytes.
        self._days: dict[int, int] = {}

    def add(self, offer: int, gpu: Gpu, seller: str, day: date, micro_usd_per_gpu: int) -> None:
        """Count one price of *offer*, in micro-USD per GPU-hour."""
        self._of.setdefault(offer, (gpu, seller))
        week = self._lowest[Week(gpu.family, monday_of(day))]
        week[seller] = min(week.get(seller, micro_usd_per_gpu), micro_usd_per_gpu)
        key = offer * _DAYS + day.toordinal()
        before = self._days.get(key)
        if before is None:
            self._days[key] = micro_usd_per_gpu * _ROWS + 1
        else:
            usd, rows = divmod(before, _ROWS)
            self._days[key] = min(usd, micro_usd_per_gpu) * _ROWS + rows + 1

    def doubt(self, report: Report) -> None:
        """Count as refused in *report* the days on which an offer was far below all others."""
        limits = far_below(self._lowest)
        below: list[tuple[int, date, int, int]] = []
        for key, value in self._days.items():
            offer, ordinal = divmod(key, _DAYS)
            gpu, seller = self._of[offer]
            day, (usd, rows) = date.fromordinal(ordinal), divmod(value, _ROWS)
            limit = limits.get((Week(gpu.family, monday_of(day)), seller))
            if limit is not None and usd < limit:
                below.append((offer, day, usd, rows))
        wrong = unconfirmed((offer, day) for offer, day, _, _ in below)
        for offer, day, usd, rows in below:
            if offer in wrong:
                gpu, seller = self._of[offer]
                sample = f"{seller} {gpu.key} on {day}: ${usd / 10**6:.4f} a GPU"
                report.drop(FAR_BELOW, seller, gpu.key, sample, rows)

"""What filters leave of the market, kept for the questions to come.

What a question leaves of the offers, and their order by price, is worked out once for each set of
filters and kept while the database says nothing new. It is the same for every job.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from tracker.domain.job import Job
from tracker.report.costing import Costing
from tracker.report.discounts import DiscountBook
from tracker.report.filters import Filters, gives_way, select
from tracker.report.racks import Rack, Racked, racked, racks_of
from tracker.report.runs import KnownWays
from tracker.store.reads import Shelf, StoredOffer


class _Selected(NamedTuple):
    """What was selected at ``at``, which stays the same ``until`` then for the same of the rest."""

    excluded: Counter[str]
    filters: Filters
    shelves: frozenset[Shelf]
    discounts: DiscountBook
    racks: list[Rack]
    at: datetime
    until: datetime


class Prepared:
    """What one set of filters leaves of one state of the market; may be asked by several threads.

    *offers* are those of ``report.asked.Asked``, which never change; *hours_usd* is that of
    ``racks_of``, one for all selections of these offers.
    """

    def __init__(
        self, offers: list[StoredOffer], left_out: Counter[str], hours_usd: dict[int, Decimal],
        known: KnownWays,
    ) -> None:  # fmt: skip
        self.offers, self.left_out, self._hours_usd = offers, left_out, hours_usd
        self.known = known
        self.giving_way = frozenset(o.provider for o in offers if gives_way(o))
        self._selected: _Selected | None = None
        self._selecting = threading.Lock()

    def __len__(self) -> int:
        return len(self.offers)

    def bounds(
        self, costing: Costing, filters: Filters, now: datetime, total: int,
        shelves: frozenset[Shelf], discounts: DiscountBook,
    ) -> tuple[Racked, Counter[str]]:  # fmt: skip
        """What has a bill, and the reasons of the others."""
        alike = filters._replace(gpus=())  # which GPUs they are of stands in the offers
        with self._selecting:
            found = self._selected
            if (
                found is None
                or found[1:4] != (alike, shelves, discounts)
                or not (found.at <= now < found.until)
            ):
                found = self._selected = self._select(
                    costing, filters, now, total, shelves, discounts
                )
        excluded = Counter(found.excluded)
        known = self.known.of(costing.job).runs
        return racked(costing, found.racks, discounts, excluded, known), excluded

    def _select(
        self, costing: Costing, filters: Filters, now: datetime, total: int,
        shelves: frozenset[Shelf], discounts: DiscountBook,
    ) -> _Selected:  # fmt: skip
        selection = select(
            self.offers, filters, costing.catalogue, now,
            total_offers=total, left_out=self.left_out, shelves=shelves,
        )  # fmt: skip
        racks = racks_of(selection.kept, discounts, self._hours_usd)
        until = now if filters.max_age is not None else _changes_at(self.offers, now)
        alike = filters._replace(gpus=())
        return _Selected(selection.excluded, alike, shelves, discounts, racks, now, until)


def _changes_at(offers: Sequence[StoredOffer], now: datetime) -> datetime:
    """When the next offer becomes stale: a selection stays the same until then."""
    never = datetime.max.replace(tzinfo=now.tzinfo)
    return min((o.stale_at for o in offers if o.stale_at > now), default=never)


def suits(job: Job) -> bool:
    """Whether racks can answer for *job*: a budget must look at every offer's bill."""
    return job.limits is None or job.limits.budget_usd is None

"""What there is to rent instead of a machine of one's own."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job
from tracker.report.asked import ask
from tracker.report.cheapest import CheapestReport, cheapest_report
from tracker.report.discounts import DiscountBook
from tracker.report.filters import ANY, DEFAULT_MARKETS, Filters
from tracker.report.health import check_providers, check_tiers
from tracker.report.needs import with_needs
from tracker.store import reads
from tracker.store.reads import TERM_MARKETS

if TYPE_CHECKING:
    import psycopg

    from tracker.report.own import Look

_BY_USE = ("on_demand", "spot")


def rents(
    connection: psycopg.Connection[Any],
    job: Job,
    filters: Filters,
    catalogue: Catalogue,
    now: datetime,
    *,
    own_gpu: str,
    as_of: datetime | None = None,
) -> Look:
    """A look at the offers recorded, machines of one's own not among them.

    *filters* may name the GPUs to rent; a look at the machine's own GPU heeds all but these.
    Raises UnknownGpu, UnknownProvider.
    """
    filters = with_needs(filters, job)
    check_providers(connection, filters.providers)
    check_tiers(connection, filters.tiers)
    names = filters.gpus or (tuple(job.hours) if job.task is None else ())
    wanted = frozenset().union(*(catalogue.select(name) for name in names)) if names else None
    markets = filters.markets or DEFAULT_MARKETS
    if ANY in markets:
        markets = (*_BY_USE, *TERM_MARKETS)
    filters = filters._replace(markets=markets)
    read = None if wanted is None else wanted | {own_gpu}
    asked = ask(connection, filters, read, now, as_of)
    discounts = DiscountBook.at(reads.discounts(connection, now), now)

    def look(by_month: bool, same: bool) -> CheapestReport | None:
        chosen = tuple(market for market in markets if (market in TERM_MARKETS) is by_month)
        if not chosen:
            return None
        return cheapest_report(
            asked.offers, job,
            filters._replace(markets=chosen, gpus=(own_gpu,) if same else names),
            catalogue, now, top=None if by_month else 1, total_offers=asked.total,
            left_out=asked.left_out, shelves=asked.shelves, discounts=discounts,
        )  # fmt: skip

    return look

"""The figures that /metrics takes from the database: what any process of it would say alike.

What is cheap to read is read at every call. Prices are read again only when a poll has been
recorded or an offer has grown stale since, so that scraping costs next to nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job
from tracker.domain.money import from_micro_usd
from tracker.report.cheapest import cheapest_report
from tracker.report.discounts import DiscountBook
from tracker.report.filters import ANY, Filters, select
from tracker.report.grouped import spread
from tracker.report.health import ProviderHealth, provider_health
from tracker.report.measured import measured
from tracker.store import gauges, reads
from tracker.store.engine import read_connection
from tracker.store.reads import StoredOffer

if TYPE_CHECKING:
    import psycopg

TIMEOUT_S = 5.0
NEVER = datetime.max.replace(tzinfo=UTC)
REREAD_AFTER = timedelta(minutes=10)  # discounts begin and end without a poll


@dataclass(frozen=True, slots=True)
class GpuPrice:
    """What fresh offers of one GPU ask for on one market, in USD per GPU-hour: see ``Spread``."""

    gpu: str
    market: str
    minimum: Decimal
    p10: Decimal
    median: Decimal


@dataclass(frozen=True, slots=True)
class JobCost:
    """The cheapest whole bill of a job on one family of GPUs, in USD."""

    workload: str
    gpu: str
    usd: Decimal
    lower_bound: bool


@dataclass(frozen=True, slots=True)
class Prices:
    """Everything worked out from offers. It holds until ``until``."""

    gpus: tuple[GpuPrice, ...] = ()
    jobs: tuple[JobCost, ...] = ()
    until: datetime = NEVER


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures at one moment. ``providers`` are those that are polled."""

    at: datetime
    providers: tuple[ProviderHealth, ...] = ()
    prices: Prices = field(default_factory=Prices)
    rules: tuple[gauges.RuleGauge, ...] = ()
    outbox: tuple[gauges.OutboxGauge, ...] = ()


class StoreFigures:
    """Reads the figures of the database at ``url()``.

    *jobs* gives the jobs whose bills are told: a callable, so that a reload may change them. A
    call raises StoreError when the database does not answer; it may be made from any thread, but
    from one at a time.
    """

    def __init__(
        self,
        url: Callable[[], str],
        catalogue: Catalogue,
        jobs: Callable[[], Sequence[Job]] = tuple,
        *,
        utc_now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._url = url
        self._catalogue = catalogue
        self._jobs = jobs
        self._utc_now = utc_now
        self._prices: tuple[object, Prices] | None = None

    def __call__(self) -> Figures:
        """The figures now."""
        now = self._utc_now()
        with read_connection(self._url(), statement_timeout_s=TIMEOUT_S) as connection:
            health = tuple(
                h for h in provider_health(connection, now) if h.provider.every_seconds is not None
            )
            return Figures(
                at=now,
                providers=health,
                prices=self._current(connection, health, now),
                rules=tuple(gauges.rules(connection)),
                outbox=tuple(gauges.outbox(connection)),
            )

    def _current(
        self, connection: psycopg.Connection[Any], health: Iterable[ProviderHealth], now: datetime
    ) -> Prices:
        jobs = tuple(self._jobs())
        mark = (tuple((h.provider.slug, h.provider.last_ok_at) for h in health), jobs)
        if self._prices is not None:
            known, prices = self._prices
            # A clock that was set back must not keep old prices alive.
            if known == mark and prices.until - REREAD_AFTER <= now < prices.until:
                return prices
        prices = read_prices(connection, self._catalogue, jobs, now)
        self._prices = (mark, prices)
        return prices


def read_prices(
    connection: psycopg.Connection[Any], catalogue: Catalogue, jobs: Iterable[Job], now: datetime
) -> Prices:
    """Prices and bills of the offers that are fresh at *now*."""
    offers = reads.live_offers(connection)
    listed = {o.provider for o in offers if o.fallback}
    shelves = reads.live_shelves(connection, sellers=listed, now=now)
    discounts = DiscountBook.at(reads.discounts(connection, now), now)
    # In every market on purpose, unlike the question for a job: each is a series of its own.
    fresh = select(offers, Filters(markets=(ANY,)), catalogue, now, shelves=shelves).kept
    bills: list[JobCost] = []
    for job in (measured(connection, job) for job in jobs):
        names = tuple(job.hours) if job.task is None else ()
        report = cheapest_report(
            offers, job, Filters(gpus=names), catalogue, now,
            top=1, total_offers=len(offers), shelves=shelves, discounts=discounts,
        )  # fmt: skip
        for row in report.best_by_gpu:
            if row.bill.total_usd is not None:
                family, usd = row.offer.gpu_family, row.bill.total_usd
                bills.append(JobCost(job.name, family, usd, row.bill.lower_bound))
    ends = [o.stale_at for o in offers if o.stale_at > now]
    return Prices(gpu_prices(fresh), tuple(bills), min([*ends, now + REREAD_AFTER]))


def gpu_prices(offers: Iterable[StoredOffer]) -> tuple[GpuPrice, ...]:
    """Minimum, tenth percentile and median of each GPU and market; see ``Spread``."""
    found: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
    for o in offers:
        if o.gpu_count >= 1:
            found[o.gpu_key, o.market].append(from_micro_usd(o.price_micro_usd) / o.gpu_count)
    out = []
    for (gpu, market), prices in sorted(found.items()):
        minimum, p10, median, _ = spread(sorted(prices))
        out.append(GpuPrice(gpu, market, minimum, p10, median))
    return tuple(out)

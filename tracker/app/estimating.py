"""How long a job takes on each GPU, with the prices of an open database beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

    from tracker.app.root import App
    from tracker.domain.job import Job
    from tracker.report.estimates import OnGpu


def without_prices(app: App, job: Job, names: Sequence[str]) -> list[OnGpu]:
    """The job on each GPU of *names*, or on the usual ones. Raises UnknownGpu."""
    from tracker.report.estimates import estimates, gpu_keys

    return estimates(job, gpu_keys(names, job, app.catalogue), app.catalogue)


def with_prices(
    connection: psycopg.Connection[Any], app: App, job: Job, names: Sequence[str], now: datetime
) -> list[OnGpu]:
    """The same with what was measured of the job, and the cheapest way on each GPU: of the offers
    among which ``cheapest`` chooses, one's own machines too. Raises UnknownGpu."""
    from tracker.report.discounts import DiscountBook
    from tracker.report.estimates import priced
    from tracker.report.filters import Filters
    from tracker.report.measured import measured
    from tracker.report.needs import with_needs
    from tracker.store import reads

    job = measured(connection, job)
    found = without_prices(app, job, names)
    keys = frozenset(on.gpu for on in found)
    asked = app.ask(connection, with_needs(Filters(), job), keys, now)
    asked = app.with_owned(asked, keys, now, past=False)
    discounts = DiscountBook.at(reads.discounts(connection, now), now)
    return priced(found, job, app.catalogue, asked, discounts, now)

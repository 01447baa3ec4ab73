"""What a job takes on each GPU, before and with prices: the read side of ``gpucost estimate``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.domain.job import Job, NoEstimate, RuntimeEstimate, is_slice, runtime_for
from tracker.report.cheapest import Row, cheapest_report
from tracker.report.filters import Filters
from tracker.report.needs import with_needs

if TYPE_CHECKING:
    import psycopg

    from tracker.domain.gpu import Catalogue
    from tracker.domain.runtime.types import Answer

# What most people choose from: the reference part of families that most providers rent.
USUAL_GPUS = (
    "B200-SXM-180GB", "H200-SXM-141GB", "H100-SXM-80GB", "H100-PCIE-80GB", "A100-SXM-80GB",
    "A100-PCIE-80GB", "A100-SXM-40GB", "L40S-48GB", "A6000-48GB", "RTX4090-24GB", "RTX3090-24GB",
    "L4-24GB", "V100-SXM-16GB", "T4-16GB", "MI300X-OAM-192GB",
)  # fmt: skip


class OnGpu(NamedTuple):
    """A job on one kind of GPU. ``answer`` is the way to the hours where they were worked out,
    ``row`` the cheapest offer of so many of them, where prices are known."""

    gpu: str
    gpus: int
    hours: RuntimeEstimate | NoEstimate
    answer: Answer | None = None
    row: Row | None = None


def estimates(job: Job, keys: Iterable[str], catalogue: Catalogue) -> list[OnGpu]:
    """The job on each GPU of *keys*: the fastest first, then those on which it cannot run."""
    found = [_on(job, key, catalogue) for key in dict.fromkeys(keys)]
    return sorted(
        found,
        key=lambda on: (
            isinstance(on.hours, NoEstimate),
            on.hours.hours if isinstance(on.hours, RuntimeEstimate) else 0,
            on.gpus,  # of a service, whose hours are the same everywhere
            on.gpu,
        ),
    )


def _on(job: Job, key: str, catalogue: Catalogue) -> OnGpu:
    if job.task is None:
        hours = runtime_for(job, key, catalogue)
        gpus = hours.gpus if isinstance(hours, RuntimeEstimate) else job.gpus_needed
        return OnGpu(key, max(gpus, job.gpus_needed), hours)
    from tracker.domain import evidence

    found = evidence.first_fit(job, key, catalogue)
    gpus = found.hours.gpus if isinstance(found.hours, RuntimeEstimate) else job.gpus_needed
    return OnGpu(key, gpus, found.hours, found.answer)


def gpu_keys(names: Sequence[str], job: Job, catalogue: Catalogue) -> list[str]:
    """The parts that *names* mean; the usual ones and the job's own where there are none.

    Keys that leave the form factor open are left out where a part is named. Raises UnknownGpu.
    """
    if not names:
        usual = [key for key in USUAL_GPUS if catalogue.spec(key) is not None]
        given = [_part(name, catalogue) for name in job.hours]
        if job.task is None:
            usual = []
        return [*dict.fromkeys([*(key for key in given if key), *usual])]
    keys: list[str] = []
    for name in names:
        found = sorted(key for key in catalogue.select(name) if not is_slice(key))
        parts = [key for key in found if catalogue.spec(key) is not None]
        keys += parts or found
    return keys


def _part(name: str, catalogue: Catalogue) -> str | None:
    if catalogue.gpu(name) is not None:
        return name
    reference = catalogue.reference(name)
    return reference.gpu.key if reference is not None else None


def priced(
    found: Sequence[OnGpu],
    job: Job,
    catalogue: Catalogue,
    connection: psycopg.Connection[Any],
    now: datetime,
) -> list[OnGpu]:
    """*found* with the cheapest offer of each GPU and count, by the job's own limits."""
    from tracker.report.asked import ask
    from tracker.report.discounts import DiscountBook
    from tracker.store import reads

    filters = with_needs(Filters(), job)
    keys = frozenset(on.gpu for on in found if isinstance(on.hours, RuntimeEstimate))
    asked = ask(connection, filters, keys, now)
    discounts = DiscountBook.at(reads.discounts(connection, now), now)
    out = []
    for on in found:
        offers = [offer for offer in asked.offers if offer.gpu_key == on.gpu]
        if offers:
            given = job.task is not None
            one = replace(job, gpus_needed=on.gpus, count_given=given)
            report = cheapest_report(
                offers, one, filters, catalogue, now, top=1, total_offers=len(offers),
                shelves=asked.shelves, discounts=discounts,
            )  # fmt: skip
            on = on._replace(row=report.rows[0] if report.rows else None)
        out.append(on)
    return out

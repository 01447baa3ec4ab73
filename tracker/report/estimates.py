"""What a job takes on each GPU, before and with prices: the read side of ``gpucost estimate``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from tracker.domain.job import Job, NoEstimate, RuntimeEstimate, is_slice, runtime_for
from tracker.report.cheapest import Row, cheapest_report
from tracker.report.filters import Filters

if TYPE_CHECKING:
    from tracker.domain.gpu import Catalogue
    from tracker.domain.runtime.types import Answer
    from tracker.report.asked import Asked
    from tracker.report.discounts import DiscountBook
    from tracker.store.reads import StoredOffer

# What most people choose from: the reference part of families that most providers rent.
USUAL_GPUS = (
    "B200-SXM-180GB", "H200-SXM-141GB", "H100-SXM-80GB", "H100-PCIE-80GB", "A100-SXM-80GB",
    "A100-PCIE-80GB", "A100-SXM-40GB", "L40S-48GB", "A6000-48GB", "RTX4090-24GB", "RTX3090-24GB",
    "L4-24GB", "V100-SXM-16GB", "T4-16GB", "MI300X-OAM-192GB",
)  # fmt: skip


class OnGpu(NamedTuple):
    """A job on one kind of GPU. ``answer`` is the way to the hours where they were worked out,
    ``row`` the cheapest way to run it there, where prices are known: then the count and the hours
    are those of that way."""

    gpu: str
    gpus: int
    hours: RuntimeEstimate | NoEstimate
    answer: Answer | None = None
    row: Row | None = None


def estimates(job: Job, keys: Iterable[str], catalogue: Catalogue) -> list[OnGpu]:
    """The job on each GPU of *keys*: the fastest first, then those on which it cannot run."""
    return _fastest_first(_on(job, key, catalogue) for key in dict.fromkeys(keys))


def _fastest_first(found: Iterable[OnGpu]) -> list[OnGpu]:
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
    asked: Asked,
    discounts: DiscountBook,
    now: datetime,
) -> list[OnGpu]:
    """*found* with the cheapest way to run the job on each GPU, by the job's own limits.

    *asked* holds the offers of these GPUs. A bill is that of ``cheapest_report`` for the same
    offer, and the count of GPUs is the one billed: a machine is paid for whole, so that the fewest
    GPUs that the job fits are seldom the cheapest. The fastest of these ways come first.
    """
    offers: dict[str, list[StoredOffer]] = {}
    for offer in asked.offers:
        offers.setdefault(offer.gpu_key, []).append(offer)
    out = []
    for on in found:
        mine = offers.get(on.gpu)
        if mine:
            report = cheapest_report(
                mine, job, Filters(), catalogue, now, top=1, total_offers=len(mine),
                shelves=asked.shelves, discounts=discounts,
            )  # fmt: skip
            if report.rows:
                on = _as_billed(on, report.rows[0], job, catalogue)
        out.append(on)
    return _fastest_first(out)


def _as_billed(on: OnGpu, row: Row, job: Job, catalogue: Catalogue) -> OnGpu:
    """*on* with the count, the hours and the way there of the bill of *row*."""
    gpus = max(row.estimate.gpus, job.gpus_needed)
    if job.task is None:
        return OnGpu(on.gpu, gpus, row.estimate, None, row)
    from tracker.domain import evidence

    per_machine = max(1, int(row.offer.gpu_count))
    way = evidence.find(job, on.gpu, row.estimate.gpus, catalogue, per_machine)
    return OnGpu(on.gpu, gpus, row.estimate, way.answer, row)

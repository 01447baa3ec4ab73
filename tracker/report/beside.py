"""What stands beside a bill: energy, and for text that is generated the price of a unit of it."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from tracker.domain.cost import Bill
from tracker.domain.energy import Load, energy
from tracker.domain.exact import EXACT, ratio_up
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job, RuntimeEstimate
from tracker.domain.runtime.types import Inference, Training

_MILLION = Decimal(1_000_000)


class Beside(NamedTuple):
    """None: not known, or not of this kind of job. USD are of the bill as far as it is known.

    ``kwh`` is of the GPUs used and their host while the job runs, between ``low_kwh`` and
    ``high_kwh``, which also span the range of the hours. Prompts are paid for with the output.
    """

    kwh: Decimal | None = None
    low_kwh: Decimal | None = None
    high_kwh: Decimal | None = None
    energy_assumptions: tuple[str, ...] = ()
    usd_per_request: Decimal | None = None
    usd_per_million_output: Decimal | None = None


def beside(bill: Bill, estimate: RuntimeEstimate, gpu_key: str, job: Job, catalogue: Catalogue) -> (
    Beside | None
):  # fmt: skip
    """For *job* on *gpu_key*; None for a job that does not say what it computes."""
    if job.task is None:
        return None
    workload = job.task.workload
    found = Beside()
    if isinstance(workload, Training | Inference):
        load = Load.TRAINING if isinstance(workload, Training) else Load.DECODE
        found = _energy(estimate, gpu_key, catalogue, load)
    if not isinstance(workload, Inference):
        return found
    output = Decimal(workload.output_tokens)
    requests = job.task.units["requests"]
    return found._replace(
        usd_per_request=ratio_up(bill.at_least_usd, requests),
        usd_per_million_output=(
            ratio_up(EXACT.multiply(bill.at_least_usd, _MILLION), EXACT.multiply(requests, output))
            if output
            else None
        ),
    )


def _energy(estimate: RuntimeEstimate, gpu_key: str, catalogue: Catalogue, load: Load) -> Beside:
    spec = catalogue.spec(gpu_key)
    watts, hours = spec.tdp_w if spec is not None else None, estimate.hours
    low_hours = hours if estimate.low_hours is None else estimate.low_hours
    high_hours = hours if estimate.high_hours is None else estimate.high_hours
    return _kwh(watts, max(1, estimate.gpus), (hours, low_hours, high_hours), load)


@lru_cache(maxsize=1024)  # the offers of one GPU and count have the same
def _kwh(
    watts: Decimal | None, gpus: int, of_hours: tuple[Decimal, Decimal, Decimal], load: Load
) -> Beside:
    point, low, high = (energy(watts, gpus, hours, load) for hours in of_hours)
    if point is None or low is None or high is None:
        return Beside()
    return Beside(point.kwh, low.low_kwh, high.high_kwh, point.assumptions)

"""What stands beside a bill: energy, and the price of a unit of what the job makes."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from tracker.domain.cost import Bill
from tracker.domain.energy import Load, energy
from tracker.domain.exact import EXACT, ratio_up
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job, RuntimeEstimate
from tracker.domain.measurement import unit_of
from tracker.domain.money import HOURS_PER_MONTH, PerMachineHour
from tracker.domain.runtime.types import Inference, Training
from tracker.domain.serving_cost import (
    Copy,
    Request,
    seconds_per_request,
    token_prices,
    usd_per_completed,
)

_MILLION = Decimal(1_000_000)
_SECONDS = Decimal(3600)


class Beside(NamedTuple):
    """None: not known, or not of this kind of job. USD are of the bill as far as it is known.

    ``kwh`` is of the GPUs used and their host while the job runs, between ``low_kwh`` and
    ``high_kwh``, which also span the range of the hours, or of the GPUs of a service. Requests and
    tokens share the whole bill; where the speeds of reading and writing are not known apart, the
    prompts are paid for with the output and ``usd_per_million_input`` is None. Where a service is
    committed to for longer than it is asked for, ``unit_hours`` are those whose requests share the
    bill: of all the term for a service of a month or more, which is taken to go on.
    ``usd_per_month`` is the bill of a month of 730 hours of service at the rate asked for,
    ``utilisation`` the share of it that the machines are busy. ``usd_per_completed``: a job of the
    batch. ``co2_kg`` and ``tokens_per_kwh`` (of inference those put out) come with the place
    (``site.at_site``).
    """

    kwh: Decimal | None = None
    low_kwh: Decimal | None = None
    high_kwh: Decimal | None = None
    energy_assumptions: tuple[str, ...] = ()
    usd_per_request: Decimal | None = None
    usd_per_million_input: Decimal | None = None
    usd_per_million_output: Decimal | None = None
    usd_per_month: Decimal | None = None
    utilisation: Decimal | None = None
    usd_per_completed: Decimal | None = None
    work_per_usd: Decimal | None = None  # of what ``work_unit`` names, rounded to six digits
    work_unit: str | None = None
    unit_hours: Decimal | None = None
    co2_kg: Decimal | None = None
    tokens_per_kwh: Decimal | None = None


def beside(
    bill: Bill,
    estimate: RuntimeEstimate,
    gpu_key: str,
    job: Job,
    catalogue: Catalogue,
    month: Bill | None = None,
    term_hours: int = 0,
) -> Beside | None:
    """For *job* on *gpu_key*; None for a job that says neither what it computes nor what it makes.

    *month* is the bill of a month of service, where it is one, and *term_hours* those that the
    offer is committed to for.
    """
    if job.task is None and job.completes is None:
        return None
    workload = None if job.task is None else job.task.workload
    found = Beside()
    if isinstance(workload, Training | Inference):
        load = Load.TRAINING if isinstance(workload, Training) else Load.DECODE
        found = _energy(estimate, gpu_key, catalogue, load)
    if job.completes is not None:
        each = usd_per_completed(bill.at_least_usd, job.completes)
        found = found._replace(usd_per_completed=each)
    kept = None if job.task is None else job.task.service_hours
    shared, part = bill, Decimal(1)
    if kept is not None and term_hours > kept:
        found = found._replace(unit_hours=kept)
        if month is not None and kept >= HOURS_PER_MONTH:
            shared, part = month, HOURS_PER_MONTH / kept
            found = found._replace(unit_hours=Decimal(term_hours))
    found = _worth(found, shared, job, part)
    if isinstance(workload, Inference) and job.task is not None:
        requests = EXACT.multiply(job.task.units["requests"], part)
        found = _served(found, shared, estimate, workload, requests)
        found = found._replace(usd_per_month=None if month is None else month.at_least_usd)
    return found


def _served(
    found: Beside, bill: Bill, estimate: RuntimeEstimate, workload: Inference, requests: Decimal
) -> Beside:
    """The whole bill divided among the requests, and among the tokens that they read and write."""
    each = Request(workload.input_tokens, workload.output_tokens)
    found = found._replace(usd_per_request=ratio_up(bill.at_least_usd, requests))
    speeds = estimate.speeds
    if speeds is None:
        if not each.output_tokens:
            tokens = EXACT.multiply(requests, Decimal(each.input_tokens))
            return found._replace(usd_per_million_input=_per_million(bill, tokens))
        tokens = EXACT.multiply(requests, Decimal(each.output_tokens))
        return found._replace(usd_per_million_output=_per_million(bill, tokens))
    copy = Copy(speeds.output_per_second, speeds.input_per_second, bill.machines)
    seconds = seconds_per_request(copy, each)
    found = found._replace(utilisation=_utilisation(workload, seconds))
    if not bill.at_least_usd:
        return found
    # What a machine costs for an hour in which it is busy, idle hours, set-up and disk included.
    busy = ratio_up(EXACT.multiply(requests, seconds), _SECONDS)
    hour = ratio_up(bill.at_least_usd, EXACT.multiply(busy, Decimal(bill.machines)))
    prices = token_prices(PerMachineHour(hour), copy, each)
    return found._replace(
        usd_per_million_input=prices.per_million_input,
        usd_per_million_output=prices.per_million_output,
    )


def _worth(found: Beside, bill: Bill, job: Job, part: Decimal) -> Beside:
    """What a dollar buys of what the job counts, of which the bill is for that *part*."""
    unit, amount = ("jobs", Decimal(job.completes)) if job.completes is not None else unit_of(job)
    if unit is None or amount is None or not bill.at_least_usd:
        return found
    return found._replace(
        work_per_usd=Decimal(f"{amount * part / bill.at_least_usd:.6g}"), work_unit=unit
    )


def _per_million(bill: Bill, tokens: Decimal) -> Decimal:
    return ratio_up(EXACT.multiply(bill.at_least_usd, _MILLION), tokens)


def _utilisation(workload: Inference, seconds: Decimal) -> Decimal | None:
    """The share of the time that all machines together are busy; None where no rate is asked for.

    At most 1: speeds are rounded.
    """
    if workload.request_rate is None:
        return None
    rate = Decimal(f"{workload.request_rate:.12g}")
    return min(Decimal(1), EXACT.multiply(rate, seconds))


def _energy(estimate: RuntimeEstimate, gpu_key: str, catalogue: Catalogue, load: Load) -> Beside:
    spec = catalogue.spec(gpu_key)
    watts = spec.tdp_w if spec is not None else None
    low, high = estimate.at_low() or estimate, estimate.at_high() or estimate
    runs = tuple((max(1, at.gpus), at.hours) for at in (estimate, low, high))
    return _kwh(watts, runs, load)


@lru_cache(maxsize=1024)  # the offers of one GPU and count have the same
def _kwh(watts: Decimal | None, runs: tuple[tuple[int, Decimal], ...], load: Load) -> Beside:
    """Of GPUs and hours: as estimated, and at both ends of the range."""
    point, low, high = (energy(watts, gpus, hours, load) for gpus, hours in runs)
    if point is None or low is None or high is None:
        return Beside()
    return Beside(point.kwh, low.low_kwh, high.high_kwh, point.assumptions)
